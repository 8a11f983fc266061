"""Finds where two arms diverge: for each metric, the first place at which they differ beyond noise, temporarily or
until the end.

The shapes and the noise are computed as in `difference`. A span in which the difference departs from 0 counts if the
mean difference exceeds the noise along the runs and the effect of seeds. The effect of seeds is a share of the change
in the metric so far, in the arm that changed less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ..run import Run
from ..series.noise_model import critical
from .align import Aligned, timeline
from .difference import DIFFERS, LEAST, SEED, SEEDS_DIFFER, departures_of, place_of, smaller_change, span_of


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The place at which a metric begins to differ, the end of the difference, and the metric's level on each side. The
    end is None if the metric differs until the end of the runs.

    ``broken`` names the side on which the metric is not finite, if the metric is finite on the other side.
    """

    metric: str
    at: float
    until: float | None = None
    base: float
    new: float
    broken: Literal["BASE", "NEW"] | None = None


def partings(series: Mapping[str, Aligned]) -> list[Parting]:
    """Return the divergence of each metric that diverges, the earliest first."""
    found = [p for metric, aligned in series.items() if (p := _of(metric, aligned)) is not None]
    return sorted(found, key=lambda p: p.at)


def _of(metric: str, aligned: Aligned) -> Parting | None:
    if len(aligned.x) < LEAST:
        return None
    (spans, fitted, noise), edges = departures_of(aligned)
    d = aligned.difference()
    size = critical(DIFFERS, noise.degrees)
    for begin, end in sorted(span_of(fitted, *span) for span in spans):
        first, last = place_of(begin, edges, d), int(edges[end])
        until_then = Aligned(aligned.x[:last], aligned.base[:, :last], aligned.new[:, :last])
        seeds = SEED * smaller_change(until_then) * math.sqrt(1 / len(aligned.base) + 1 / len(aligned.new))
        base, new = (float(arm[:, first:last].mean()) for arm in (aligned.base, aligned.new))
        if abs(new - base) > math.hypot(size * noise.error(end - begin), SEEDS_DIFFER * seeds):
            until = float(aligned.x[last]) if last < len(d) else None
            return Parting(metric=metric, at=float(aligned.x[first]), until=until, base=base, new=new)
    return None


def first_not_finite(base: Sequence[Run], new: Sequence[Run]) -> Parting | None:
    """Return the first step at which a core metric is NaN or infinite on one side only."""
    steps = [[_not_finite(run) for run in arm] for arm in (base, new)]
    broken = [min((found for found in arm if found is not None), default=None) for arm in steps]
    if (broken[0] is None) == (broken[1] is None):
        return None
    first = broken[0] or broken[1]
    assert first is not None
    step, metric = first
    side: Literal["BASE", "NEW"] = "NEW" if broken[0] is None else "BASE"
    return Parting(metric=metric, at=step, base=math.nan, new=math.nan, broken=side)


def _not_finite(run: Run) -> tuple[float, str] | None:
    for row in timeline(run).tolist():
        for event in run.events.get(row, ()):
            if event.kind == "nan":
                return float(run.steps[row]), event.message.split(" ", 1)[0]
    return None


def first_unequal(series: Mapping[str, Aligned]) -> float | None:
    """Return the first place at which any metric differs; None if all metrics are equal at every place."""
    firsts = [float(aligned.x[int(apart.argmax())]) for aligned in series.values() if (apart := ~aligned.equal()).any()]
    return min(firsts, default=None)
