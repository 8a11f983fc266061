"""Shell scripts: ``--flags`` and hydra's ``a.b=c``, with variables filled in. Nothing is executed.

Read are quotes, continued lines, comments, arrays, ``${X:-default}`` and ``$((arithmetic))``; what depends on the
command line or on a program's output stays `Unresolved`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...sources import ReadError
from ..entry import Launch, Unresolved, scalar
from ..expression import evaluate
from .follow import follow
from .modules import plain
from .python import read_modules

_VARIABLE = re.compile(r"\$\{(\w+)(?::?[-=]((?:[^{}$]|\$\{\w+\}|\$\w+)*))?\}|\$(\w+)|\$\{[^}]{0,500}\}")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_ARRAY = re.compile(r"\$\{(\w+)\[[@*]\]\}")
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_]\w*(?:[./][\w\-]+)+)=", re.DOTALL)
_PLAIN = re.compile(r"[+~]{0,2}([a-z_]\w*)=")
_FLAG = re.compile(r"--?[A-Za-z]")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_REDIRECTION = re.compile(r">>?(?:&\d|\s{0,9}(?:\"[^\"\n]{0,500}\"|[^\s;|&\"]{1,500}))")
_CONTINUED = re.compile(r"\\\r?\n")
_SPECIAL = frozenset("\\'\"$#<>();&| \t\r\n")
_SERVER = re.compile(
    r"\bvllm serve|vllm-serve|swift (?:rollout|eval|infer|deploy|export|sample)|launch_server|api_server"
)
_SKIPPED = frozenset(
    "if then else elif fi while until do done case esac function { } [ [[ ! time exec nohup sudo".split()
)
ENVIRONMENT = "script environment"
"""Program of the launch that a script's variables make."""
LONGEST = 5_000
"""Commands of a script at most."""
PIECES = 30_000
"""Words, quotes and variables of a script at most."""
SWEEP = 200
"""Commands with settings at most."""
DEPTH = 8
"""Variables in variables at most."""


@dataclass
class Word:
    """A word of a statement: its pieces, each with whether variables in it are filled in, and its line."""

    line: int
    pieces: list[tuple[str, bool]] = field(default_factory=list)


@dataclass
class Statement:
    """Words up to the end of a command; ``array`` is the variable that they are elements of.

    ``document`` is the here-document that the command reads, ``line`` where it begins, ``target`` where output goes.
    """

    words: list[Word]
    array: str = ""
    document: str = ""
    line: int = 0
    target: str = ""


def read_shell(text: str, path: Path) -> list[Launch]:
    """A launch for every command of the script that passes settings, and for every Python that it holds.

    Where no command says anything of a training, its variables may be meant for a program that asks the environment:
    they are the last launch.
    """
    environment: dict[str, str] = {}
    arrays: dict[str, list[tuple[str, int]]] = {}
    shared: dict[str, tuple[Any, int]] = {}
    written: dict[str, str] = {}
    branches, folder = _Branches(), ""
    launches: list[Launch] = []
    for number, statement in enumerate(_Lexer(text).statements()):
        if number == LONGEST or len(launches) == SWEEP:
            raise ReadError(f"more than {LONGEST} commands, or {SWEEP} with settings, so no configuration")
        if statement.array:
            arrays.setdefault(statement.array, []).extend(_filled(statement.words, environment, arrays))
            continue
        words = _filled(statement.words, environment, arrays)
        branches.see(words[0][0] if words else "")
        while words and (words[0][0] in _SKIPPED or words[0][0] in ("export", "local", "declare", "readonly", "env")):
            words = words[1:]
        if words and words[0][0] == "for" and len(words) > 3:
            environment[words[1][0]] = words[3][0] if len(words) == 4 else f"${words[1][0]}"
            continue
        while words and (named := _ASSIGNMENT.match(words[0][0])) and not _OVERRIDE.match(words[0][0]):
            value = branches.value(named[1], words[0][0][named.end() :], environment)
            environment[named[1]] = value
            shared[named[1]] = (value, words[0][1])
            words = words[1:]
        if not words:
            continue
        if statement.document:
            _document(words, statement, launches, written)
        if "python" in words[0][0] and "-c" in (given := [word for word, _ in words]):
            source = given[given.index("-c") + 1 : given.index("-c") + 2]
            _python("".join(source), words[0][1], launches)
        elif words[0][0] == "cd" and len(words) > 1:
            folder = re.sub(r"^(?:\$\{?\w+\}?|\$\(.*\))?/*", "", words[1][0])  # of a variable: what follows it
        elif not statement.document:
            _command(words, launches, shared)
            if launches:
                launches[-1].folder = launches[-1].folder or folder
    for launch in launches:
        follow(launch, path, written)
    return [*launches, _environment(shared)]


