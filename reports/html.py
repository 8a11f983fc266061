"""The report as one HTML file: no script, no outside request, light and dark, strict content security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from grpo_doctor import Diagnosis, __version__
from grpo_doctor import report as words
from grpo_doctor.charts import Panel, dark, data_uri, legend, panels, svg
from grpo_doctor.report import Options

FOLDER = Path(__file__).parent
FEW = 2
"""Series drawn of each run where a report compares several."""


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """One page for all runs; a strip compares them where there are several."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    style = (FOLDER / "html.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    runs = [_run(d, index, options, most=6 if len(diagnoses) == 1 else FEW) for index, d in enumerate(diagnoses)]
    page = environment.get_template("html.j2")
    names = words.named(diagnoses)
    known = {"runs": runs, "names": names, "style": Markup(style), "digest": digest}
    return page.render(**known, version=__version__, words=words).strip()


def notebook(diagnosis: Diagnosis) -> str:
    """The page in a sandboxed frame."""
    page = render([words.presentable(diagnosis, samples=True)], Options())
    return Markup('<iframe sandbox title="grpo-doctor" width="100%" height="640" srcdoc="{}"></iframe>').format(page)


def _run(diagnosis: Diagnosis, index: int, options: Options, most: int) -> dict[str, Any]:
    """What the template needs to know of one run. ``suffix`` keeps the anchors of several runs apart."""
    drawn = panels(diagnosis, most)
    return {
        "diagnosis": diagnosis,
        "story": words.story(diagnosis),
        "suffix": f"-{index + 1}" if index else "",
        "charts": [_chart(panel) for panel in drawn],
        "legend": legend(drawn),
        "responses": words.responses(diagnosis) if options.samples else [],
    }


def _chart(panel: Panel) -> dict[str, str]:
    light = svg(panel, text_as_paths=False)
    return {"light": data_uri(light), "dark": data_uri(dark(light)), "alt": panel.alt, "caption": panel.caption}


def _prose(text: str) -> Markup:
    """Text that a check's author wrote: words between backticks are code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(pieces))
