"""Lays out the charts of the HTML report: positions for inline SVG that the browser stretches.

The x axis of a plot has the unit of the run and starts at the run's first row, so zooming only changes the ``viewBox``.
The y axis has `HEIGHT` units, downwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..diagnosis.check import Finding, Severity
from ..series.noise_model import median
from .charts import FEW, HUGE, PLACES, RANGES, Ground, Panel, healthy, timeline_rows

HEIGHT = 1000
"""Length of the y axis of a plot, in units of the view box."""
ROW = 34
"""Pixels per row of the timeline. A row is the name of a finding above a bar over the steps on which the finding was
active."""
NAME, BAR = 0.3, (0.6, 0.3)
"""`NAME`: position of the name, as a share of the row. `BAR`: start and height of the bar, also as shares of the
row."""
BINS = 160
"""Number of bins of the x axis. The rows with the smallest and the largest value of any series in a bin are drawn for
all series."""
DECADES = 3
"""Orders of magnitude above which a positive series has a logarithmic axis."""
FAR = 2.0
"""Distance from the central 98% of the values, as a multiple of their range, beyond which a value is drawn at the edge,
with a note."""
SMOOTHED, LEVELS = 200, 20
"""Minimum number of known values, and minimum number of different values, for a series to have a smoothed line over the
raw line."""
LEAST_GREEN = 0.04
"""Minimum share of the axis that a range must cover to be drawn, because a thinner range would be invisible."""
EDGE = 0.03
"""Share of the y axis, at its lower end, without labels."""
FLAT = 0.1
"""Minimum share of a common y axis that most curves must cover for the common axis to be used."""
SHADED = 1
"""Maximum number of shaded findings per curve, because more would hide the curve. The timeline shows all findings."""
PLACE = {"below": (0.95, 1.0), "above": (0.0, 0.05), "over the full height": (0.0, 1.0)}
"""Start and end of an event's ticks, as shares of the height, for each position of ticks."""


class Tick(NamedTuple):
    """A label of an axis, at a position from 0 to 100 percent of the axis."""

    at: str
    label: str


class Label(NamedTuple):
    """The name of a finding in a timeline: its vertical position (as a share), its text, and the start of its bar (in x
    units and as a share)."""

    at: str
    label: str
    begin: str
    share: float


class Span(NamedTuple):
    """The rectangle of a finding in the plot, over the rows on which the finding was active."""

    finding: Finding
    x: str
    y: str
    width: str
    height: str


class Drawing(NamedTuple):
    """One chart; paths are values of the SVG attribute ``d``."""

    panel: Panel
    view: str
    pixels: int
    points: str
    line: str
    dots: bool
    spans: list[Span]
    marks: list[tuple[str, str]]
    onset: str
    normal: tuple[str, str] | None
    across: list[Tick]
    up: list[Tick]
    notes: list[str]
    values: list[float | None]
    second: str = ""
    legend: Sequence[tuple[str, str]] = ()
    """Class and label of each line, if there is more than one."""
    names: Sequence[Label] = ()
    """Names of the findings in a timeline, by row."""


class Small(NamedTuple):
    """One of many curves of equal size: its view box, its line, and the line at its onset."""

    view: str
    line: str
    onset: str


def multiples(series: Sequence[tuple[np.ndarray, np.ndarray, float | None]]) -> list[Small]:
    """Draw curves for comparison on a common y axis, each given by its steps, values and onset.

    If most curves would be flat, for example with rewards on different scales, each curve has a separate axis.
    """
    known = [values[np.isfinite(values)] for _, values, _ in series]
    together = np.concatenate([np.empty(0), *known])
    shared = scale_of(together) if len(together) else Scale(0.0, 1.0, False)
    ranges = [float(np.ptp(on_an_axis(values))) for values in known if len(values)]
    alike = bool(ranges) and median(ranges) > FLAT * (shared.high - shared.low)
    drawn = []
    for (steps, values, onset), own in zip(series, known, strict=True):
        scale = shared if alike or not len(own) else scale_of(own)
        first, last = (float(steps[0]), float(steps[-1])) if len(steps) else (0.0, 0.0)
        at = "" if onset is None or not first <= onset <= last else f"M{onset - first:.10g} 0V{HEIGHT}"
        drawn.append(Small(f"0 0 {(last - first) or 1:.10g} {HEIGHT}", path_of(steps - first, scale.at(values)), at))
    return drawn


