"""Renders a fleet as one HTML file without external requests, with a light and a dark theme. Only sorting needs the
script."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .. import __version__
from ..diagnosis.catalogue import home
from ..diagnosis.wording import counted
from ..readers.folder import outcomes
from ..report.chart_layout import Small, multiples
from ..report.markup import page
from ..report.model import Options
from ..report.redaction import one_line
from .overview import Overview, effect_words, effects_words, unit_of, verdict_words
from .text import cells
from .unit import Line

FOLDER = Path(__file__).parent
COLUMNS = 4
"""Number of settings to show per run. The settings that separate failing runs best are shown."""


def render(overview: Overview, options: Options, pages: str = "") -> str:
    """Render the page. ``pages`` is the folder, next to the page, with the report of each run."""
    script = "" if options.static else (FOLDER / "page.js").read_text(encoding="utf-8")
    return page(
        FOLDER / "page.j2",
        [home("reports") / "html.css", FOLDER / "page.css"],
        script,
        fleet=overview,
        title=verdict_words(overview),
        telling=effects_words(overview),
        words_of=lambda effect: effect_words(effect, len(overview.effects)),
        cells=cells,
        metric=unit_of(overview.metric),
        level=lambda line: _level(line, overview.metric),
        columns=[effect.setting for effect in overview.effects[:COLUMNS]],
        small=_small(overview),
        alt=_in_words,
        counted=counted,
        one_line=one_line,
        outcomes=outcomes,
        pages=pages,
        version=__version__,
    )


def _level(line: Line, metric: str | None) -> str:
    return f"{line.levels[metric].now:.4g}" if metric in line.levels else ""


def _small(overview: Overview) -> list[Small]:
    """Draw the curve of each row. All curves of a series share one scale."""
    drawn: dict[int, Small] = {}
    for field in {line.curve for line in overview.lines}:
        here = [number for number, line in enumerate(overview.lines) if line.curve == field]
        lines = [overview.lines[number] for number in here]
        curves = [(np.array(one.curve_steps), np.array(one.curve_values), one.onset_step) for one in lines]
        drawn |= dict(zip(here, multiples(curves), strict=True))
    return [drawn[number] for number in range(len(overview.lines))]


def _in_words(line: Line) -> str:
    values = line.curve_values
    return (
        f"{line.curve.replace('_', ' ')}: {values[0]:.3g} at the start, {values[-1]:.3g} at the end" if values else ""
    )
