"""Collects lines that a program prints repeatedly: their names, a row of numbers for each line, and the number that
counts the rows."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..aliases import WEAK_STEP_KEYS, counts_as, is_step, is_weak, resolve, words
from ..row_kinds import UPDATED, component, possible

_NUMBERS = str.maketrans("", "", "0123456789+-., \t")
_MANY_TEXTS, _FEW_TEXTS = 64, 5
"""`_MANY_TEXTS`: maximum number of distinct texts that are stored per shape. `_FEW_TEXTS`: minimum number of lines at
which the variety of their texts is judged."""
_STEADY = 0.8
"""Minimum share of equal increments for numbers to count as a counter even if their name is not that of a counter."""


class Shape:
    """Lines of one shape: the names, and a row of numbers for each line. ``sample`` is true if each line is about one
    response."""

    def __init__(self, names: tuple[str, ...], sample: bool = False) -> None:
        self.names, self.sample = names, sample
        self.order = array("q")
        self.lines = array("q")
        self.origins = array("q")
        self.values = array("d")
        self.texts: set[int] = set()
        self.fields = tuple(i for i, name in enumerate(names) if is_metric(name))
        self.positions = [i for i, name in enumerate(names) if name == "#"]
        self.counter: int | None = None
        self.averaged = False
        self.bar = False

    def add(self, order: int, line: int, origin: int, values: Sequence[float], text: str) -> None:
        """Add a line of this shape, with its place among the lines with numbers, its line number, its process and its
        text."""
        self.take(order, line, origin, values)
        if len(self.texts) < _MANY_TEXTS:
            self.texts.add(hash(words_of(text)))

    def take(self, order: int, line: int, origin: int, values: Sequence[float]) -> None:
        """Add a line whose text, except for its numbers, is already known."""
        self.order.append(order)
        self.lines.append(line)
        self.origins.append(origin)
        self.values.extend(values)

    @property
    def varied(self) -> bool:
        """Return whether the words of the lines vary, as in generated text."""
        return len(self.lines) >= _FEW_TEXTS and 2 * len(self.texts) > min(len(self.lines), _MANY_TEXTS)

    @property
    def printed(self) -> bool:
        """Return whether the lines differ only in their named numbers, as in lines that a program prints."""
        return len(self.texts) == 1 and 2 * sum(map(bool, self.names)) > len(self.names)

    def weight(self) -> int:
        """Return how strongly the lines of this shape indicate training."""
        return len(self.lines) * len(self.fields)

    def count(self) -> int | None:
        """Find and return the column that counts the rows, trying the most reliable kind of name first; None if there
        is none."""
        table = self.table()
        for column in self.counters():
            if counts_up(table[:, column]) or (is_step(self.names[column]) and len(table) == 1):
                self.counter = column
                break
        if self.counter is None and not self.sample and self.names[0] and 0 not in self.fields and _steady(table[:, 0]):
            self.counter = 0
        return self.counter

    def counters(self) -> list[int]:
        """Return the columns that may count the rows, the most reliable kind of name first. Lines about responses have
        no column that counts the rows."""
        if self.sample:
            return []
        named = [i for i, name in enumerate(self.names) if is_step(name)]
        weak = [i for word in WEAK_STEP_KEYS for i, name in enumerate(self.names) if counts_as(name, word)]
        return [*named, *self.positions, *weak]

    def evaluates(self) -> bool:
        """Return whether every metric belongs to an evaluation."""
        return bool(self.fields) and all("eval" in words(self.names[place]) for place in self.fields)

    def measures(self) -> bool:
        """Return whether any metric has possible values; true if there are no metrics."""
        named = [(place, alias) for place in self.fields for alias in resolve(self.names[place])]
        return not named or any(possible(self.table()[:, place], alias) for place, alias in named)

    def updates(self) -> bool:
        """Return whether any metric belongs to an update."""
        return any(alias.field in UPDATED for place in self.fields for alias in resolve(self.names[place]))

    def weak(self) -> bool:
        """Return whether an epoch or a similar counter counts the rows, because the rows of an epoch summarise rows
        with a step."""
        return self.counter is not None and is_weak(self.names[self.counter])

    def only(self, kept: np.ndarray) -> Shape:
        """Return a copy of this shape with only the lines in ``kept``."""
        part = Shape(self.names, self.sample)
        part.texts, part.bar = self.texts, self.bar
        for name in ("order", "lines", "origins"):
            getattr(part, name).extend(np.array(getattr(self, name))[kept].tolist())
        part.values.frombytes(np.ascontiguousarray(self.table()[kept]).tobytes())
        return part

    def table(self) -> np.ndarray:
        return np.frombuffer(self.values, float).reshape(len(self.lines), len(self.names))


def words_of(text: str) -> str:
    """Return a text without its numbers. The result identifies the kind of line."""
    return text.translate(_NUMBERS)


@lru_cache(maxsize=4096)
def is_metric(name: str) -> bool:
    """Return whether a name denotes a metric or a reward function. Epochs, temperatures and times do not count as
    metrics."""
    fields = {alias.field for alias in resolve(name)}
    return bool(fields - {"epoch", "temperature", "wall_time"}) or (name.startswith("reward") and component(name) != "")


def _steady(values: np.ndarray) -> bool:
    """Return whether numbers increase mostly by equal increments and therefore count as a counter, regardless of their
    name."""
    moves = np.diff(values)
    whole = len(moves) >= _FEW_TEXTS and bool((values == np.floor(values)).all())
    return whole and bool((moves > 0).all() and (moves == moves[0]).mean() >= _STEADY)


def backs(steps: np.ndarray) -> int:
    """Return the number of decreases in a series."""
    return int((np.diff(steps) < 0).sum())


def counts_up(steps: np.ndarray) -> bool:
    """Return whether numbers are a counter, which means that they are whole and rarely decrease."""
    moves = np.diff(steps)
    whole = bool((steps == np.floor(steps)).all())
    return whole and bool((moves > 0).any()) and backs(steps) <= 0.2 * int(np.count_nonzero(moves))
