"""Reads ``--flags`` and Hydra's ``a.b=c`` from shell scripts, with variables filled in. The scripts are not executed.

The reader supports quotes, continued lines, comments, arrays, functions, ``${X:-default}`` and ``$((arithmetic))``. A
variable that a loop or branch sets to one of several values becomes `Several`. A variable that depends on the command
line or on a program's output becomes `Unresolved`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...limits import spent
from ...readers import ReadError
from ..frameworks import known_fields
from ..launch import Launch, Several, Unresolved, scalar
from .branches import Branches
from .includes import documents, follow
from .lexer import Lexer, Statement, raw_text
from .modules import plain
from .nearby_files import beside, text_of, unrooted
from .python import read_modules
from .variables import SEVERAL, Variables, Words

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_]\w*(?:[./][\w\-]+)+)=", re.DOTALL)
_PLAIN = re.compile(r"[+~]{0,2}([a-z_]\w*)=")
_FLAG = re.compile(r"--?[A-Za-z]")
_BRANCH = re.compile(r"(?:^|;)\s*(then|elif|fi)\b")
_SERVER = re.compile(
    r"\bvllm serve|vllm-serve|swift (?:rollout|eval|infer|deploy|export|sample)|launch_server|api_server"
)
_STARTS = re.compile(r"\s(?:\S+\.py|-m\s+[\w.]+)(?=\s|$)")
"""The part of a command that starts a Python script or module, which may contain all settings."""
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh|source|\.|sbatch|srun|qsub|bsub")
"""Names of commands that start another shell script."""
_SCRIPT = re.compile(r"\S\.(?:sh|bash|slurm|sbatch)$")
_NUMBERS = re.compile(r"[\d.eE+\-]{1,20}(?:,[\d.eE+\-]{1,20}){1,50}")
SCRIPTS = 3
"""Maximum nesting of scripts that start other scripts."""
OTHERS = 40
"""Maximum number of other scripts that are read per file."""
_TOOLS = frozenset("echo printf cat cp mv rm ls mkdir chmod git pip pip3 wget curl which test touch tee grep".split())
"""Programs that may name a script without starting it."""
_SKIPPED = frozenset(
    "if then else elif fi while until do done case esac function { } [ [[ ! time exec nohup sudo".split()
)
_DECLARES = frozenset("export local declare readonly env typeset -x -a -A -i -r".split())
"""Words that may precede an assignment."""
ENVIRONMENT = "script environment"
"""Program name of the launch that contains only the variables of a script."""
LONGEST = 5_000
"""Maximum number of commands per script."""
SWEEP = 200
"""Maximum number of commands with settings."""
CALLS = 60
"""Maximum number of calls of the script's functions that are followed."""


def read_shell(text: str, path: Path, written: Mapping[str, str] | None = None) -> list[Launch]:
    """Return a launch for every command that passes settings, and for every Python program that a script contains or
    starts.

    The last launch contains the variables of the script, because a program may read its settings from the environment.
    ``written`` contains the text of files that are written before the script runs.
    """
    context = _Context(path, written=dict(written or {}))
    launches = _read(text, context)
    if launches and (torn := _torn(text, launches[-1])):
        launches[-1].complete = False
        launches[-1].notes.append(f"{torn}: the rest is missing, so defaults are not applied")
    own = {name: text for name, text in context.written.items() if name not in (written or {})}
    return [*launches, *documents(own, path, "script", context.begun), _environment(context.shared)]


def _torn(text: str, launch: Launch) -> str:
    """Return why a text seems to end in the middle of a command; empty if the text seems complete."""
    lines = [line.strip() for line in text.split("\n")]
    last = next((n for n in range(len(lines), 0, -1) if lines[n - 1] and lines[n - 1][0] != "#"), 0)
    words = lines[last - 1] if last else ""
    if words.endswith("\\"):
        return f"line {last} ends in a backslash"
    option = words.removeprefix("--")
    begun = option != words and option not in known_fields() and any(name.startswith(option) for name in known_fields())
    if begun or (len(words) > 2 and any(entry.key.startswith(words) for entry in launch.entries)):
        return f"line {last} ends inside the name of a setting"
    said = [found[1] for line in lines if line[:1] != "#" for found in _BRANCH.finditer(line)]
    if said.count("then") - said.count("elif") > said.count("fi"):
        return f"line {last} ends inside an unclosed `if`"
    return ""


