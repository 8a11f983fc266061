"""Evaluates the variables of a script as text. A variable with several possible values contains all of them."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..expression import evaluate
from .lexer import Lexer, Word, raw_text

_VARIABLE = re.compile(
    r"\$\{(\w+)(?::?[-=]((?:[^{}$]|\$\{\w+(?::?[-=](?:[^{}$]|\$\{\w+\}|\$\w+)*)?\}|\$\w+)*))?\}|\$(\w+)"
    r"|\$\{(\w+)\[((?:[^\[\]{}]|\$\{\w+\}){1,100})\]\}|\$\{(\w+)(,,|\^\^|%%?|##?)([^{}]{0,20})\}|\$\{[^}]{0,500}\}"
)
_ARRAY = re.compile(r"\$\{(\w+)\[[@*]\]\}|\$[@*]|\$\{[@*]\}")
_KEYED = re.compile(r"\[([^\]]{1,100})\]=")
_NOT_SAID = re.compile(r"|\$\w+|\$\{\w+\}")
"""Matches the value of a variable that counts as unset, so that its default applies: an empty value, or a reference to
an unknown variable."""
SEVERAL = "\ue000"
"""Separator between the possible values of a variable. The values come from a loop, from branches, or from an array."""
_ONE_WORD = re.compile(rf"\$[({{]|{SEVERAL}")
"""Matches the value of an unquoted variable that cannot be split into words."""
VALUES = 50
"""Maximum number of possible values of a variable."""
DEPTH = 8
"""Maximum nesting of variables that refer to other variables."""

Words = list[tuple[str, int]]
"""The words of a command, with the line of each word; 0 for a word from another file."""


def joined(values: Iterable[str]) -> str:
    """Join the distinct possible values of a variable; return an empty string if there are no values."""
    distinct = dict.fromkeys(one for value in values for one in value.split(SEVERAL))
    return SEVERAL.join(list(distinct)[:VALUES])[:5000]


@dataclass
class Variables:
    """The variables and arrays of a script. ``arrays["@"]`` contains the arguments of the script or function."""

    named: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Words] = field(default_factory=dict)

    def give(self, words: Words | None) -> None:
        """Set the arguments of a script or function; ``words`` is None if the arguments are unknown."""
        for name in [name for name in self.named if name.isdigit()]:
            del self.named[name]
        self.arrays.pop("@", None)
        if words is not None:
            self.arrays["@"] = words
            self.named |= {str(n): word for n, (word, _) in enumerate(words, 1)}

    def loop(self, name: str, values: list[str]) -> None:
        """Process ``for name in values``."""
        self.named[name] = joined(values)

    def read(self, words: list[str], document: str = "") -> None:
        """Process ``read -r a b <<< text``, where the text is split at ``IFS``, or ``read -d '' name`` with a
        here-document."""
        between = self.named.pop("IFS", "").strip("'\"") or None
        if document and words[-1].isidentifier() and any(word.startswith("-") and "d" in word for word in words[1:-1]):
            self.named[words[-1]] = self.fill(" ".join(document.replace("\\\n", " ").split()))
        if "<<<" not in words[1:-1]:
            return
        at = words.index("<<<")
        flags = "".join(word for word in words[1:at] if word.startswith("-"))
        names = [word for word in words[1:at] if not word.startswith("-")]
        rows = [one.split(between[:1] if between else None) for one in words[at + 1].split(SEVERAL)]
        most = max(map(len, rows))
        columns = [joined(row[n].strip() for row in rows if n < len(row)) for n in range(min(most, 2000))]
        if "a" in flags and names:
            self.arrays[names[0]] = [(value, 0) for value in columns]
            return
        self.named |= dict.fromkeys(names, "") | dict(zip(names, columns, strict=False))

    def words(self, words: list[Word]) -> Words:
        """Return the words with variables filled in. An array is replaced by its elements."""
        out: Words = []
        for word in words:
            raw = raw_text(word)
            if (named := _ARRAY.fullmatch(raw)) is not None:
                out += self.arrays.get(named[1] or "@", [(raw, word.line)])[:2000]
                continue
            text = "".join(self.fill(piece) if filled else piece for piece, filled in word.pieces)
            split = raw.startswith("$") and not word.quoted and not _ONE_WORD.search(text)
            parts = text.split() if split else [text]
            out += [(part, word.line) for part in parts[:2000]]
        return out

    def again(self, words: Words) -> Words:
        """Return the words that ``eval`` runs. ``eval`` splits its input again and fills in escaped variables."""
        out: Words = []
        for text, line in words:
            for statement in Lexer(text).statements():
                out += self.words([replace(word, line=line) for word in statement.words])
        return out

    def fill(self, text: str, depth: int = 0) -> str:
        """Fill in the variables of a text. Unknown variables stay as written."""
        if "$" not in text or depth == DEPTH or len(text) > 20_000:
            return text

        def replaced(found: re.Match[str]) -> str:
            name, default = found[1] or found[3], found[2]
            held = self.named.get(name, f"${name}")
            if not held.startswith(f"${name}") and (default is None or not _NOT_SAID.fullmatch(held)):
                return held[:5000]
            if found[4]:
                return self._element(found[4], self.fill(found[5], depth + 1)) or found[0]
            if found[6] and (value := self.named.get(found[6], "$")) and "$" not in value:
                return joined(_cut(one, found[7], found[8]) for one in value.split(SEVERAL))
            return found[0] if default is None else self.fill(default.strip("'\""), depth + 1)

        filled = _VARIABLE.sub(replaced, text)
        return re.sub(r"\$\(\(((?:[^()]|\([^()]*\))*)\)\)", self._arithmetic, filled)

    def _element(self, name: str, index: str) -> str:
        """Return an element of an array, or all elements joined if the index is unknown; empty if the array is
        unknown."""
        elements = [word for word, _ in self.arrays.get(name, ())]
        keyed = {found[1]: word[found.end() :] for word in elements if (found := _KEYED.match(word))}
        if index.strip("'\"") in keyed:
            return keyed[index.strip("'\"")]
        if index.isdecimal() and int(index) < len(elements):
            return elements[int(index)]
        return joined(keyed.values() or elements)

    def _arithmetic(self, found: re.Match[str]) -> str:
        expression = re.sub(r"[A-Za-z_]\w*", lambda m: self.named.get(m[0], m[0]), found[1].replace("$", ""))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python warns about `1if`, a future syntax error
                value = evaluate(ast.parse(expression.strip().replace("/", "//"), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return found[0]
        return found[0] if value is None else str(value)


def _cut(value: str, how: str, pattern: str) -> str:
    """Apply ``${x,,}``, ``${x^^}``, or the removal of a literal text with an optional star, as in ``${x%%:*}`` and
    ``${x#*:}``."""
    match how:
        case ",,":
            return value.lower()
        case "^^":
            return value.upper()
    at_end, text = how[0] == "%", pattern.strip("*")
    if "*" not in pattern:
        return value.removesuffix(text) if at_end else value.removeprefix(text)
    # ``%%`` and ``#`` cut at the first match, ``%`` and ``##`` at the last
    split = value.partition(text) if how in ("%%", "#") else value.rpartition(text)
    if not text or not split[1]:
        return value
    return split[0] if at_end else split[2]
