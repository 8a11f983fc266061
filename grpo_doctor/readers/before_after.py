"""Finds scores that were printed once before and once after training, such as ``Accuracy before training: 0.31``."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..run import Run
from .aliases import resolve
from .formats.pairs import pairs
from .input import Input, lines_with


def _without_initials(*words: str) -> tuple[bytes, ...]:
    return tuple(form[1:].encode() for word in words for form in (word, word.upper()))


_BEFORE = _without_initials("before", "baseline", "initial", "untrained")
_AFTER = _without_initials("after", "final", "trained", "tuned")
"""Parts of the words for the time before and after training. Lines are searched for them before the pattern is
tried."""
_SCORED = re.compile(rb"(?i)(?:rew|scor|acc|succ|pass|win|corr|solv)[^\n]{0,80}?[:=|)\]]\s*[-+]?\.?\d")
_TRAINING = (
    r"(?:[\W_]+(?:the|rl|rlhf|ppo|grpo|dpo|sft|training|fine-?tuning|optimi[sz]ation|detox|model|policy)(?![a-z]))*"
)
_PHASE = re.compile(
    r"(?<![a-z])(?:(before|baseline|initial|untrained)"
    rf"|after|final|trained|(?:fine-?)?tuned)(?![a-z]){_TRAINING}",
    re.IGNORECASE,
)
"""Matches a word for the time before or after training; only words for the time before have a group."""
_SCORES = frozenset(("reward_mean", "success_rate"))
_LONGEST = 300
_MOST = 3
"""Maximum number of lines of one form. A score that is printed more often is a series of training."""
_MOST_FORMS = 1000


class Comparison(NamedTuple):
    """A score before and after training, and the lines that contain it."""

    name: str
    before: float
    after: float
    lines: tuple[int, ...]

    @property
    def words(self) -> str:
        return f"{self.name} {self.before:.3g} before and {self.after:.3g} after the training"


class BeforeAfter:
    """The lines of a log that name the time before or after training."""

    def __init__(self) -> None:
        self._before: defaultdict[str, list[tuple[int, str, float]]] = defaultdict(list)
        self._after: defaultdict[str, list[tuple[int, str, float]]] = defaultdict(list)

    def see(self, first: int, block: bytes) -> None:
        """Keep the lines of a block that contain a score before or after training. A score after training counts only
        if a score before training was found. ``first`` is the number of the block's first line."""
        for marks in (_BEFORE, _AFTER):
            for line, raw in lines_with(marks, first, block) if marks is _BEFORE or self._before else ():
                if len(raw) <= _LONGEST and _SCORED.search(raw):
                    self._see(line, Input.texts(raw)[-1], early=marks is _BEFORE)

    def _see(self, line: int, text: str, early: bool) -> None:
        phases = [*_PHASE.finditer(text)] if "{" not in text else []
        if not phases or len(self._before) + len(self._after) >= _MOST_FORMS:
            return
        rest = _without(text, phases[0])
        if len(phases) == 1 and early == bool(phases[0][1]):
            name, value = _score(rest)
            if name:
                form = "".join(filter(str.isalpha, rest)).lower()
                (self._before if early else self._after)[form].append((line, name, value))
        elif early and len(phases) == 2 and phases[0][1] and not phases[1][1]:
            name, value = _score(rest[: phases[1].start() - len(phases[0][0])])
            _, values = pairs(text[phases[1].end() :])
            if name and values:
                self._before[f"{line}"].append((line, name, value))
                self._after[f"{line}"].append((line, name, values[0]))

    def found(self) -> list[Comparison]:
        """Return the comparisons, in the order of their lines."""
        held = []
        for form in self._before.keys() & self._after.keys():
            before, after = self._before[form], self._after[form]
            if len(before) == len(after) <= _MOST:
                lines = tuple(line for line, _, _ in chain(before, after))
                held.append(Comparison(before[0][1], before[0][2], after[0][2], lines))
        return sorted(held, key=lambda comparison: comparison.lines)


def _without(text: str, phase: re.Match[str]) -> str:
    return f"{text[: phase.start()]} {text[phase.end() :]}"


def _score(text: str) -> tuple[str, float]:
    """Return the name and the value of the first score in a line; an empty name if there is none."""
    for name, value in zip(*pairs(text), strict=True):
        if math.isfinite(value) and any(alias.field in _SCORES for alias in resolve(name)):
            return " ".join(name.split()), value
    return "", math.nan


def conclude(runs: Sequence[Run], found: Sequence[Comparison]) -> None:
    """Add the comparisons to the runs as notes, and the first one as two evaluations of a single run without a held-out
    score."""
    if not found:
        return
    trained = [run for run in runs if len(run) > 1]
    told = trained[0] if trained else runs[0]
    told.notes += [f"evaluated separately: {comparison.words}" for comparison in found[:_MOST]]
    if len(trained) == 1 and "eval_score" not in told.columns:
        scores = np.full(len(told), math.nan)
        scores[[0, -1]] = found[0].before, found[0].after
        told.columns["eval_score"] = scores
        told.mapping[f"{found[0].name} (before, after)"] = "eval_score"