def drawings(panels: Sequence[Panel]) -> tuple[list[Drawing], dict[str, Any]]:
    """Return the charts of one run, and the data for hovering: rows, steps, source lines and values."""
    if not panels:
        return [], {}
    ground = panels[0].ground
    run = ground.diagnosis.run
    series = {p.field: values for p in panels if (values := run.column(p.field)) is not None}
    rows = _kept([*series.values(), *(run.columns[p.also] for p in panels if p.also)], len(run))
    drawn = [_timeline(p) if p.field == "timeline" else _series(p, series[p.field], rows) for p in panels]
    series |= {p.also: run.columns[p.also] for p in panels if p.also}
    told = {
        "x": _plain(ground.x[rows] - ground.x[0]),
        "steps": run.steps[rows].tolist(),
        "lines": run.lines[rows].tolist() if len(run.lines) else [],
        "series": {name: _plain(values[rows]) for name, values in series.items()},
    }
    return drawn, told


def _kept(columns: Any, rows: int) -> np.ndarray:
    """Return the rows to draw: all rows, or the rows with the smallest and largest value of every series in each
    bin."""
    if rows <= 2 * BINS:
        return np.arange(rows)
    kept = {0, rows - 1}
    for part in np.array_split(np.arange(rows), BINS):
        for values in columns:
            known = part[np.isfinite(values[part])]
            kept.add(int(part[0]))
            if len(known):
                kept |= {int(known[np.argmin(values[known])]), int(known[np.argmax(values[known])])}
    return np.array(sorted(kept))


def _plain(values: np.ndarray) -> list[float | None]:
    """Return numbers for JSON. Five digits are enough for a chart; unknown values are null."""
    return [short if math.isfinite(short := float(f"{v:.5g}")) else None for v in values.tolist()]


