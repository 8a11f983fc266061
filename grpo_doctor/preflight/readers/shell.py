"""Shell scripts: ``--flags`` and hydra's ``a.b=c``, with variables filled in. Nothing is executed.

Read are quotes, continued lines, comments, arrays, ``${X:-default}`` and ``$((arithmetic))``; what depends on the
command line or on a program's output stays `Unresolved`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...sources import ReadError
from ..entry import Launch, Unresolved, scalar
from ..expression import evaluate
from .beside import beside, text_of, unrooted
from .follow import follow
from .lexer import Lexer, Statement, Word, raw_text
from .modules import plain
from .python import read_modules

_VARIABLE = re.compile(r"\$\{(\w+)(?::?[-=]((?:[^{}$]|\$\{\w+\}|\$\w+)*))?\}|\$(\w+)|\$\{[^}]{0,500}\}")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_ARRAY = re.compile(r"\$\{(\w+)\[[@*]\]\}|\$[@*]|\$\{[@*]\}")
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_]\w*(?:[./][\w\-]+)+)=", re.DOTALL)
_PLAIN = re.compile(r"[+~]{0,2}([a-z_]\w*)=")
_FLAG = re.compile(r"--?[A-Za-z]")
_SERVER = re.compile(
    r"\bvllm serve|vllm-serve|swift (?:rollout|eval|infer|deploy|export|sample)|launch_server|api_server"
)
_STARTS = re.compile(r"\s(?:\S+\.py|-m\s+[\w.]+)(?=\s|$)")
"""What starts a script of Python, whose settings may be all in it."""
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh|source|\.|sbatch|srun|qsub|bsub")
"""What starts another script of the shell."""
_SCRIPT = re.compile(r"\S\.(?:sh|bash|slurm|sbatch)$")
_HELD = re.compile(r"\$\(\s*cat\s*<<-?\s*['\"]?(\w+)['\"]?\s*\n(.*?)\n\s*\1\s*\)$", re.DOTALL)
"""A script that a variable holds."""
SCRIPTS = 3
"""Scripts that start each other at most."""
OTHERS = 40
"""Other scripts that are read for one file at most."""
_TOOLS = frozenset("echo printf cat cp mv rm ls mkdir chmod git pip pip3 wget curl which test touch tee grep".split())
"""Programs that may name a script without starting it."""
_SKIPPED = frozenset(
    "if then else elif fi while until do done case esac function { } [ [[ ! time exec nohup sudo".split()
)
ENVIRONMENT = "script environment"
"""Program of the launch that a script's variables make."""
LONGEST = 5_000
"""Commands of a script at most."""
SWEEP = 200
"""Commands with settings at most."""
DEPTH = 8
"""Variables in variables at most."""


Words = list[tuple[str, int]]
"""Words of a command and the line of each; 0 in another file."""


def read_shell(text: str, path: Path, written: Mapping[str, str] | None = None) -> list[Launch]:
    """A launch for every command of the script that passes settings, and for every Python that it holds or starts.

    Where no command says anything of a training, its variables may be meant for a program that asks the environment:
    they are the last launch. ``written`` is the text of files that are written before the script runs.
    """
    context = _Context(path, written=dict(written or {}))
    launches = _read(text, context)
    return [*launches, _environment(context.shared)]


def read_words(words: list[str], line: int, path: Path) -> list[Launch]:
    """The launches of one command whose words are known, as a list that Python starts."""
    context = _Context(path)
    launches: list[Launch] = []
    _run([(word, line) for word in words], context, launches)
    for launch in launches:
        follow(launch, path, {}, True)
    return launches