def _document(
    words: list[tuple[str, int]], statement: Statement, launches: list[Launch], files: dict[str, str]
) -> None:
    """A here-document: Python that runs, or a file that ``cat`` or ``tee`` writes."""
    if "python" in words[0][0]:
        _python(statement.document, statement.line - 1, launches)
    elif words[0][0] in ("cat", "tee"):
        files |= dict.fromkeys((statement.target, *(word for word, _ in words[1:])), statement.document)


def _python(text: str, before: int, launches: list[Launch]) -> None:
    if not text.strip():
        return
    try:
        launches += read_modules([(plain(text), before)])
    except ReadError as error:
        launches.append(Launch("", line=before + 1, notes=[f"Python in the script was not read: {error}"]))


def _environment(shared: dict[str, tuple[Any, int]]) -> Launch:
    """The variables of a script under the names of settings."""
    launch = Launch(ENVIRONMENT, complete=False)
    for name, (value, line) in shared.items():
        launch.add(name.lower(), _value(value), line)
    return launch


def _command(words: list[tuple[str, int]], launches: list[Launch], shared: dict[str, tuple[Any, int]]) -> None:
    """Adds the launch that a command is, if it passes settings; arguments alone belong to the command before."""
    first = words[0][0]
    if (first.startswith("--") or _OVERRIDE.match(first)) and launches:
        _settings(words, launches[-1])
        return
    launch = Launch("", line=words[0][1])
    rest = _settings(words, launch)
    launch.program = " ".join(rest)[:500]
    if not launch.entries or _SERVER.search(launch.program):
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
                if _OVERRIDE.match(words[index][0]):
                    break
                values.append(words[index][0])
                index += 1
            key = name.replace("-", "_")
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
        raw = _raw(word)
        if (named := _ARRAY.fullmatch(raw)) is not None:
            out += arrays.get(named[1], [(raw, word.line)])[:2000]
            continue
        text = "".join(_fill(piece, environment) if filled else piece for piece, filled in word.pieces)
        unquoted = all(filled for _, filled in word.pieces) and raw.startswith("$")
        parts = text.split() if unquoted and " --" in f" {text}" else [text]
        out += [(part, word.line) for part in parts[:2000]]
    return out


