"""Charts of the series that the findings are about: small multiples and a timeline, as SVG or PNG by matplotlib."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .catalogue import load
from .check import Finding, Severity
from .diagnosis import Diagnosis
from .run import BROADCAST, DERIVED, MEANINGS, Run
from .stats import Memory, collapse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANGES: dict[str, tuple[str, float | str, float | str]] = {
    "clip_fraction": ("RAT001", 0, "warn"),
    "cut_share": ("LEN003", 0, "warn"),
    "dead_share": ("ADV003", 0, "half"),
    "eos_suppressed_rate": ("LEN004", 0, "warn"),
    "invalid_rate": ("DIV004", 0, "some"),
    "kl": ("KL001", 0, "high"),
    "logit_gap": ("SHP001", 0, "gap"),
    "rollout_mismatch_kl": ("RAT004", 0, "warn"),
    "temperature": ("CFG004", "cold", "hot"),
    "top1_prob": ("SHP001", 0, "prob"),
    "top_pattern_share": ("DIV002", 0, "half"),
    "truncated_rate": ("LEN003", 0, "warn"),
    "unique_rate": ("DIV001", "warn", 1),
}
"""The check that judges a series by itself, and the ends of the range in which it is silent: its thresholds, or the
field's own. What depends on model and task (entropy, reward) has none."""

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
"""Series that are drawn where no finding names any."""

MOST = 6
"""Panels of a report."""
FEW = 60
"""Known values up to which each is a dot, so that one between gaps is seen."""
BINS = 240
"""Bins of a series; each keeps its smallest and its largest value."""
MARKS = {"update": ("#6b7280", 0.0, 0.05), "collapse": ("#c2410c", 0.94, 1.0), "restart": ("#7c3aed", 0.0, 1.0)}
"""Colour of each kind of event, and from which to which height of the panel its tick goes."""

PLACES = {"update": "below", "collapse": "above", "restart": "over the full height"}
"""The same in words."""

KINDS = {"collapse": "collapses", "update": "updates", "restart": "restarts", "nan": "NaN"}
"""The kinds of events that the timeline shows."""

LIGHT_TO_DARK = {
    "#1f2328": "#e6edf3", "#6b7280": "#9aa4b2", "#1d4ed8": "#79b8ff", "#dcfce7": "#12351f", "#d0d7de": "#3d444d",
    "#b91c1c": "#ff7b72", "#c2410c": "#ffa657", "#7c3aed": "#d2a8ff",
}  # fmt: skip
"""Every colour of the charts, and what it becomes on a dark ground."""

INK, GREY, LINE, GREEN, RULE, RED = list(LIGHT_TO_DARK)[:6]
CHINESE = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
)


@cache
def healthy() -> dict[str, tuple[float, float]]:
    """The range of each series in which its check does not warn, at the check's default thresholds."""
    checks = load().checks
    return {
        field: (float(checks[code].thresholds.get(str(low), low)), float(checks[code].thresholds.get(str(high), high)))
        for field, (code, low, high) in RANGES.items()
    }


class Ground(NamedTuple):
    """What the charts of one run share."""

    diagnosis: Diagnosis
    x: np.ndarray
    """Steps, or row numbers where the log restarts and steps go back."""
    events: dict[str, np.ndarray]
    """Kind of event to its places on the x axis, at most one a bin."""

    @property
    def main(self) -> Finding | None:
        return self.diagnosis.finding(self.diagnosis.cause) if self.diagnosis.cause else None

    def place(self, step: int) -> float | None:
        """Where a step stands on the x axis."""
        rows = np.flatnonzero(self.diagnosis.run.steps == step)
        return float(self.x[rows[0]]) if len(rows) else None


class Panel(NamedTuple):
    """One chart: the field it draws (or ``timeline``), its caption, and the same in words."""

    field: str
    caption: str
    alt: str
    ground: Ground