@dataclass
class _Context:
    """What a script knows while it is read, and which file it stands in."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)
    shared: dict[str, tuple[Any, int]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    passed: Words | None = None
    depth: int = 0
    folder: str = ""
    spent: list[str] = field(default_factory=list)

    def affords(self, what: str) -> bool:
        """Whether one more script may be read for this file; those that it leads to count together."""
        self.spent.append(what)
        return len(self.spent) <= OTHERS


def _read(text: str, context: _Context) -> list[Launch]:
    """The launches of a script, or of one that another starts."""
    environment, shared, path = context.environment, context.shared, context.path
    arrays: dict[str, Words] = {} if context.passed is None else {"@": context.passed}
    branches = _Branches()
    launches: list[Launch] = []
    for number, statement in enumerate(Lexer(text).statements()):
        if number == LONGEST or len(launches) >= SWEEP:
            raise ReadError(f"more than {LONGEST} commands, or {SWEEP} with settings, so no configuration")
        if context.depth:
            statement.words = [Word(0, word.pieces) for word in statement.words]
        if statement.array:
            arrays.setdefault(statement.array, []).extend(_filled(statement.words, environment, arrays))
            continue
        words = _filled(statement.words, environment, arrays)
        branches.see([word for word, _ in words], environment)
        while words and (words[0][0] in _SKIPPED or words[0][0] in ("export", "local", "declare", "readonly", "env")):
            words = words[1:]
        if words and words[0][0] == "for" and len(words) > 3:
            environment[words[1][0]] = words[3][0] if len(words) == 4 else f"${words[1][0]}"
            continue
        while words and (named := _ASSIGNMENT.match(words[0][0])) and not _OVERRIDE.match(words[0][0]):
            value = branches.value(named[1], words[0][0][named.end() :], environment)
            environment[named[1]] = value
            if (held := _HELD.match(value)) is not None and context.depth < SCRIPTS:
                launches += _read(held[2], replace(context, depth=context.depth + 1))
            shared[named[1]] = (value, words[0][1])
            words = words[1:]
        if words and words[0][0] == "eval":
            words = _filled_again(words[1:], environment, arrays)
        if not words:
            continue
        if statement.document:
            _document(words, statement, context, launches)
        else:
            _run(words, context, launches)
    for launch in launches:
        if not launch.followed:
            follow(launch, path, context.written, context.affords(launch.program))
    return [launch for launch in launches if launch.entries or launch.elsewhere]


def _run(words: Words, context: _Context, launches: list[Launch]) -> None:
    """A command: Python in a word, a script of the shell in a word or in a file, or what passes settings."""
    given = [word for word, _ in words]
    inline = next((n for n, word in enumerate(given[:-1]) if re.fullmatch(r"-\w{0,3}c", word)), 0)
    if inline and "python" in given[0]:
        _python(given[inline + 1], words[0][1], launches)
    elif inline and context.depth < SCRIPTS and any(_SHELL.fullmatch(word) for word in given[:inline]):
        launches += _read(given[inline + 1], replace(context, depth=context.depth + 1))
    elif given[0] == "cd" and len(words) > 1:
        context.folder = unrooted(given[1])
    elif not _other(words, context, launches):
        _command(words, launches, context.shared)
        if launches:
            launches[-1].folder = launches[-1].folder or context.folder


def _other(words: Words, context: _Context, launches: list[Launch]) -> bool:
    """Reads the script that a command starts or takes in, if it lies beside; the words behind it are its arguments."""
    first = words[0][0]
    at = next((n for n, (word, _) in enumerate(words) if _SCRIPT.search(word)), None)
    if at is None or (at and not _SHELL.fullmatch(first)) or context.depth == SCRIPTS or len(context.spent) >= OTHERS:
        return False
    named = unrooted(words[at][0])
    found = beside(context.path, named) or beside(context.path, f"{context.folder}/{named}")
    text = text_of(found) if found is not None and found != context.path else None
    text = context.written.get(words[at][0]) or text
    if text is None or not context.affords(named):
        return False
    taken_in = first in ("source", ".")
    passed = words[at + 1 :]
    environment = context.environment if taken_in else dict(context.environment)
    if not taken_in:
        environment |= {str(n): word for n, (word, _) in enumerate(passed, 1)}
    inner = replace(
        context, path=found or context.path, environment=environment, passed=passed, depth=context.depth + 1
    )
    launches += _read(text, inner)
    return True


def _document(words: Words, statement: Statement, context: _Context, launches: list[Launch]) -> None:
    """A here-document: Python or a script that runs, or a file that ``cat`` or ``tee`` writes."""
    if "python" in words[0][0]:
        _python(statement.document, statement.line - 1, launches)
    elif words[0][0] in ("cat", "tee") and (statement.target or words[1:]):
        names = (statement.target, *(word for word, _ in words[1:]))
        context.written |= dict.fromkeys(names, statement.document)
    elif context.depth < SCRIPTS:
        launches += _read(statement.document, replace(context, depth=context.depth + 1))


def _python(text: str, before: int, launches: list[Launch]) -> None:
    if not text.strip():
        return
    try:
        launches += read_modules([(plain(text), before)])[0]
    except ReadError as error:
        launches.append(Launch("", line=before + 1, notes=[f"Python in the script was not read: {error}"]))


def _environment(shared: dict[str, tuple[Any, int]]) -> Launch:
    """The variables of a script under the names of settings."""
    launch = Launch(ENVIRONMENT, complete=False)
    for name, (value, line) in shared.items():
        launch.add(name.lower(), _value(value), line)
    return launch


def _command(words: Words, launches: list[Launch], shared: dict[str, tuple[Any, int]]) -> None:
    """Adds the launch that a command is, if it passes settings; arguments alone belong to the command before."""
    first = words[0][0]
    if (first.startswith("--") or _OVERRIDE.match(first)) and launches:
        _settings(words, launches[-1])
        return
    launch = Launch("", line=words[0][1])
    rest = _settings(words, launch)
    launch.program = " ".join(rest)[:500]
    if rest and rest[0] in _TOOLS and not launch.entries:
        return
    if _SERVER.search(launch.program) or not (launch.entries or _STARTS.search(f" {launch.program}")):
        return
    if any(word in ("$@", "${@}", "$*") or word.startswith("$@") for word in rest):
        launch.notes.append("arguments that the script passes on ($@) were not read")
    for name in ("CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES", "ASCEND_RT_VISIBLE_DEVICES"):
        if name in shared:
            launch.add(f"env.{name}", _value(shared[name][0]), shared[name][1])
    launches.append(launch)


def _settings(words: list[tuple[str, int]], launch: Launch) -> list[str]:
    """Adds the flags and overrides among the words; returns the other words. Of a key said twice the last counts."""
    found: dict[str, tuple[Any, int]] = {}
    rest: list[str] = []
    index = 0
    while index < len(words):
        word, line = words[index]
        index += 1
        if (override := _OVERRIDE.match(word)) or (override := _PLAIN.match(word)):
            key = override[1].replace("/", ".")
            found[key] = (_value(word[override.end() :]), line)
            if word.startswith("+"):
                launch.forced.add(key)
        elif word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            values = [value] if equals else []
            while not equals and index < len(words) and not _FLAG.match(words[index][0]) and words[index][0] != "--":
                if _OVERRIDE.match(words[index][0]) or (values and words[index][0].endswith(".py")):
                    break
                values.append(words[index][0])
                index += 1
            key = name.replace("-", "_")
            if key == "module":
                rest += ["-m", *values]  # as deepspeed and torchrun say it
                continue
            read = list(map(_value, values)) or [True]
            if isinstance(read[0], int | float) and any(isinstance(value, str) for value in read[1:]):
                rest += values[1:]  # a number and then words: the words belong to the command
                read = read[:1]
            found[key] = (read[0] if len(read) == 1 else read, line)
        else:
            rest.append(word)
    for key, (value, line) in found.items():
        launch.add(key, value, line)
    return rest


def _value(text: str) -> Any:
    if "$" in text or "`" in text:
        return Unresolved(text[:200])
    if text[:1] == "[" and text[-1:] == "]" and len(text) < 2000:
        inner = text[1:-1].strip()
        return [scalar(word.strip(" '\"")) for word in inner.split(",")] if inner else []
    return scalar(text.strip("'\""))


def _filled(
    words: list[Word], environment: dict[str, str], arrays: dict[str, list[tuple[str, int]]]
) -> list[tuple[str, int]]:
    """The words with variables filled in; an array's name becomes its elements."""
    out: list[tuple[str, int]] = []
    for word in words:
        raw = raw_text(word)
        if (named := _ARRAY.fullmatch(raw)) is not None:
            out += arrays.get(named[1] or "@", [(raw, word.line)])[:2000]
            continue
        text = "".join(_fill(piece, environment) if filled else piece for piece, filled in word.pieces)
        unquoted = all(filled for _, filled in word.pieces) and raw.startswith("$")
        parts = text.split() if unquoted and " --" in f" {text}" and "$(" not in text else [text]
        out += [(part, word.line) for part in parts[:2000]]
    return out