def read_words(words: list[str], line: int, path: Path) -> list[Launch]:
    """Return the launches of one command with known words, such as a list that a Python script starts."""
    context = _Context(path)
    launches: list[Launch] = []
    _run([(word, line) for word in words], context, launches)
    for launch in launches:
        follow(launch, path, {}, True)
    return launches


@dataclass
class _Context:
    """The state of a script while it is read, including the path of its file."""

    path: Path
    variables: Variables = field(default_factory=Variables)
    shared: dict[str, tuple[Any, int]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    functions: dict[str, list[Statement]] = field(default_factory=dict)
    taken_in: bool = False
    depth: int = 0
    folder: str = ""
    spent: list[str] = field(default_factory=list)

    def affords(self, what: str) -> bool:
        """Return whether another script may be read for this file. Scripts that are started by other scripts also
        count."""
        self.spent.append(what)
        return len(self.spent) <= OTHERS


def _read(text: str, context: _Context) -> list[Launch]:
    """Return the launches of a script, which may have been started by another script."""
    script = _Script(context)
    script.follow(iter(list(islice(Lexer(text).statements(), LONGEST + 1))))
    if not context.taken_in:
        for name in [name for name in context.functions if name not in script.called]:
            script.call(name, None)
    for launch in script.launches:
        if not launch.followed:
            follow(launch, context.path, context.written, context.affords(launch.program))
    return [launch for launch in script.launches if launch.entries or launch.elsewhere or launch.absent]


class _Script:
    """Reads the statements of one script in the order of execution, as far as that order is known."""

    def __init__(self, context: _Context) -> None:
        self.context, self.variables = context, context.variables
        self.branches, self.launches = Branches(), list[Launch]()
        self.called: list[str] = []
        self.count = 0

    def follow(self, statements: Iterator[Statement]) -> None:
        """Read statements, and store the body of each function for its calls."""
        for statement in statements:
            spent()
            self.count += 1
            if self.count > LONGEST or len(self.launches) >= SWEEP:
                raise ReadError(f"more than {LONGEST} commands, or {SWEEP} with settings, so not a configuration")
            if self.context.depth:
                statement.words = [replace(word, line=0) for word in statement.words]
            if statement.array:
                self._array(statement)
            elif name := _defined(statement):
                statements = self._body(name, statement, statements)
                self.follow(statements)
                return
            else:
                self._step(statement)

    def _body(self, name: str, opening: Statement, statements: Iterator[Statement]) -> Iterator[Statement]:
        """Store the body of a function, and return the statements that follow the body. If no body follows, return all
        statements."""
        body: list[Statement] = []
        depth = 0 if opening.function else 1
        for statement in statements:
            first = raw_text(statement.words[0]) if statement.words else ""
            if not depth and first != "{":
                return chain([*body, statement], statements)
            depth += (first == "{") - (first == "}")
            if not depth:
                break
            body.append(statement)
        self.context.functions[name] = body
        return statements

    def call(self, name: str, given: Words | None) -> None:
        """Read the body of a function with these arguments; ``given`` is None if the arguments are unknown."""
        self.called.append(name)
        if len(self.called) > CALLS or self.count > LONGEST // 2:
            return
        before = self.variables.arrays.get("@")
        self.variables.give(given)
        self.follow(iter(self.context.functions[name]))
        self.variables.give(before)

    def _array(self, statement: Statement) -> None:
        if self.branches.closed:
            return
        elements = self.variables.words(statement.words)
        if not statement.appended and not self.branches.open:
            self.variables.arrays.pop(statement.array, None)
        self.variables.arrays.setdefault(statement.array, []).extend(elements)

    def _option(self, labels: tuple[str, ...]) -> None:
        """Read a branch of ``case "$1" in``. If the arguments are known, the branch runs if it matches an argument."""
        given = self.variables.arrays.get("@")
        if given is None or not self.branches.open or not self.branches.open[-1].of_options:
            return
        words = [word for word, _ in given]
        at = next((n for n, word in enumerate(words) if any(_is_option(word, label) for label in labels)), None)
        self.branches.option(at is not None, self.variables.named)
        if at is not None:
            self.variables.named |= {str(n): word for n, word in enumerate(words[at : at + 9], 1)}

    def _step(self, statement: Statement) -> None:
        """Read one command, loop or branch."""
        variables = self.variables
        if statement.label:
            self._option(statement.label)
            return
        words = variables.words(statement.words)
        self.branches.see([word for word, _ in words], variables.named, statement.goes_on)
        if words and words[0][0] == "case":
            self.branches.open[-1].of_options = raw_text(statement.words[1]) in ("$1", "${1}")
        elif words and words[0][0] == "esac":
            variables.give(variables.arrays.get("@"))
        if words and words[0][0] in ("case", "esac"):
            return
        while words and words[0][0] in _SKIPPED:
            words = words[1:]
        if words and words[0][0] == "for" and len(words) > 3:
            variables.loop(words[1][0], [word for word, _ in words[3:]])
            return
        words = self._assignments(words)
        if words and words[0][0] == "eval":
            words = variables.again(words[1:])
        if words:
            self._command(statement, words)

    def _command(self, statement: Statement, words: Words) -> None:
        """Process a command whose variables are filled in: a shell builtin, a function, or the start of a program."""
        variables, context, first = self.variables, self.context, words[0][0]
        if first == "read":
            variables.read([word for word, _ in words], statement.document)
        elif first == "shift" and not self.branches.open and (given := variables.arrays.get("@")) is not None:
            variables.give(given[1:])
        elif first in context.functions and first not in self.called[-3:-2] and not self.branches.closed:
            self.call(first, words[1:])
        elif statement.document:
            _document(words, statement, context, self.launches)
        else:
            _run(words, context, self.launches)

    def _assignments(self, words: Words) -> Words:
        """Store the variables that a statement sets, and return the remaining words."""
        variables, local = self.variables, False
        while words:
            if words[0][0] in _DECLARES:
                local |= words[0][0] == "local"
                words = words[1:]
                continue
            named = _ASSIGNMENT.match(words[0][0])
            if named is None or _OVERRIDE.match(words[0][0]):
                break
            name, value = named[1], words[0][0][named.end() :]
            if named[2]:
                value = f"{variables.named.get(name, '')}{value}"[:20_000]
            value = value if local else self.branches.value(name, value, variables.named)
            variables.named[name] = value
            self.context.shared[name] = (value, words[0][1])
            words = words[1:]
        return words


def _is_option(word: str, label: str) -> bool:
    """Return whether an argument matches a pattern of ``case``, such as ``--lr`` or ``--lr=*``."""
    return word.startswith(label[:-1]) if label.endswith("=*") else word == label


def _defined(statement: Statement) -> str:
    """Return the name of the function whose body follows a statement; empty if no function body follows."""
    words = [raw_text(word) for word in statement.words[:3]]
    return statement.function or (words[1] if words[:1] == ["function"] and words[2:] == ["{"] else "")


def _run(words: Words, context: _Context, launches: list[Launch]) -> None:
    """Read a command: inline Python, a shell script (inline or a file), or a command that passes settings."""
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
        _missing(words, context, launches)


def _other(words: Words, context: _Context, launches: list[Launch]) -> bool:
    """Read the script that a command starts or sources, if the script is found. The remaining words are the arguments
    of the script. Return whether a script was read."""
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
    inner = replace(context, path=found or context.path, depth=context.depth + 1, taken_in=first in ("source", "."))
    if not inner.taken_in:
        inner.variables, inner.functions = Variables(dict(context.variables.named)), {}
        inner.variables.give(words[at + 1 :])
    launches += _read(text, inner)
    return True


def _missing(words: Words, context: _Context, launches: list[Launch]) -> None:
    """Add a launch with the name of the shell script that a command starts, if the script is missing."""
    at = next((n for n, (word, _) in enumerate(words) if _SCRIPT.search(word)), 0)
    named = unrooted(words[at][0])
    starts = _SCRIPT.search(named) and (
        not at or (_SHELL.fullmatch(words[0][0]) and words[0][0] not in ("source", "."))
    )
    if starts and named not in context.written and beside(context.path, named) is None:
        launches.append(Launch("", line=words[at][1], absent=[named[:80]], followed=True))


def _document(words: Words, statement: Statement, context: _Context, launches: list[Launch]) -> None:
    """Read a here-document: a Python or shell script that runs, or a file that ``cat`` or ``tee`` writes."""
    if "python" in words[0][0]:
        _python(statement.document, statement.line - 1, launches)
    elif words[0][0] in ("cat", "tee") and (statement.target or words[1:]):
        names = (context.variables.fill(statement.target), *(word for word, _ in words[1:]))
        text = statement.document if statement.literal else context.variables.fill(statement.document)
        context.written |= dict.fromkeys(names, text)
        context.begun |= dict.fromkeys(names, 0 if context.depth else statement.line - 1)
    elif words[0][0] != "cat" and context.depth < SCRIPTS:  # ``cat`` only prints the document
        launches += _read(statement.document, replace(context, depth=context.depth + 1))


def _python(text: str, before: int, launches: list[Launch]) -> None:
    if not text.strip():
        return
    try:
        launches += read_modules([(plain(text), before)])[0]
    except ReadError as error:
        launches.append(Launch("", line=before + 1, notes=[f"Python in the script was not read: {error}"]))


def _environment(shared: dict[str, tuple[Any, int]]) -> Launch:
    """Return a launch with the variables of a script, which may have the names of settings."""
    launch = Launch(ENVIRONMENT, complete=False)
    for name, (value, line) in shared.items():
        launch.add(name.lower(), _value(value), line)
    return launch


def _command(words: Words, launches: list[Launch], shared: dict[str, tuple[Any, int]]) -> None:
    """Add a launch for a command that passes settings. A line with only arguments is added to the previous command, as
    the author intended, although the shell does not pass the arguments.
    """
    first, line = words[0]
    if (first.startswith("--") or _OVERRIDE.match(first)) and launches:
        _settings(words, launches[-1])
        launches[-1].severed.append(line)
        return
    launch = Launch("", line=words[0][1])
    rest = _settings(words, launch)
    launch.program = " ".join(rest)[:500].replace(SEVERAL, "|")
    if rest and rest[0] in _TOOLS and not launch.entries:
        return
    if _SERVER.search(launch.program) or not (launch.entries or _STARTS.search(f" {launch.program}")):
        return
    script = next((word for word in rest if _SCRIPT.search(word)), "")
    if script and (script == rest[0] or _SHELL.fullmatch(rest[0])):
        launch.complete = False  # the script's settings are unknown
        launch.notes.append(f"it starts {script[:80]}, which was not read")
    if any(word in ("$@", "${@}", "$*") or word.startswith("$@") for word in rest):
        launch.notes.append("arguments that the script passes through ($@) were not read")
    for name in ("CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES", "ASCEND_RT_VISIBLE_DEVICES"):
        if name in shared:
            launch.add(f"env.{name}", _value(shared[name][0]), shared[name][1])
    launches.append(launch)


def _settings(words: list[tuple[str, int]], launch: Launch) -> list[str]:
    """Add the flags and overrides to a launch, and return the remaining words. If a key occurs more than once, the last
    value counts."""
    found: dict[str, tuple[Any, int]] = {}
    rest: list[str] = []
    index = 0
    while index < len(words):
        word, line = words[index]
        index += 1
        if (override := _OVERRIDE.match(word)) or (override := _PLAIN.match(word)):
            key = override[1].replace("/", ".")
            found[key] = (_value(word[override.end() :], swept="." in key), line)
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
                rest += ["-m", *values]  # deepspeed and torchrun have such an option
                continue
            read = list(map(_value, values)) or [True]
            if isinstance(read[0], int | float) and any(isinstance(value, str) for value in read[1:]):
                rest += values[1:]  # the words after a number belong to the command
                read = read[:1]
            found[key] = (read[0] if len(read) == 1 else read, line)
        else:
            rest.append(word)
    for key, (value, line) in found.items():
        launch.add(key, value, line)
    return rest


def _value(text: str, swept: bool = False) -> Any:
    """Parse a word. If ``swept`` is true, numbers separated by commas are the values of Hydra's ``--multirun``."""
    values = [scalar(one.strip("'\"")) for one in text.split("," if swept and _NUMBERS.fullmatch(text) else SEVERAL)]
    if len(values) > 1 and all(isinstance(value, int | float) for value in values):
        return Several(values)
    if "$" in text or "`" in text or SEVERAL in text:
        return Unresolved(text[:200].replace(SEVERAL, " or "))
    if text[:1] == "[" and text[-1:] == "]" and len(text) < 2000:
        inner = text[1:-1].strip()
        return [scalar(word.strip(" '\"")) for word in inner.split(",")] if inner else []
    return scalar(text.strip("'\""))
