"""Lays out the charts of a comparison: both curves, their bands, and the shaded area between the curves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..report.chart_layout import (
    HEIGHT,
    SMOOTHED,
    Scale,
    Tick,
    path_of,
    scale_of,
    smoothed,
    ticks_across,
    ticks_up,
    view_of,
)
from .align import Aligned
from .comparison import Comparison
from .verdict import decided_by

PLACES = 240
"""Maximum number of places drawn per series, evenly spread over the smoothed curve."""


class Side(NamedTuple):
    """The curve and the band of one arm. The band shows the range of the seeds or, for a single run, the noise."""

    line: str
    band: str


class Overlay(NamedTuple):
    """One chart. Paths are values of the SVG attribute ``d``."""

    metric: str
    label: str
    alt: str
    view: str
    base: Side
    new: Side
    between: str
    parted: str
    across: list[Tick]
    up: list[Tick]
    unit: str
    bands: str


def overlays(found: Comparison) -> list[Overlay]:
    """Return a chart for each compared metric, the deciding metric first, and for the first metric that diverges. Each
    chart marks where the arms first diverge."""
    deciding = found.success or decided_by(found.differences)
    labels = {d.metric: d.label for d in sorted(found.differences, key=lambda d: d is not deciding)}
    first = found.parting
    names = list(dict.fromkeys([*labels, *([first.metric] if first is not None else [])]))
    made = []
    for name in names:
        aligned = found.aligned(name)
        if aligned is not None and len(aligned.x) > 2:
            at = None if first is None else max(first.at, float(aligned.x[0]))
            unit = "step" if found.by == "step" else "tokens"
            made.append(_overlay(name, labels.get(name, name.replace("_", " ")), aligned, at, unit))
    return made


def _overlay(metric: str, label: str, aligned: Aligned, parted: float | None, unit: str) -> Overlay:
    x = aligned.x - aligned.x[0]
    rows = np.unique(np.linspace(0, len(x) - 1, min(PLACES, len(x))).astype(int))
    sides = [_levels(arm) for arm in (aligned.base, aligned.new)]
    scale = scale_of(np.concatenate([level[rows] for side in sides for level in side]))
    curves = [(mean[rows], low[rows], high[rows]) for mean, low, high in sides]
    base, new = (Side(path_of(x[rows], scale.at(m)), _area(x[rows], scale, lo, hi)) for m, lo, hi in curves)
    ends = f"{curves[0][0][-1]:.3g} in BASE and {curves[1][0][-1]:.3g} in NEW at the end"
    words = f"{label}: {ends}" + (f"; they diverge at {parted:.0f}" if parted is not None else "")
    return Overlay(
        metric=metric,
        label=label,
        alt=words,
        view=view_of(aligned.x),
        base=base,
        new=new,
        between=_area(x[rows], scale, curves[0][0], curves[1][0]),
        parted="" if parted is None else f"M{parted - aligned.x[0]:.10g} 0V{HEIGHT}",
        across=ticks_across(aligned.x),
        up=ticks_up(scale),
        unit=unit,
        bands=_bands(len(aligned.x) >= SMOOTHED, len(aligned.base) + len(aligned.new) > 2),
    )


def _bands(long: bool, seeds: bool) -> str:
    """Describe the lines and bands of a chart."""
    lines = "Lines: means over neighbouring steps. " if long else ""
    return lines + ("Bands: the seeds of each side." if seeds else "Bands: the noise of each run." if long else "")


def _levels(arm: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean, the lower end and the upper end of the band of an arm, [runs, places]. A long series is
    smoothed. For a single run, the band shows the noise."""
    long = arm.shape[1] >= SMOOTHED
    if len(arm) > 1:
        each = np.array([smoothed(run) for run in arm]) if long else arm
        return each.mean(axis=0), each.min(axis=0), each.max(axis=0)
    if not long:
        return arm[0], arm[0], arm[0]
    mean = smoothed(arm[0])
    spread = np.sqrt(smoothed((arm[0] - mean) ** 2))
    return mean, mean - spread, mean + spread


def _area(x: np.ndarray, scale: Scale, low: np.ndarray, high: np.ndarray) -> str:
    """Return the outline of the area between two curves."""
    there, back = path_of(x, scale.at(low)), path_of(x[::-1], scale.at(high)[::-1])
    return f"{there}{back.replace('M', 'L', 1)}Z" if there else ""
