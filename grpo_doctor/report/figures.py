"""Writes the charts of a run as SVG and PNG files for papers and slides, with matplotlib from the extra ``figures``."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnosis.verdict import Diagnosis
from . import output
from .charts import FEW, HUGE, RANGES, Ground, Panel, decimated, file_name, healthy, panels, timeline_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {"update": ("#6b7280", 0.0, 0.05), "collapse": ("#c2410c", 0.94, 1.0), "restart": ("#7c3aed", 0.0, 1.0)}
"""Colour of each kind of event, and the start and end of its ticks as shares of the height."""

INK, GREY, LINE, GREEN, RULE, RED = "#1f2328", "#6b7280", "#1d4ed8", "#dcfce7", "#d0d7de", "#b91c1c"
ORANGE = "#a04800"
CHINESE = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
)


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
    """Draw one panel, with a size of 317 by 158 points."""
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
        _draw_series(axes, ground, panel)
    if ground.main is not None and (onset := ground.place(ground.main.onset_step)) is not None:
        axes.axvline(onset, color=RED, linewidth=1, linestyle=(0, (4, 2)))
    axes.set_xlabel("step" if ground.x is ground.diagnosis.run.steps else "row (the log restarts)", labelpad=1)
    return drawn


def _draw_series(axes: Axes, ground: Ground, panel: Panel) -> None:
    field = panel.field
    values = ground.diagnosis.run.column(field)
    assert values is not None
    known = np.isfinite(values)
    x, y = decimated(ground.x, np.where(known, values.clip(-HUGE, HUGE), np.nan))
    axes.plot(x, y, color=LINE, linewidth=1.1, marker="." if known.sum() < FEW else "", markersize=4)
    if panel.also:
        second = ground.diagnosis.run.columns[panel.also]
        axes.plot(ground.x[np.isfinite(second)], second[np.isfinite(second)], color=ORANGE, linewidth=1.1)
        axes.set_title(f"{field} (blue), {panel.also} (orange)")
    low, high = axes.get_ylim()
    if field in RANGES:
        floor, ceiling = healthy()[field]
        axes.axhspan(floor, ceiling, color=GREEN, linewidth=0, zorder=0)
        axes.set_ylim(min(low, floor), max(high, min(ceiling, high * 4) if high > 0 else ceiling))
    for kind, (color, bottom, top) in MARKS.items():
        if kind in ground.events:
            _ticks(axes, ground.events[kind], bottom, top, color, transform=axes.get_xaxis_transform())


def _ticks(axes: Axes, places: np.ndarray, bottom: float, top: float, color: str, **how: Any) -> None:
    """Draw vertical ticks as one line with gaps, which needs a tenth of the file size of separate markers."""
    x = np.repeat(places.astype(float), 3)
    axes.plot(x, np.tile([bottom, top, np.nan], len(places)), color=color, linewidth=1, **how)


def _draw_timeline(axes: Axes, ground: Ground) -> None:
    rows = timeline_rows(ground)
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


def svg(panel: Panel) -> str:
    """Return a panel as SVG on a light background, with text as paths. The same run always gives the same bytes."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context(_style() | {"svg.fonttype": "path"}):
        figure(panel).savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return re.sub(r">[^<]*<|\d+\.\d{3,}", _shorter, out.getvalue())


def _shorter(found: re.Match[str]) -> str:
    """Shorten coordinates to two decimals. Printed numbers are not shortened."""
    return found[0] if found[0].startswith(">") else f"{float(found[0]):.2f}"


def save(diagnoses: Sequence[Diagnosis], folder: Path) -> Iterator[Path]:
    """Write every panel as SVG and PNG; yield the files. Raises OSError."""
    import matplotlib

    for run, diagnosis in enumerate(diagnoses):
        for panel in panels(diagnosis):
            path = folder / f"{file_name(panel, run)}.svg"
            output.replace(path, svg(panel), named=False)
            yield path
            picture = path.with_suffix(".png")
            with matplotlib.rc_context(_style()), output.replacing(picture, named=False) as file:
                figure(panel).savefig(file, format="png", dpi=220)
            yield path.with_suffix(".png")
