"""Lines that a program prints again and again: their names, a row of numbers for each, and which of these counts."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from ..aliases import WEAK_STEP_KEYS, resolve, words
from ..row_kinds import UPDATED

STEPS = frozenset(
    "step steps iter iters iteration iterations it update updates rollout 步 步骤 步数 第 ステップ 스텝 단계 轮 "
    "adım krok langkah bước الخطوة".split()
)
_BESIDE = frozenset("global train training grpo rl ppo policy num idx index count id".split())


_WEIGHTS = {
    **dict.fromkeys(("reward_mean", "reward_margin"), 6.0),
    **dict.fromkeys(("kl", "kl_sequence"), 4.0),
    **dict.fromkeys(("success_rate", "chosen_reward"), 3.0),
    **dict.fromkeys(("loss", "policy_loss"), 2.5),
    **dict.fromkeys(("entropy_mean", "advantage_mean", "advantage_std", "reward_std", "clip_fraction"), 2.0),
    **dict.fromkeys(("grad_norm", "learning_rate", "response_length_mean", "value_loss", "ratio_mean"), 1.0),
}
"""How much a field says of a training."""
SAYS_ENOUGH = 2.0
"""What the names of lines must say of a training at least, where no counter says that they are its rows."""

_NUMBERS = str.maketrans("", "", "0123456789+-., \t")
_MANY_TEXTS, _FEW_TEXTS = 64, 5
"""Texts of a shape that are told apart, and lines from which their variety means anything."""
_STEADY = 0.8
"""Share of the moves of numbers that are the same, where they count although their name does not say so."""


class Shape:
    """Lines of one shape: names, and a row of numbers for each line; ``sample`` where each is of one response."""

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
        """One line of this shape: its place among the lines with numbers, its number, its process and its text."""
        self.take(order, line, origin, values)
        if len(self.texts) < _MANY_TEXTS:
            self.texts.add(hash(words_of(text)))

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

    @property
    def printed(self) -> bool:
        """Whether its lines differ in their numbers alone, which have names, as those that a program prints."""
        return len(self.texts) == 1 and 2 * sum(map(bool, self.names)) > len(self.names)

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
        if self.counter is None and not self.sample and self.names[0] and 0 not in self.fields and _steady(table[:, 0]):
            self.counter = 0
        return self.counter

    def counters(self) -> list[int]:
        """The columns that may count the rows, the surest kind of name first; responses do not count them."""
        if self.sample:
            return []
        named = [i for i, name in enumerate(self.names) if is_step(name)]
        weak = [i for word in WEAK_STEP_KEYS for i, name in enumerate(self.names) if counts_as(name, word)]
        return [*named, *self.positions, *weak]

    def evaluates(self) -> bool:
        """Whether every metric in it is one of an evaluation."""
        return bool(self.fields) and all("eval" in words(self.names[place]) for place in self.fields)

    def updates(self) -> bool:
        """Whether a metric in it is of an update."""
        return any(alias.field in UPDATED for place in self.fields for alias in resolve(self.names[place]))

    def weak(self) -> bool:
        """Whether the rows are counted by epochs or the like: such rows sum up those that name their step."""
        return self.counter is not None and is_weak(self.names[self.counter])

    def only(self, kept: np.ndarray) -> Shape:
        """This one with some of its lines alone."""
        part = Shape(self.names, self.sample)
        part.texts, part.bar = self.texts, self.bar
        for name in ("order", "lines", "origins"):
            getattr(part, name).extend(np.array(getattr(self, name))[kept].tolist())
        part.values.frombytes(np.ascontiguousarray(self.table()[kept]).tobytes())
        return part

    def table(self) -> np.ndarray:
        return np.frombuffer(self.values, float).reshape(len(self.lines), len(self.names))


def words_of(text: str) -> str:
    """A text without its numbers, which tells one kind of line from another."""
    return text.translate(_NUMBERS)


def says(names: Iterable[str]) -> float:
    """How much names say of a training."""
    return sum(_WEIGHTS.get(field, 0.0) for field in {alias.field for name in names for alias in resolve(name)[:1]})


@lru_cache(maxsize=4096)
def is_metric(name: str) -> bool:
    """Whether a name means a field that tells of training; epochs and temperatures alone do not."""
    return any(alias.field not in ("epoch", "temperature", "wall_time") for alias in resolve(name))


@lru_cache(maxsize=4096)
def is_step(name: str) -> bool:
    found = words(name)
    return bool(found & STEPS) and not found - STEPS - _BESIDE


@lru_cache(maxsize=4096)
def counts_as(name: str, word: str) -> bool:
    """Whether a name is this word, said alone or of the training: ``epoch``, ``RL training epoch``."""
    found = words(name)
    return word in found and not found - {word} - _BESIDE


@lru_cache(maxsize=4096)
def is_weak(name: str) -> bool:
    return any(counts_as(name, word) for word in WEAK_STEP_KEYS)


def _steady(values: np.ndarray) -> bool:
    """Whether numbers go up by the same step: they count, whatever they are called."""
    moves = np.diff(values)
    whole = len(moves) >= _FEW_TEXTS and bool((values == np.floor(values)).all())
    return whole and bool((moves > 0).all() and (moves == moves[0]).mean() >= _STEADY)


def backs(steps: np.ndarray) -> int:
    """How often numbers go back."""
    return int((np.diff(steps) < 0).sum())


def counts_up(steps: np.ndarray) -> bool:
    """Whether numbers are those of a counter: whole, and rarely going back."""
    moves = np.diff(steps)
    whole = bool((steps == np.floor(steps)).all())
    return whole and bool((moves > 0).any()) and backs(steps) <= 0.2 * int(np.count_nonzero(moves))
