"""Groups lines that differ only in their numbers into one template, which is parsed once. From later lines, only the
numbers are read.

A name is recognised by a word of the alias table. A line is silent if no word of the table closely precedes a number,
and the line contains no text that a reader searches for. Silent lines are not parsed. Most lines of generated text are
silent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter

from ...record import NUMBER_FIELDS
from ..alias_table import TABLES
from ..aliases import HELD_OUT, STEPS, WEAK_STEP_KEYS
from .repeated_lines import Shape

_NUMERIC = b"0123456789+-."
_FIGURES = bytes(byte if byte in _NUMERIC + b"eE" else 32 for byte in range(256))
"""Translation that keeps only the characters that occur in numbers."""
_DIGITS = b"0123456789"
_PARTED = bytes(
    48 if chr(byte).isdigit() and byte < 128 else byte | 32 if chr(byte).isalpha() and byte < 128 else byte
    if byte > 127 else 32
    for byte in range(256)
)  # fmt: skip
"""Translation that keeps words in lowercase, and replaces digits with zeros."""
_WORDS = _PARTED.replace(b"0", b" ")
"""Translation that keeps only the words in lowercase."""
(_BRACE,) = b"{"
_NEAR = 8
"""Number of words before a number that may name the number."""
_CASES = bytes(97 if chr(byte).islower() and byte < 128 else 65 if chr(byte).isupper() and byte < 128 else 32
               for byte in range(256))  # fmt: skip
"""Translation that keeps only the case of each letter."""
_SAY_LITTLE = frozenset(
    "a after all and answer as at avg average be by call calls chars code count counts data diff drop error errors "
    "example examples exp final first floor for from function global hard has high hit in is it k level limit log low "
    "max mean median min n name natural new no none norm not num number of off on or other output outside overall p "
    "parse path pattern per presence progress prompt question range raw region repeated right s scale sd seen sequence "
    "sequences share size std stop strict sum target task tasks that the time to total true type unique use v value "
    "values version vs wall was weight where with wrong zero".split()
)
"""Words of everyday language. A name that contains a word of everyday language is recognised by its other words."""


def _telling() -> frozenset[str]:
    """Return the words by which a line is recognised as naming a metric, a step or a setting."""
    spelt: dict[str, list[str]] = {}
    for canon, word in TABLES["word"]:
        for part in canon.split():
            spelt.setdefault(part, []).append(word)
    names = (name for table in ("exact", "trap", "words", "setting") for _, name in TABLES[table])
    found = {*HELD_OUT, *WEAK_STEP_KEYS, *STEPS - {"it"}}
    for name in (*names, *NUMBER_FIELDS):
        told = frozenset(re.findall(r"[^\W\d_]+", name.lower())) - _SAY_LITTLE
        found |= told.union(*(spelt.get(part, ()) for part in told))
    return frozenset(found).union(f"{word}s" for word in found)


_TELLING = _telling()
_ASCII = frozenset(word.encode() for word in _TELLING if word.isascii())
_WHOLE = frozenset(
    b"checkpointing divergence evaluating evaluation incompatible inconsistent inf grad nan rollout tensor validating "
    b"validation warn".split()
)
"""Words by which other lines are recognised: warnings, evaluations, overrides of settings, and lines with NaN or
infinite numbers."""
_EITHER = _ASCII | _WHOLE
_OTHERS = re.compile(
    "|".join(sorted({w for w in (*_TELLING, *(script for _, script in TABLES["script"])) if not w.isascii()}))
)


class Template:
    """A template: lines that differ only in their numbers, and how their numbers are used.

    Attributes:
        text: the first of the lines.
        lines: the number of lines.
        numbered: whether the lines contain a number.
        shape: the shape that collects the numbers of the lines, or None if the numbers are not read.
        metric: whether the lines contain the name of a metric.
        sets: whether the lines name only settings.
        names: the names in the lines that no field uses.
    """

    metric = sets = False
    shape: Shape | None = None
    names: tuple[str, ...] = ()

    def __init__(self, text: bytes, *, numbered: bool, lines: int = 1) -> None:
        self.text, self.numbered, self.lines = text, numbered, lines

    def collects(self, shape: Shape, picks: Sequence[tuple[int, float] | None], before: int) -> None:
        """Set the shape that collects the numbers of the lines. Each pick is the index of a number after the prefix,
        with its divisor, or None if the number is missing."""
        self.shape, self._count = shape, len(figures(self.text))
        places = [-1 if pick is None else before + pick[0] for pick in picks]
        self._pick = itemgetter(places[0], *places)  # repeated, because itemgetter returns no tuple for a single item
        divisors = [1.0 if pick is None else pick[1] for pick in picks]
        self._divisors = None if set(divisors) <= {1.0} else divisors

    def numbers(self, raw: bytes) -> list[float]:
        """Return the numbers of a line of the template; empty if the notation of the numbers differs from that on the
        first line."""
        tokens = figures(raw)
        if len(tokens) != self._count:
            return []
        tokens.append(b"nan")
        try:
            _, *values = map(float, self._pick(tokens))
        except ValueError:
            return []
        return values if self._divisors is None else [v / of for v, of in zip(values, self._divisors, strict=True)]


ONCE = Template(b"", numbered=False), Template(b"", numbered=True)
"""The two templates of silent lines that occur once, such as lines of generated text. The first template is for lines
without a number, and the second for lines with a number."""


def figures(raw: bytes) -> list[bytes]:
    """Return the parts of a line that may be numbers."""
    return raw.translate(_FIGURES).split()


def key(raw: bytes) -> bytes:
    """Return the part of a line that all lines of its template share."""
    return raw.translate(None, _NUMERIC)


def silent(raw: bytes) -> Template | None:
    """Return a template of `ONCE` for a silent line; otherwise None. A silent line names no metric, step or setting,
    and contains no other text that is read."""
    if _BRACE in raw:
        return None
    words = raw.translate(_WORDS).split()
    if not _EITHER.isdisjoint(words) and (not _WHOLE.isdisjoint(words) or _named(raw)):
        return None
    numbered = len(raw.translate(None, _DIGITS)) < len(raw)
    if numbered and (not words or (not raw[1:].islower() and raw.translate(_CASES).find(b"aA") >= 0)):
        return None
    return ONCE[numbered] if raw.isascii() or not _foreign(raw) else None


def _named(raw: bytes) -> bool:
    """Return whether a word that may name a metric precedes a number, or is in a heading."""
    parts = raw.translate(_PARTED).split(b"0")
    if raw.rstrip()[-1:] != b":":
        parts.pop()
    return not all(_ASCII.isdisjoint(part.split()[-_NEAR:]) for part in parts if part)


def _foreign(raw: bytes) -> bool:
    return _OTHERS.search(raw.decode("utf-8", "replace").lower()) is not None