def _raw(word: Word) -> str:
    return "".join(text for text, _ in word.pieces)


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
        value = evaluate(ast.parse(expression.strip().replace("/", "//"), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found[0]
    return found[0] if value is None else str(value)


class _Branches:
    """Which of a script's assignments stand in a branch that may not be taken."""

    def __init__(self) -> None:
        self.depth = 0
        self.chosen: set[str] = set()

    def see(self, word: str) -> None:
        """The first word of a statement, which may open or close branches."""
        self.depth = max(self.depth + (word in ("if", "case")) - (word in ("fi", "esac")), 0)

    def value(self, name: str, value: str, environment: dict[str, str]) -> str:
        """What a variable holds after an assignment: a branch changes nothing that was set before all branches, and
        what two branches set differently is unknown."""
        before = environment.get(name, "")
        if not self.depth:
            self.chosen.discard(name)
            return value
        if name not in self.chosen and before and not before.startswith("$"):
            return before
        self.chosen.add(name)
        return value if not before or before == value or before.startswith("$") else f"${name}"


class _Lexer:
    """Splits a script into statements; a quote that is never closed stands for itself."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.count = text, 0, 1, 0
        self.words: list[Word] = []
        self.word: Word | None = None
        self.array = self.document = self.target = ""
        self.endless: set[str] = set()
        self.done: list[Statement] = []

    def statements(self) -> Iterator[Statement]:
        while self.at < len(self.text):
            if not (self._quoted() or self._substitution() or self._aside()):
                self._plain()
            yield from self.done
            self.done.clear()
        self._end_word()
        self._end()
        yield from self.done

    def _put(self, text: str, filled: bool, to: int) -> None:
        """Adds a piece to the word and goes on behind it."""
        self.word = self.word or Word(self.line)
        self.word.pieces.append((text, filled))
        self.count += 1
        if self.count > PIECES:
            raise ReadError(f"more than {PIECES} words and variables, so no configuration")
        self._go(to)

    def _go(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def _end_word(self) -> None:
        if self.word is not None:
            self.words.append(self.word)
            self.word = None

    def _end(self) -> None:
        if self.words or self.array:
            self.done.append(Statement(self.words, self.array))
            self.words, self.array = [], ""

    def _quoted(self) -> bool:
        """A backslash or a quote."""
        text, at = self.text, self.at
        if text[at] == "\\" and at + 1 < len(text):
            if (newline := _CONTINUED.match(text, at)) is not None:
                self._go(newline.end())
            else:
                self._put(text[at + 1], False, at + 2)
            return True
        if text[at] in "'\"" and (end := _closing(text, at)) > 0:
            inner = text[at + 1 : end]
            double = text[at] == '"'
            self._put(inner.replace("\\\n", "") if double else inner, double, end + 1)
            return True
        return False

    def _substitution(self) -> bool:
        """``${…}``, ``$(…)``, and ``NAME=(`` that opens an array."""
        text, at = self.text, self.at
        if text[at] == "$" and text[at + 1 : at + 2] in ("(", "{"):
            end = _bracket(text, at + 1)
            self._put(text[at:end], True, end)
            return True
        if text[at] == "(" and self.word is not None and not self.array:
            named = _ASSIGNMENT.fullmatch(self.word.pieces[-1][0])
            if named is not None:
                self.array, self.word, self.words = named[1], None, []
                self._go(at + 1)
                return True
        return False

    def _aside(self) -> bool:
        """What is no argument: comments, redirections, documents."""
        text, at = self.text, self.at
        if text[at] == "#" and self.word is None:
            end = text.find("\n", at)
            self._go(len(text) if end < 0 else end)
        elif text[at] == "<" and not self.array and (here := _HEREDOC.match(text, at)):
            self.document = here[2]
            self._go(here.end())
        elif text[at] == ">" and not self.array and (aside := _REDIRECTION.match(text, at)):
            self.word = None if self.word is not None and _raw(self.word).isdigit() else self.word
            self.target = aside[0].lstrip("> ").strip("\"'")
            self._go(aside.end())
        else:
            return False
        return True

    def _plain(self) -> None:
        """Blanks, ends of statements, and the text of words."""
        text, at = self.text, self.at
        if not (text[at].isspace() or text[at] in ";&|()"):
            end = at + 1
            while end < len(text) and text[end] not in _SPECIAL:
                end += 1
            self._put(text[at:end], True, end)
            return
        self._end_word()
        if text[at] == ")" if self.array else text[at] in "\n;&|()":
            self._end()
        if text[at] == "\n" and self.document:
            end = self._end_of_document(at + 1)
            if self.done and end > at + 1:
                body = self.text[at + 1 : end].rpartition("\n")[0]
                last = self.done[-1]
                last.document, last.line, last.target = body, self.line + 1, self.target
            self.document = ""
            self._go(end)
            return
        self._go(at + 1)

    def _end_of_document(self, start: int) -> int:
        """Behind the here-document that begins at ``start``; ``start`` where it never ends."""
        if self.document in self.endless:
            return start
        found = re.compile(rf"^[ \t]*{self.document}[ \t\r]*$", re.MULTILINE).search(self.text, start)
        if found is None:
            self.endless.add(self.document)
        return start if found is None else found.end()


def _closing(text: str, start: int) -> int:
    """Where the quote that opens at ``start`` closes; -1 where it does not within 200 lines' worth of text."""
    quote, i = text[start], start + 1
    limit = min(len(text), start + 20_000)
    while i < limit:
        if text[i] == quote:
            return i
        i += 2 if text[i] == "\\" and quote == '"' else 1
    return -1


def _bracket(text: str, start: int) -> int:
    """Behind the bracket that closes the one at ``start``, or far behind where none does."""
    opening, closing, depth = text[start], ")" if text[start] == "(" else "}", 0
    for i in range(start, min(len(text), start + 5_000)):
        depth += (text[i] == opening) - (text[i] == closing)
        if not depth:
            return i + 1
    return min(len(text), start + 5_000)
