"""Lines that a program prints again and again: their names, a row of numbers for each, and which of these counts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..aliases import WEAK_STEP_KEYS, resolve, words

_STEPS = frozenset(
    "step steps iter iters iteration iterations it update updates rollout 步 步骤 步数 第 ステップ 스텝 단계 轮 "
    "adım krok langkah bước الخطوة".split()
)
_BESIDE = frozenset("global train training grpo rl ppo policy num idx index count id".split())


WORDS_APART = re.compile(r"[\W\d_]+")
"""What a text is without: its letters alone tell one kind of line from another."""
_MANY_TEXTS, _FEW_TEXTS = 64, 5
"""Texts of a shape that are told apart, and lines from which their variety means anything."""


class Shape:
    """Lines of one shape: names, and a row of numbers for each line."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
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
        """One line of this shape: its place among the lines with numbers, its number, its process and its text."""
        self.take(order, line, origin, values)
        if len(self.texts) < _MANY_TEXTS:
            self.texts.add(hash(WORDS_APART.sub("", text)))

    def take(self, order: int, line: int, origin: int, values: Sequence[float]) -> None:
        """One line whose text is known."""
        self.order.append(order)
        self.lines.append(line)
        self.origins.append(origin)
        self.values.extend(values)

    @property
    def varied(self) -> bool:
        """Whether the words of its lines vary, as those of generated text do."""
        return len(self.lines) >= _FEW_TEXTS and 2 * len(self.texts) > min(len(self.lines), _MANY_TEXTS)

    def weight(self) -> int:
        """How much the lines of this shape tell."""
        return len(self.lines) * len(self.fields)

    def count(self) -> int | None:
        """Finds the column that counts the rows, the surest kind of name first."""
        table = self.table()
        for column in self.counters():
            if counts_up(table[:, column]) or (is_step(self.names[column]) and len(table) == 1):
                self.counter = column
                break
        return self.counter

    def counters(self) -> list[int]:
        """The columns that may count the rows, the surest kind of name first."""
        named = [i for i, name in enumerate(self.names) if is_step(name)]
        weak = [i for word in WEAK_STEP_KEYS for i, name in enumerate(self.names) if counts_as(name, word)]
        return [*named, *self.positions, *weak]

    def evaluates(self) -> bool:
        """Whether every metric in it is one of an evaluation."""
        return bool(self.fields) and all("eval" in words(self.names[place]) for place in self.fields)

    def weak(self) -> bool:
        """Whether the rows are counted by epochs or the like: such rows sum up those that name their step."""
        return self.counter is not None and is_weak(self.names[self.counter])

    def only(self, kept: np.ndarray) -> Shape:
        """This one with some of its lines alone."""
        part = Shape(self.names)
        part.texts, part.bar = self.texts, self.bar
        for name in ("order", "lines", "origins"):
            getattr(part, name).extend(np.array(getattr(self, name))[kept].tolist())
        part.values.frombytes(np.ascontiguousarray(self.table()[kept]).tobytes())
        return part

    def table(self) -> np.ndarray:
        return np.frombuffer(self.values, float).reshape(len(self.lines), len(self.names))


@lru_cache(maxsize=4096)
def is_metric(name: str) -> bool:
    """Whether a name means a field that tells of training; epochs and temperatures alone do not."""
    return any(alias.field not in ("epoch", "temperature", "wall_time") for alias in resolve(name))


@lru_cache(maxsize=4096)
def is_step(name: str) -> bool:
    found = words(name)
    return bool(found & _STEPS) and not found - _STEPS - _BESIDE


@lru_cache(maxsize=4096)
def counts_as(name: str, word: str) -> bool:
    """Whether a name is this word, said alone or of the training: ``epoch``, ``RL training epoch``."""
    found = words(name)
    return word in found and not found - {word} - _BESIDE


def is_weak(name: str) -> bool:
    return any(counts_as(name, word) for word in WEAK_STEP_KEYS)


def backs(steps: np.ndarray) -> int:
    """How often numbers go back."""
    return int((np.diff(steps) < 0).sum())


def counts_up(steps: np.ndarray) -> bool:
    """Whether numbers are those of a counter: whole, and rarely going back."""
    moves = np.diff(steps)
    whole = bool((steps == np.floor(steps)).all())
    return whole and bool((moves > 0).any()) and backs(steps) <= 0.2 * int(np.count_nonzero(moves))