class Scale(NamedTuple):
    """The y axis of a series: its ends, as decimal logarithms if ``log`` is true."""

    low: float
    high: float
    log: bool

    def at(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of values, 0 at the top; values beyond the ends are drawn at the edge."""
        with np.errstate(all="ignore"):
            shown = np.log10(values) if self.log else values
        return HEIGHT * (1 - ((shown - self.low) / (self.high - self.low)).clip(0, 1))


def on_an_axis(known: np.ndarray) -> np.ndarray:
    """Clip values to the range of an axis; tiny values become 0."""
    return np.where(np.abs(known) < 1 / HUGE, 0.0, known.clip(-HUGE, HUGE))


def scale_of(known: np.ndarray) -> Scale:
    known = on_an_axis(known)
    low, high = float(known.min()), float(known.max())
    if low > 0 and high / low > 10**DECADES:
        margin = 0.05 * math.log10(high / low)
        return Scale(math.log10(low) - margin, math.log10(high) + margin, True)
    inner, outer = (float(q) for q in np.percentile(known, (1, 99)))
    reach = FAR * (outer - inner) or math.inf
    low, high = max(low, inner - reach), min(high, outer + reach)
    high = 1.0 if low == high == 0 else high  # most series of zeros are rewards or shares, whose scale ends at 1
    margin = 0.05 * (high - low) or abs(high) * 0.05
    return Scale(low - margin, high + margin, False)


def unit(ground: Ground) -> str:
    """Return the unit of the x axis."""
    return "step" if ground.x is ground.diagnosis.run.steps else "row"


def _series(panel: Panel, values: np.ndarray, rows: np.ndarray) -> Drawing:
    ground = panel.ground
    other = ground.diagnosis.run.columns[panel.also] if panel.also else np.empty(0)
    known = np.asarray(values[np.isfinite(values)], float)
    scale = scale_of(np.concatenate((known, other[np.isfinite(other)])))
    x = ground.x - ground.x[0]
    smooth = len(known) >= SMOOTHED and len(np.unique(known)) >= LEVELS
    dots = len(known) < FEW
    raw = path_of(x[rows], scale.at(values[rows]))
    normal = _normal(panel.field, scale)
    lines = [("curve", panel.field.replace("_", " "))] if panel.also else []
    if smooth:
        lines = [("raw", "every value"), ("curve", f"mean of {2 * reach_of(len(values)) + 1} rows")]
    if panel.also:
        lines.append(("second", panel.also.replace("_", " ")))
    return Drawing(
        panel=panel,
        view=view_of(ground.x),
        pixels=150,
        points=_dots(x[rows], scale.at(values[rows])) if dots else raw if smooth else "",
        line=path_of(x[rows], scale.at(smoothed(values)[rows])) if smooth else raw,
        dots=dots,
        spans=[_span(ground, f, 0, HEIGHT) for f in _findings_of(panel)],
        marks=_marks(ground),
        onset=_onset(ground),
        normal=normal,
        across=ticks_across(ground.x),
        up=ticks_up(scale),
        notes=_notes(known, scale),
        values=_plain(values[rows]),
        second=_through(x, scale.at(other)) if panel.also else "",
        legend=lines,
    )


def _through(x: np.ndarray, y: np.ndarray) -> str:
    """Return a line through all known points, because held-out scores are measured at few steps."""
    known = np.isfinite(y)
    return path_of(x[known], y[known])


def _timeline(panel: Panel) -> Drawing:
    ground = panel.ground
    rows = timeline_rows(ground)
    each = HEIGHT / len(rows)
    left, _, width, _ = map(float, view_of(ground.x).split())
    spans, paths, up, names = [], [], [], []
    for number, (name, what) in enumerate(rows):
        up.append(Tick(share(number + 0.5, 0, len(rows)), name))
        if isinstance(what, Finding):
            bar = _span(ground, what, (number + BAR[0]) * each, BAR[1] * each)
            spans.append(bar)
            begin = 100 * (float(bar.x) - left) / width
            names.append(Label(share(number + NAME, 0, len(rows)), what.name, bar.x, begin))
        else:
            paths.append(("event", _ticks(what - ground.x[0], (number + 0.2) * each, (number + 0.8) * each)))
    return Drawing(
        panel, view_of(ground.x), ROW * len(rows), "", "", False, spans, paths, _onset(ground), None,
        ticks_across(ground.x), up, [], [], names=names,
    )  # fmt: skip


def view_of(x: np.ndarray) -> str:
    """Return the view box of a plot over these positions, with a margin on both sides."""
    width = float(x[-1] - x[0])
    margin = 0.01 * width or 0.5
    return f"{-margin:.5g} 0 {width + 2 * margin:.10g} {HEIGHT}"


def path_of(x: np.ndarray, y: np.ndarray) -> str:
    """Return a line through the points, interrupted at unknown values."""
    words, pen = [], False
    for across, down in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(down):
            words.append(f"{'L' if pen else 'M'}{across:.10g} {down:.0f}")
        pen = math.isfinite(down)
    return "".join(words)


def _dots(x: np.ndarray, y: np.ndarray) -> str:
    """Return lines of length 0. With round caps, these lines are dots of constant size at any zoom."""
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return "".join(f"M{across:.10g} {down:.0f}h0" for across, down in pairs if math.isfinite(down))


def _ticks(places: np.ndarray, top: float, bottom: float) -> str:
    return "".join(f"M{place:.10g} {top:.0f}V{bottom:.0f}" for place in places.tolist())


def reach_of(rows: int) -> int:
    """Return the number of rows on each side that a smoothed value averages."""
    return max(1, rows // 80)


def smoothed(values: np.ndarray) -> np.ndarray:
    """Return the mean of the known values around each row. The window is a fortieth of the run."""
    finite = np.isfinite(values)
    half = reach_of(len(values))
    largest = np.abs(values[finite]).max() or 1.0  # a sum of huge values must not overflow
    rows = np.arange(len(values))
    begin, end = np.maximum(rows - half, 0), np.minimum(rows + half + 1, len(values))

    def around(column: np.ndarray) -> np.ndarray:
        total = np.concatenate(([0.0], np.cumsum(column)))
        return np.asarray(total[end] - total[begin])

    with np.errstate(all="ignore"):
        mean = largest * (around(np.where(finite, values / largest, 0.0)) / around(finite.astype(float)))
    return np.where(finite, mean, math.nan)


def _findings_of(panel: Panel) -> list[Finding]:
    """Return the most severe findings about this series, the worst last, so that it is drawn on top."""
    found = [f for f in panel.ground.diagnosis.findings if panel.field in f.columns and f.level > Severity.INFO]
    return sorted(found, key=lambda f: (f is panel.ground.main, f.level))[-SHADED:]


def _span(ground: Ground, finding: Finding, top: float, height: float) -> Span:
    begin, end = ground.place(finding.onset_step), ground.place(finding.last_step)
    first, last = float(ground.x[0]), float(ground.x[-1])
    begin = first if begin is None else begin
    end = max(begin, last if end is None or not finding.cleared else end)
    thin = 0.004 * (last - first) or 0.5  # even a single row must be visible
    return Span(finding, f"{begin - first:.10g}", f"{top:.0f}", f"{max(end - begin, thin):.10g}", f"{height:.0f}")


def _marks(ground: Ground) -> list[tuple[str, str]]:
    return [
        (kind, _ticks(ground.events[kind] - ground.x[0], *(HEIGHT * share for share in PLACE[where])))
        for kind, where in PLACES.items()
        if kind in ground.events
    ]


def _onset(ground: Ground) -> str:
    place = None if ground.main is None else ground.place(ground.main.onset_step)
    return "" if place is None else f"M{place - float(ground.x[0]):.10g} 0V{HEIGHT}"


def _normal(field: str, scale: Scale) -> tuple[str, str] | None:
    """Return the top and the height of the range in which the check of this series does not warn."""
    if field not in RANGES:
        return None
    bottom, top = scale.at(np.array(healthy()[field], float))
    return (f"{top:.0f}", f"{bottom - top:.0f}") if bottom - top > LEAST_GREEN * HEIGHT else None


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Return at most ``most`` round numbers in a range, spaced by 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * times for times in (1, 2, 5, 10, 20) if (high - low) / (power * times) <= most)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def ticks_up(scale: Scale) -> list[Tick]:
    """Return the labels of the y axis, except at the bottom, where the x axis has its labels."""
    if scale.log:
        first, last = math.ceil(scale.low), math.floor(scale.high)
        exponents = range(first, last + 1, max(1, (last - first) // 3))
        ticks = [(float(exponent), _plainly(10.0**exponent)) for exponent in exponents]
    else:
        ticks = [
            (place, f"{0.0 if abs(place) < 1e-12 * abs(scale.high) else place:.4g}")
            for place in round_numbers(scale.low, scale.high, 4)
        ]
    lowest = scale.low + EDGE * (scale.high - scale.low)
    return [Tick(share(place, scale.high, scale.low), label) for place, label in ticks if place >= lowest]


def _plainly(value: float) -> str:
    """Format a power of ten, without an exponent between 0.001 and 99,999."""
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:g}"


def share(place: float, begin: float, end: float) -> str:
    return f"{100 * (place - begin) / (end - begin):.4g}"


def ticks_across(x: np.ndarray) -> list[Tick]:
    """Return the labels of the x axis; zooming replaces them."""
    first, last = float(x[0]), float(x[-1])
    begin, _, width, _ = map(float, view_of(x).split())
    places = [p for p in round_numbers(first, last, 8) if p == int(p)] if last > first else [first]
    return [Tick(share(place - first, begin, begin + width), f"{place:.0f}") for place in places]


def _notes(known: np.ndarray, scale: Scale) -> list[str]:
    if scale.log:
        return ["log scale"]
    beyond = known[(known < scale.low) | (known > scale.high)]
    if not len(beyond):
        return []
    furthest = float(beyond[np.argmax(np.abs(beyond))])
    return [f"{len(beyond)} of {len(known)} values are beyond the axis, up to {furthest:.3g}"]