def _filled_again(words: Words, environment: dict[str, str], arrays: dict[str, Words]) -> Words:
    """The words of ``eval``, which splits what it is given and fills in the variables that were escaped before."""
    out: Words = []
    for text, line in words:
        for statement in Lexer(text).statements():
            out += _filled([Word(line, word.pieces) for word in statement.words], environment, arrays)
    return out


def _fill(text: str, environment: dict[str, str], depth: int = 0) -> str:
    if "$" not in text or depth == DEPTH or len(text) > 20_000:
        return text

    def replaced(found: re.Match[str]) -> str:
        name, default = found[1] or found[3], found[2]
        if name in environment and not environment[name].startswith(f"${name}"):
            return environment[name][:5000]
        return found[0] if default is None else _fill(default.strip("'\""), environment, depth + 1)

    filled = _VARIABLE.sub(replaced, text)
    return re.sub(r"\$\(\(((?:[^()]|\([^()]*\))*)\)\)", lambda m: _arithmetic(m, environment), filled)


def _arithmetic(found: re.Match[str], environment: dict[str, str]) -> str:
    expression = re.sub(r"[A-Za-z_]\w*", lambda m: environment.get(m[0], m[0]), found[1].replace("$", ""))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of `1if`, which Python will refuse one day
            value = evaluate(ast.parse(expression.strip().replace("/", "//"), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found[0]
    return found[0] if value is None else str(value)


@dataclass
class _Branch:
    """One ``if`` or ``case`` that is open.

    Attributes:
        taken: whether the branch that is read is certainly the one that runs, or certainly not; None where unknown.
        ruled_out: whether an earlier branch certainly runs.
        unsure: whether an earlier branch may run.
        before: the variables before a branch that does not run.
    """

    taken: bool | None = None
    ruled_out: bool = False
    unsure: bool = False
    before: dict[str, str] | None = None


class _Branches:
    """Which of a script's assignments stand in a branch that may not be taken."""

    def __init__(self) -> None:
        self.open: list[_Branch] = []
        self.chosen: set[str] = set()

    def see(self, words: list[str], environment: dict[str, str]) -> None:
        """The words of a statement, which may open or close a branch."""
        first = words[0] if words else ""
        if first in ("if", "case"):
            self.open.append(_Branch())
            self._enter(_decided(words) if first == "if" else None, environment)
        elif first in ("elif", "else") and self.open:
            branch = self._leave(environment)
            decided = _decided(words) if first == "elif" else True
            self._enter(False if branch.ruled_out else None if branch.unsure and decided else decided, environment)
        elif first in ("fi", "esac") and self.open:
            self._leave(environment)
            self.open.pop()

    def _enter(self, taken: bool | None, environment: dict[str, str]) -> None:
        branch = self.open[-1]
        branch.taken = taken
        branch.before = dict(environment) if taken is False else None

    def _leave(self, environment: dict[str, str]) -> _Branch:
        branch = self.open[-1]
        branch.ruled_out |= branch.taken is True
        branch.unsure |= branch.taken is None
        if branch.before is not None:
            environment.clear()
            environment.update(branch.before)
        return branch

    def value(self, name: str, value: str, environment: dict[str, str]) -> str:
        """What a variable holds after an assignment: a branch changes nothing that was set before all branches, and
        what two branches set differently is unknown."""
        before = environment.get(name, "")
        if all(branch.taken is not None for branch in self.open):
            self.chosen.discard(name)
            return value
        if name not in self.chosen and before and not before.startswith("$"):
            return before
        self.chosen.add(name)
        return value if not before or before == value or before.startswith("$") else f"${name}"


def _decided(words: list[str]) -> bool | None:
    """Whether ``if [[ a == b ]]`` holds; None where that depends on what is not known, or asks something else."""
    match words[1:]:
        case ["[" | "[[", left, ("=" | "==" | "!=") as sign, right, "]" | "]]", *_] if not _UNSURE.search(left + right):
            return (left == right) == (sign != "!=")
    return None


_UNSURE = re.compile(r"[$`*?]")
