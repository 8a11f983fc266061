"""Selects the charts of a run: the series of its findings, and a timeline.

`chart_layout` draws the charts for the HTML report, and `figures` writes the charts to files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ..diagnosis.catalogue import load
from ..diagnosis.check import Finding, Severity
from ..diagnosis.verdict import Diagnosis
from ..run import BROADCAST, Run
from ..series import collapse, computed
from ..series.derived import DERIVED, MEANINGS

RANGES: dict[str, tuple[str, float | str, float | str]] = {
    "clip_fraction": ("RAT001", 0, "warn"),
    "cut_share": ("LEN003", 0, "warn"),
    "dead_share": ("ADV003", 0, "half"),
    "eos_suppressed_rate": ("LEN004", 0, "warn"),
    "invalid_rate": ("DIV004", 0, "warning_share"),
    "kl": ("KL001", 0, "exploded_nats"),
    "logit_gap": ("SHP001", 0, "warning_gap"),
    "rollout_mismatch_kl": ("RAT004", 0, "warn"),
    "temperature": ("CFG004", "cold_below", "hot_above"),
    "top1_prob": ("SHP001", 0, "prob"),
    "top_pattern_share": ("DIV002", 0, "half"),
    "truncated_rate": ("LEN003", 0, "warn"),
    "unique_rate": ("DIV001", "warn", 1),
}
"""For each series, its check and the limits of the range in which the check does not warn. A limit is a threshold of
the check or a limit of the field. Series that depend on model and task (entropy, reward) have no range."""

VITALS = (
    "reward_mean",
    "invalid_rate",
    "entropy_mean",
    "kl",
    "grad_norm",
    "response_length_mean",
    "loss",
    "dead_share",
)
"""Series to draw if no finding names one."""

TOGETHER = {"reward_mean": "eval_score", "success_rate": "eval_score"}
"""Pairs of series that share a chart if their scales are similar."""
ALIKE = 0.2
"""Minimum share of a common axis that each of two series must cover."""

TITLES = {"dead_share": "share of zero-variance groups", "cut_share": "share of truncated responses"}
"""Titles of charts for fields whose names are abbreviated."""
MOST = 6
"""Maximum number of panels per report."""
FEW = 60
"""Number of known values up to which each value is drawn as a dot, so that a value between gaps is visible."""
BINS = 240
"""Number of bins per series; each bin keeps its smallest and largest value."""
HUGE = 1e100
"""Largest number on an axis; computations with larger numbers overflow."""
PLACES = {"update": "below", "collapse": "above", "restart": "over the full height"}
"""The kinds of events that a chart marks with ticks, and their position."""

KINDS = {"collapse": "collapses", "update": "updates", "restart": "restarts", "nan": "NaN"}
"""The kinds of events in the timeline."""


@cache
def healthy() -> dict[str, tuple[float, float]]:
    """Return the range of each series in which its check does not warn, at default thresholds."""
    checks = load().checks
    return {
        field: (float(checks[code].thresholds.get(str(low), low)), float(checks[code].thresholds.get(str(high), high)))
        for field, (code, low, high) in RANGES.items()
    }


class Ground(NamedTuple):
    """Data that the charts of one run share."""

    diagnosis: Diagnosis
    x: np.ndarray
    """Steps, or row numbers if the log restarts and steps go back."""
    events: dict[str, np.ndarray]
    """For each kind of event, its positions on the x axis, at most one per bin."""

    @property
    def main(self) -> Finding | None:
        return self.diagnosis.finding(self.diagnosis.cause) if self.diagnosis.cause else None

    def place(self, step: int) -> float | None:
        """Return the position of a step on the x axis."""
        rows = np.flatnonzero(self.diagnosis.run.steps == step)
        return float(self.x[rows[0]]) if len(rows) else None


class Panel(NamedTuple):
    """One chart: its field (or ``timeline``), its caption, its alternative text, and its second series, if any."""

    field: str
    caption: str
    alt: str
    ground: Ground
    also: str = ""

    @property
    def title(self) -> str:
        """Return a readable name of the field."""
        return TITLES.get(self.field, self.field.replace("_", " "))


def panels(diagnosis: Diagnosis, most: int = MOST) -> list[Panel]:
    """Return the charts of a run: the timeline, then the reward, then the series of the headline."""
    run = diagnosis.run
    if len(run) < 2:  # a configuration, or a run with a single row
        return []
    x = run.steps if (np.diff(run.steps) >= 0).all() else np.arange(len(run))
    ground = Ground(diagnosis, x, _events(run, x))
    timeline = (
        [Panel("timeline", "what happened when", _timeline_in_words(ground), ground)] if timeline_rows(ground) else []
    )
    fields = _fields(diagnosis)
    also: dict[str, str] = {}
    for field in fields[:most]:
        if (second := _second(diagnosis, field)) and second not in also.values():
            also[field] = second
    alone = [f for f in fields if f not in also.values()][:most]
    return timeline + [Panel(f, MEANINGS[f], _in_words(ground, f), ground, also.get(f, "")) for f in alone]


def decisive(diagnosis: Diagnosis, shown: Sequence[Panel]) -> Panel | None:
    """Return the chart of the first screen: a series of the first finding in the headline, preferably a vital one."""
    drawn = {panel.field: panel for panel in shown if panel.field != "timeline"}
    said = [(diagnosis.headline.find(f.message.removesuffix(".")), f) for f in diagnosis.findings]
    opening = sorted((at, f.code, f.columns) for at, f in said if at >= 0)
    named = [column for *_, columns in opening for column in sorted(columns, key=lambda name: name not in VITALS)]
    named += [field for field in drawn if field in diagnosis.headline]
    first = next((field for field in (*named, *drawn) if field in drawn), None)
    return drawn[first] if first is not None else None


def _second(diagnosis: Diagnosis, field: str) -> str:
    """Return the series to draw in the same chart as this field; empty if there is none, or if one of the two series
    would be flat."""
    other = TOGETHER.get(field, "")
    if not other or not _drawable(diagnosis, other):
        return ""
    columns = [diagnosis.run.columns[name] for name in (field, other)]
    ends = [(float(known.min()), float(known.max())) for known in (c[np.isfinite(c)] for c in columns)]
    whole = max(high for _, high in ends) - min(low for low, _ in ends)
    return other if whole < HUGE and all(high - low >= ALIKE * whole for low, high in ends) else ""


def legend(drawn: Sequence[Panel], *, shaded: bool, green: bool) -> str:
    """Explain the colours and ticks in these charts: ``shaded`` if a finding is shaded, ``green`` if a range is
    drawn."""
    if not drawn:
        return ""
    ground = drawn[0].ground
    ticks = [f"{KINDS[kind]} {where}" for kind, where in PLACES.items() if kind in ground.events]
    words = [f"Dashed: {ground.main.code} begins." if ground.main else "", colours(shaded=shaded, green=green)]
    words.append(f"Ticks: {', '.join(ticks)}." if ticks else "")
    return " ".join(filter(None, words))


def colours(*, shaded: bool, green: bool) -> str:
    """Explain the colours of charts that have them."""
    words = [
        "Shaded: a finding holds." if shaded else "",
        "Green: range in which its check is silent." if green else "",
    ]
    return " ".join(filter(None, words))


def _events(run: Run, x: np.ndarray) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, events in run.events.items():
        for event in events:
            rows.setdefault(event.kind, []).append(row)
    applied, invalid = run.column("update_applied"), run.column("invalid_rate")
    if applied is not None and (applied == 0).any():  # ticks are useful only if some steps are not updates
        rows.setdefault("update", []).extend(np.flatnonzero(applied == 1).tolist())
    if invalid is not None:
        _, collapsed = computed(collapse, [invalid, np.full(len(run), np.nan)])
        rows.setdefault("collapse", []).extend(np.flatnonzero(collapsed).tolist())
    edges = np.linspace(x[0], x[-1], BINS)
    places = {kind: x[np.unique(at)] for kind, at in rows.items() if at}
    return {
        kind: at if len(at) <= BINS else np.unique(edges[np.searchsorted(edges, at).clip(0, BINS - 1)])
        for kind, at in places.items()
    }


def _fields(diagnosis: Diagnosis) -> list[str]:
    telling = [f for f in diagnosis.findings if f.level > Severity.INFO]
    named = [column for finding in telling for column in finding.columns]
    inputs = {field for name in named if name in DERIVED for field in DERIVED[name][0]}
    named = [n for n in dict.fromkeys(named) if n not in inputs and _drawable(diagnosis, n)]
    first = ["reward_mean"] if _drawable(diagnosis, "reward_mean") else []
    return list(dict.fromkeys([*first, *(named or [n for n in VITALS if _drawable(diagnosis, n)])]))


def _drawable(diagnosis: Diagnosis, field: str) -> bool:
    values = diagnosis.run.column(field)
    if values is None or values.dtype == object:
        return False
    known = values[np.isfinite(values)]
    return len(known) > 2 and not (field in BROADCAST and known.min() == known.max())


def decimated(x: np.ndarray, y: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """Return at most two points per bin, the smallest and the largest, in order. Unknown values interrupt the line."""
    if len(x) <= 2 * bins:
        return x, y
    kept: list[int] = []
    for part in np.array_split(np.arange(len(x)), bins):
        values = y[part]
        if np.isnan(values).all():
            kept.append(int(part[0]))
        else:
            kept += sorted({int(part[np.nanargmin(values)]), int(part[np.nanargmax(values)])})
    return x[kept], y[kept]


def _in_words(ground: Ground, field: str) -> str:
    values = ground.diagnosis.run.column(field)
    assert values is not None
    known = values[np.isfinite(values)]
    words = f"{field}: {known[0]:.3g} to {known[-1]:.3g}, between {known.min():.3g} and {known.max():.3g}"
    return f"{words}; {ground.main.code} begins at step {ground.main.onset_step}" if ground.main else words


def timeline_rows(ground: Ground) -> list[tuple[str, Finding | np.ndarray]]:
    """Return the rows of the timeline: findings (those of the headline first), then kinds of events."""
    findings: list[tuple[str, Finding | np.ndarray]] = [(f.code, f) for f in ground.diagnosis.findings[:8]]
    return findings + [(name, ground.events[kind]) for kind, name in KINDS.items() if kind in ground.events]


def _timeline_in_words(ground: Ground) -> str:
    words = []
    for name, what in timeline_rows(ground):
        first, last = (what[0], what[-1]) if isinstance(what, np.ndarray) else (what.onset_step, what.last_step)
        words.append(f"{name} from {first:.0f} to {last:.0f}")
    return "timeline: " + ", ".join(words)


def file_name(panel: Panel, run: int) -> str:
    """Return the file name of a panel, without extension."""
    return f"run{run + 1}-{panel.field.replace('_', '-')}"
