"""Renders the report as one HTML file: no external requests, light and dark, strict content security policy.

Its single script adds hover, zoom and links to charts that are complete without it; ``--static`` omits the script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from grpo_doctor import Diagnosis, __version__
from grpo_doctor.diagnosis.framework import framework
from grpo_doctor.readers.input import Input, ReadError, broken
from grpo_doctor.report import model as words
from grpo_doctor.report.chart_layout import drawings, unit
from grpo_doctor.report.charts import colours, decisive, legend, panels
from grpo_doctor.report.markup import embedded, page
from grpo_doctor.report.model import Options
from grpo_doctor.report.proofs import proofs
from grpo_doctor.report.redaction import clean

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

FOLDER = Path(__file__).parent
STYLE = FOLDER / "html.css"
FEW = 2
"""Number of series per run if a report compares several runs."""
LOG_LINES, WIDTH = 300, 500
"""Maximum number of log lines in a page, and of characters per line."""


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Render one page for all runs. If there are several, a strip of small charts compares them."""
    script = "" if options.static else (FOLDER / "html.js").read_text(encoding="utf-8")
    runs = [_run(d, index, options, most=6 if len(diagnoses) == 1 else FEW) for index, d in enumerate(diagnoses)]
    known = {"runs": runs, "names": words.named(diagnoses), "words": words, "hidden": options.suppressions}
    return page(
        FOLDER / "html.j2", [STYLE], script, version=__version__, refresh=options.refresh, back=options.back, **known
    )


def render_comparisons(comparisons: Sequence[Comparison], options: Options) -> str:
    """Render one page for all comparisons, complete without a script."""
    from grpo_doctor.compare import summary as compared
    from grpo_doctor.compare.overlay import overlays

    told = [{"found": c, "charts": overlays(c)} for c in comparisons]
    return page(
        FOLDER / "comparison.j2", [STYLE], "", version=__version__, refresh=0, back="", told=told, compared=compared
    )


def notebook(diagnosis: Diagnosis) -> str:
    """Render the page in a sandboxed frame."""
    whole = render([words.presentable(diagnosis, samples=True)], Options(static=True))
    return Markup('<iframe sandbox title="grpo-doctor" width="100%" height="640" srcdoc="{}"></iframe>').format(whole)


def _run(diagnosis: Diagnosis, index: int, options: Options, most: int) -> dict[str, Any]:
    """Return the template data of one run. ``suffix`` keeps the anchors of several runs different."""
    shown = panels(diagnosis, most)
    charts, told = drawings(shown)
    first, main = decisive(diagnosis, shown), words.story(diagnosis).main
    curves = [chart for chart in charts if chart.panel.field != "timeline"]
    above = [chart for chart in curves if chart.panel is first]
    shaded, green = any(chart.spans for chart in above), any(chart.normal for chart in above)
    others = colours(
        shaded=not shaded and any(chart.spans for chart in curves),
        green=not green and any(chart.normal for chart in curves),
    )
    if charts and not options.static:
        told["first"] = float(shown[0].ground.x[0])
        told["texts"] = words.texts_by_step(diagnosis) if options.samples else {}
        told["log"] = _log(diagnosis) if options.samples else {}
    return {
        "diagnosis": diagnosis,
        "screen": words.first_screen(main, diagnosis, options.gpu_cost) if main else {},
        "story": words.story(diagnosis),
        "suffix": f"-{index + 1}" if index else "",
        "first": next((chart for chart in charts if chart.panel is first), None),
        "charts": [chart for chart in charts if chart.panel is not first],
        "told": Markup(embedded(told)) if charts and not options.static else "",
        "legend": legend(shown, shaded=shaded, green=green),
        "colours": others,
        "unit": unit(shown[0].ground) if shown else "",
        "framework": framework(diagnosis.run),
        "proofs": proofs(diagnosis) if options.samples else [],
        "responses": words.responses(diagnosis) if options.samples else [],
    }


def _log(diagnosis: Diagnosis) -> dict[int, str]:
    """Return lines of the log by number: the lines of findings, and evenly spaced lines in between."""
    run = diagnosis.run
    if run.path is None or not run.path.is_file() or not run.lines.any():  # a pipe cannot be read twice
        return {}
    steps = [step for f in diagnosis.findings for step in (f.onset_step, f.detected_step)]
    found = run.lines[np.flatnonzero(np.isin(run.steps, steps))].tolist()
    wanted = {*found[:LOG_LINES], *words.spread(run.lines[run.lines > 0].tolist(), LOG_LINES)}
    held: dict[int, str] = {}
    gone: tuple[type[Exception], ...] = (ReadError, *broken())  # the log was moved or rewritten since it was read
    try:
        for number, raw in Input(run.path).raw_lines():
            if number in wanted:
                held[number] = clean("\n".join(Input.texts(raw))[:WIDTH])
            if len(held) == len(wanted):
                break
    except gone:
        return {}
    return held
