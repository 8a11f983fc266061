"""Where two arms part: the first place and metric at which they differ beyond noise.

For each metric means of windows of the paired difference are held against its noise (what one step leaves of it, its
autocorrelation included) and against what seeds do (`difference.SEED` of how far the metric had moved on both by then).
The critical value pays for looking at every place, every window and every metric. The parting is dated where two means
fit best what was seen by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ..run import Run
from ..series.noise_model import split
from ..series.trend import WINDOW
from .align import Aligned, timeline
from .difference import LEAST, SEED, autocorrelation

LOOKED = (5.2, 30.0)
"""Critical value ``a + b / places`` of one metric, in standard errors: it pays for every place and every window."""
METRICS_PAID = 0.5
"""What is added to the critical value of one metric because up to ten are looked at: the tail of the normal
distribution at 5.2 is ten times as large as at 5.64."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The place from which a metric differs, and its level on each side from there to where it could be known.

    ``broken`` names the side on which it is not finite from there, where that is how they differ.
    """

    metric: str
    at: float
    known: float
    base: float
    new: float
    broken: Literal["BASE", "NEW"] | None = None


def partings(series: Mapping[str, Aligned]) -> list[Parting]:
    """The metrics that part, the earliest first."""
    found = [p for metric, aligned in series.items() if (p := _of(metric, aligned)) is not None]
    return sorted(found, key=lambda p: (p.at, p.known))


def _of(metric: str, aligned: Aligned) -> Parting | None:
    d = aligned.difference()
    count = len(d)
    if count < LEAST:
        return None
    error = _noise(d)
    critical = LOOKED[0] + LOOKED[1] / count + METRICS_PAID
    arms = [arm.mean(axis=0) for arm in (aligned.base, aligned.new)]
    seeds = SEED * math.sqrt(1 / len(aligned.base) + 1 / len(aligned.new))
    first = None
    for width in sorted({WINDOW, *(max(count // part, WINDOW) for part in (4, 8, 16))}):
        levels = [_means(arm, width) for arm in arms]
        moved = np.minimum(*(np.maximum.accumulate(lv) - np.minimum.accumulate(lv) for lv in levels))
        beyond = np.abs(levels[1] - levels[0]) > critical * np.hypot(error(width), seeds * moved)
        if beyond.any():
            end = int(beyond.argmax()) + width
            first = end if first is None else min(first, end)
    if first is None:
        return None
    start = _begun(d[:first])
    base, new = (float(arm[start:first].mean()) for arm in arms)
    return Parting(metric=metric, at=float(aligned.x[start]), known=float(aligned.x[first - 1]), base=base, new=new)


def _noise(d: np.ndarray) -> Callable[[int], float]:
    """What one step leaves of the difference, as the standard error of the mean of some places in a row.

    Not `noise.noise_of`, which takes a slope and several steps for what happened: of two arms that drift apart by
    chance that leaves too little (in noise of lag-1 0.9 and 40 places 78 % of flat pairs part by it, 20 % by this).
    """
    at = split(d)
    rest = np.concatenate((d[:at] - d[:at].mean(), d[at:] - d[at:].mean()))
    along = autocorrelation(rest, fitted=3)  # where the step lies is fitted too
    variance = float(rest @ rest) / max(len(d) - 3, 1)
    least = 1e-9 * float(np.abs(d).max()) + 1e-300
    return lambda k: max(math.sqrt(variance * min((1 + along) / (1 - along) / k, 1.0)), least)


def _means(values: np.ndarray, width: int) -> np.ndarray:
    total = np.concatenate(([0.0], np.cumsum(values)))
    return np.asarray((total[width:] - total[:-width]) / width)


def _begun(d: np.ndarray) -> int:
    """Where the difference begins: the better of no step at all (they differ from the first place) and one step."""
    at = split(d)
    before, after = d[:at], d[at:]
    if not len(before) or abs(before.mean()) > abs(after.mean()) / 2:
        return 0
    return at


def first_not_finite(base: Sequence[Run], new: Sequence[Run]) -> Parting | None:
    """The first step at which a core metric is NaN or infinite on one side alone."""
    steps = [[_not_finite(run) for run in arm] for arm in (base, new)]
    sick = [min((found for found in arm if found is not None), default=None) for arm in steps]
    if (sick[0] is None) == (sick[1] is None):
        return None
    first = sick[0] or sick[1]
    assert first is not None
    step, metric = first
    side: Literal["BASE", "NEW"] = "NEW" if sick[0] is None else "BASE"
    return Parting(metric=metric, at=step, known=step, base=math.nan, new=math.nan, broken=side)


def _not_finite(run: Run) -> tuple[float, str] | None:
    for row in timeline(run).tolist():
        for event in run.events.get(row, ()):
            if event.kind == "nan":
                return float(run.steps[row]), event.message.split(" ", 1)[0]
    return None


def first_unequal(series: Mapping[str, Aligned]) -> float | None:
    """The first place at which any metric is not the same number on both sides; None where all are equal throughout."""
    firsts = [float(aligned.x[int(apart.argmax())]) for aligned in series.values() if (apart := ~aligned.equal()).any()]
    return min(firsts, default=None)