def panels(diagnosis: Diagnosis, most: int = MOST) -> list[Panel]:
    """The charts of a run: its timeline, then the series that matter, those of the headline first."""
    run = diagnosis.run
    if not len(run):
        return []
    x = run.steps if (np.diff(run.steps) >= 0).all() else np.arange(len(run))
    ground = Ground(diagnosis, x, _events(run, x))
    timeline = [Panel("timeline", "what happened when", _timeline_in_words(ground), ground)] if _rows(ground) else []
    return timeline + [Panel(f, MEANINGS[f], _in_words(ground, f), ground) for f in _fields(diagnosis)[:most]]


def legend(drawn: Sequence[Panel]) -> str:
    """What the colours and ticks of these charts mean, as far as they occur."""
    if not drawn:
        return ""
    ground = drawn[0].ground
    ticks = [f"{KINDS[kind]} {where}" for kind, where in PLACES.items() if kind in ground.events]
    words = [f"Dashed: {ground.main.code} begins." if ground.main else ""]
    words.append("Green: range in which its check is silent." if any(p.field in RANGES for p in drawn) else "")
    words.append(f"Ticks: {', '.join(ticks)}." if ticks else "")
    return " ".join(filter(None, words))


def _events(run: Run, x: np.ndarray) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for row, events in run.events.items():
        for event in events:
            rows.setdefault(event.kind, []).append(row)
    applied, invalid = run.column("update_applied"), run.column("invalid_rate")
    if applied is not None and (applied == 0).any():  # where every step updates, ticks say nothing
        rows.setdefault("update", []).extend(np.flatnonzero(applied == 1).tolist())
    if invalid is not None:
        _, collapsed = Memory().block(collapse, [invalid, np.full(len(run), np.nan)], len(run))
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
    return named or [n for n in VITALS if _drawable(diagnosis, n)]


def _drawable(diagnosis: Diagnosis, field: str) -> bool:
    values = diagnosis.run.column(field)
    if values is None or values.dtype == object:
        return False
    known = values[np.isfinite(values)]
    return len(known) > 2 and not (field in BROADCAST and known.min() == known.max())


