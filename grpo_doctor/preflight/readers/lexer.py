"""Splits shell scripts into statements and words: quotes, continued lines, comments, arrays and here-documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...limits import spent
from ...readers import ReadError

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_REDIRECTION = re.compile(r">>?(?:&\d|\s{0,9}(?:\"[^\"\n]{0,500}\"|[^\s;|&\"]{1,500}))")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w \-]{0,60}>(?=[\s\"'])")
"""Matches a placeholder that the user must replace, such as ``<your_key>``."""
_FUNCTION = re.compile(r"\(\s{0,9}\)")
_CASE = re.compile(r"(?:\|[^\s|()]{1,200}){0,50}\)")
_CONTINUED = re.compile(r"\\\r?\n")
_SPECIAL = frozenset("\\'\"$#<>();&| \t\r\n")
PIECES = 30_000
"""Maximum number of words, quotes and variables per script."""


@dataclass
class Word:
    """A word of a statement: its pieces, its line, and whether any part of the word is quoted. Each piece has a flag
    that is true if its variables are expanded."""

    line: int
    pieces: list[tuple[str, bool]] = field(default_factory=list)
    quoted: bool = False


@dataclass
class Statement:
    """The words up to the end of a command. ``array`` is the name of the array that the words define; empty for a
    command.

    ``document`` is the here-document that the command reads, ``line`` is its first line, and ``literal`` is whether its
    variables stay unexpanded. ``target`` is the file to which the output is written. ``function`` is the name of a
    function whose body follows, and ``goes_on`` is whether ``&&`` or ``||`` follows. ``appended`` is whether the words
    are appended to an array, and ``label`` contains the patterns of a branch of ``case``.
    """

    words: list[Word]
    array: str = ""
    document: str = ""
    line: int = 0
    target: str = ""
    literal: bool = False
    function: str = ""
    goes_on: bool = False
    appended: bool = False
    label: tuple[str, ...] = ()


def raw_text(word: Word) -> str:
    """Return a word as written, without expansion."""
    return "".join(text for text, _ in word.pieces)


class Lexer:
    """Splits a script into statements. An unclosed quote is taken literally."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.count = text, 0, 1, 0
        self.words: list[Word] = []
        self.word: Word | None = None
        self.array = self.document = self.target = ""
        self.literal = self.tests = self.appended = False
        self.endless: set[str] = set()
        self.done: list[Statement] = []
        self.labels: list[str] = []

    def statements(self) -> Iterator[Statement]:
        while self.at < len(self.text):
            spent()
            if not (self._quoted() or self._substitution() or self._not_an_argument()):
                self._plain()
            yield from self.done
            self.done.clear()
        self._end_word()
        self._end()
        yield from self.done

    def _put(self, text: str, filled: bool, to: int) -> None:
        """Add a piece to the current word, and continue at ``to``."""
        self.word = self.word or Word(self.line)
        self.word.quoted |= self.text[self.at] in "'\""
        self.word.pieces.append((text, filled))
        self.count += 1
        if self.count > PIECES:
            raise ReadError(f"more than {PIECES} words and variables, so not a configuration")
        self._go(to)

    def _go(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def _end_word(self) -> None:
        if self.word is not None:
            self.words.append(self.word)
            self.tests = raw_text(self.word) == "[[" or (self.tests and raw_text(self.word) != "]]")
            self.word = None

    def _end(self) -> None:
        if self.words or self.array:
            goes_on = self.text[self.at : self.at + 2] in ("&&", "||")
            self.done.append(Statement(self.words, self.array, goes_on=goes_on, appended=self.appended))
            self.words, self.array, self.tests = [], "", False

    def _quoted(self) -> bool:
        """Process a backslash or a quote."""
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
        """Process ``${…}``, ``$(…)``, and ``NAME=(`` that opens an array."""
        text, at = self.text, self.at
        if text[at] == "$" and text[at + 1 : at + 2] in ("(", "{"):
            end = _bracket(text, at + 1)
            self._put(text[at:end], True, end)
            return True
        if text[at] == "(" and self.word is not None and not self.array:
            named = _ASSIGNMENT.fullmatch(self.word.pieces[-1][0])
            if named is not None:
                self.array, self.word, self.words = named[1], None, []
                self.appended = named[2] == "+"
                self._go(at + 1)
                return True
        return self._function()

    def _function(self) -> bool:
        """Process ``name()`` or ``function name()``, which precedes the body of a function."""
        text, at = self.text, self.at
        if text[at] != "(" or self.array or len(self.words) > 2:
            return False
        before = [raw_text(word) for word in (*self.words, self.word) if word is not None]
        if not before or before[:-1] not in ([], ["function"]):
            return False
        empty = _FUNCTION.match(text, at)
        if empty is not None:
            self.done.append(Statement([], function=before[-1]))
            self.word, self.words = None, []
            self._go(empty.end())
        return empty is not None

    def _not_an_argument(self) -> bool:
        """Process comments, redirections and here-documents, which are not arguments."""
        text, at = self.text, self.at
        if text[at] == "#" and self.word is None:
            end = text.find("\n", at)
            self._go(len(text) if end < 0 else end)
        elif text.startswith("<<<", at):
            self._put("<<<", False, at + 3)
            self._end_word()
        elif text[at] == "<" and (blank := _PLACEHOLDER.match(text, at)) is not None:
            self._put("$", False, at)  # marks the value as unknown
            self._put(blank[0], False, blank.end())
        elif text[at] == "<" and not self.array and (here := _HEREDOC.match(text, at)):
            self.document, self.literal = here[2], bool(here[1])
            self._go(here.end())
        elif text[at] == ">" and not self.array and (aside := _REDIRECTION.match(text, at)):
            self.word = None if self.word is not None and raw_text(self.word).isdigit() else self.word
            self.target = aside[0].lstrip("> ").strip("\"'")
            self._go(aside.end())
        else:
            return False
        return True

    def _plain(self) -> None:
        """Process blanks, ends of statements, and the text of words."""
        text, at = self.text, self.at
        if not (text[at].isspace() or text[at] in ";&|()") or (self.tests and text[at] in "&|()"):
            end = at + 1
            while end < len(text) and text[end] not in _SPECIAL:
                end += 1
            self._put(text[at:end], True, end)
            return
        self._end_word()
        if text[at] in "|)" and not self.array and len(self.words) == 1 and self._names_a_case():
            self.labels.append(raw_text(self.words[0]))
            self.words = []
            if text[at] == ")":
                self.done.append(Statement([], label=tuple(self.labels)))
                self.labels = []
        if text[at] == ")" if self.array else text[at] in "\n;&|()":
            self._end()
        if text[at] == "\n" and self.document:
            end = self._end_of_document(at + 1)
            if self.done and end > at + 1:
                body = self.text[at + 1 : end].rpartition("\n")[0]
                last = self.done[-1]
                last.document, last.line, last.target, last.literal = body, self.line + 1, self.target, self.literal
            self.document = ""
            self._go(end)
            return
        self._go(at + 1)

    def _names_a_case(self) -> bool:
        """Return whether the only word of the statement is a pattern of ``case``, as in ``--lr)``, ``-l|--lr)`` or
        ``peft.enabled=false|peft=0)``."""
        word = raw_text(self.words[0])
        return word[:1] == "-" or ("=" in word and _CASE.match(self.text, self.at) is not None)

    def _end_of_document(self, start: int) -> int:
        """Return the index after the here-document that begins at ``start``, or ``start`` if the here-document has no
        end."""
        if self.document in self.endless:
            return start
        found = re.compile(rf"^[ \t]*{self.document}[ \t\r]*$", re.MULTILINE).search(self.text, start)
        if found is None:
            self.endless.add(self.document)
        return start if found is None else found.end()


def _closing(text: str, start: int) -> int:
    """Return the index of the quote that closes the quote at ``start``, or -1 if there is no closing quote within
    20,000 characters."""
    quote, i = text[start], start + 1
    limit = min(len(text), start + 20_000)
    while i < limit:
        if text[i] == quote:
            return i
        i += 2 if text[i] == "\\" and quote == '"' else 1
    return -1


def _bracket(text: str, start: int) -> int:
    """Return the index after the matching bracket. Without a matching bracket, return at most ``start`` plus 5,000."""
    opening, closing, depth = text[start], ")" if text[start] == "(" else "}", 0
    for i in range(start, min(len(text), start + 5_000)):
        depth += (text[i] == opening) - (text[i] == closing)
        if not depth:
            return i + 1
    return min(len(text), start + 5_000)