def decimated(x: np.ndarray, y: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """At most two points a bin, the smallest and the largest, in their order; unknown values break the line."""
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
    words = f"{field}: {known[0]:.3g} at first, {known[-1]:.3g} at last, from {known.min():.3g} to {known.max():.3g}"
    return f"{words}; {ground.main.code} begins at step {ground.main.onset_step}" if ground.main else words


def _rows(ground: Ground) -> list[tuple[str, Finding | np.ndarray]]:
    """The rows of the timeline: findings, the headline at the top, then kinds of events."""
    findings: list[tuple[str, Finding | np.ndarray]] = [(f.code, f) for f in ground.diagnosis.findings[:8]]
    return findings + [(name, ground.events[kind]) for kind, name in KINDS.items() if kind in ground.events]


def _timeline_in_words(ground: Ground) -> str:
    words = []
    for name, what in _rows(ground):
        first, last = (what[0], what[-1]) if isinstance(what, np.ndarray) else (what.onset_step, what.last_step)
        words.append(f"{name} from {first:.0f} to {last:.0f}")
    return "timeline: " + ", ".join(words)


def _style() -> dict[Any, Any]:
    from matplotlib import font_manager

    present = set(font_manager.get_font_names())
    return {
        "svg.hashsalt": "grpo-doctor", "font.family": ["DejaVu Sans", *(n for n in CHINESE if n in present)],
        "font.size": 8, "text.color": INK, "axes.edgecolor": RULE, "axes.labelcolor": INK, "xtick.color": INK,
        "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9,
        "axes.titlelocation": "left", "axes.formatter.use_mathtext": False, "text.parse_math": False,
    }  # fmt: skip


def figure(panel: Panel) -> Figure:
    """One panel, 317 by 158 points."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    ground = panel.ground
    drawn = Figure(figsize=(4.4, 2.2), dpi=72, layout="constrained")
    axes = drawn.add_subplot()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.set_title(panel.field)
    if panel.field == "timeline":
        _draw_timeline(axes, ground)
    else:
        _draw_series(axes, ground, panel.field)
    if ground.main is not None and (onset := ground.place(ground.main.onset_step)) is not None:
        axes.axvline(onset, color=RED, linewidth=1, linestyle=(0, (4, 2)))
    axes.set_xlabel("step" if ground.x is ground.diagnosis.run.steps else "row (the log restarts)", labelpad=1)
    return drawn


def _draw_series(axes: Axes, ground: Ground, field: str) -> None:
    values = ground.diagnosis.run.column(field)
    assert values is not None
    known = np.isfinite(values)
    x, y = decimated(ground.x, np.where(known, values, np.nan))
    axes.plot(x, y, color=LINE, linewidth=1.1, marker="." if known.sum() < FEW else "", markersize=4)
    low, high = axes.get_ylim()
    if field in RANGES:
        floor, ceiling = healthy()[field]
        axes.axhspan(floor, ceiling, color=GREEN, linewidth=0, zorder=0)
        axes.set_ylim(min(low, floor), max(high, min(ceiling, high * 4) if high > 0 else ceiling))
    for kind, (color, bottom, top) in MARKS.items():
        if kind in ground.events:
            _ticks(axes, ground.events[kind], bottom, top, color, transform=axes.get_xaxis_transform())


def _ticks(axes: Axes, places: np.ndarray, bottom: float, top: float, color: str, **how: Any) -> None:
    """Vertical ticks as one line with gaps, which is a tenth of the size of as many markers."""
    x = np.repeat(places.astype(float), 3)
    axes.plot(x, np.tile([bottom, top, np.nan], len(places)), color=color, linewidth=1, **how)


def _draw_timeline(axes: Axes, ground: Ground) -> None:
    rows = _rows(ground)
    axes.set_xlim(float(ground.x[0]) - 0.5, float(ground.x[-1]) + 0.5)
    for height, (_, what) in enumerate(reversed(rows)):
        if isinstance(what, np.ndarray):
            _ticks(axes, what, height - 0.35, height + 0.35, GREY)
            continue
        begin, end = ground.place(what.onset_step), ground.place(what.last_step)
        span = (ground.x[0] if begin is None else begin, ground.x[-1] if end is None else end)
        axes.plot(span, (height, height), color=RED if what is ground.main else LINE, linewidth=4)
    axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)


def svg(panel: Panel, *, text_as_paths: bool) -> str:
    """A panel as SVG on light ground; the same run gives the same bytes."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context(_style() | {"svg.fonttype": "path" if text_as_paths else "none"}):
        figure(panel).savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return re.sub(r">[^<]*<|\d+\.\d{3,}", _shorter, out.getvalue())


def _shorter(found: re.Match[str]) -> str:
    """Two decimals are enough for a place; a figure that is printed stays whole."""
    return found[0] if found[0].startswith(">") else f"{float(found[0]):.2f}"


def dark(light: str) -> str:
    """The same SVG for dark ground."""
    return re.sub("#[0-9a-f]{6}", lambda m: LIGHT_TO_DARK.get(m[0], m[0]), light)


def data_uri(text: str) -> str:
    """SVG as an address that needs no request."""
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()


def file_name(panel: Panel, run: int) -> str:
    """The name of a panel's file, without its extension."""
    return f"run{run + 1}-{panel.field.replace('_', '-')}"


def save(diagnoses: Sequence[Diagnosis], folder: Path) -> Iterator[Path]:
    """Writes every panel as SVG and PNG for papers and slides; yields the files. Raises OSError."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    for run, diagnosis in enumerate(diagnoses):
        for panel in panels(diagnosis):
            path = folder / f"{file_name(panel, run)}.svg"
            path.write_text(svg(panel, text_as_paths=True), encoding="utf-8")
            yield path
            with matplotlib.rc_context(_style()):
                figure(panel).savefig(path.with_suffix(".png"), dpi=220)
            yield path.with_suffix(".png")
