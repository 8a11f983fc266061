"""``grpo-doctor demo``: a run that is broken, diagnosed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import common

RUN = Path(__file__).parents[1] / "demo"
"""The run of ``grpo-doctor run --inject train-mode-generation --steps 30``, as its folder holds it."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where the HTML report goes.")] = Path("grpo-doctor-demo.html"),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the report in the browser.")] = True,
) -> None:
    """Diagnoses a bundled run whose responses break after every update, and opens the report.

    The run was made by this project's own training engine with one bug switched on. Exit code 0, whatever is found.
    """
    import webbrowser

    from ..config import Config
    from .analyze import diagnose_paths

    with common.plain_errors():
        diagnoses = diagnose_paths([RUN / "records.jsonl"], Config()).diagnoses
        for diagnosis in diagnoses:
            diagnosis.source = diagnosis.run.source = "a bundled run of 30 steps"
        options = common.options("text", None, samples=True, color=None, verbose=False, rest="the page")
        common.write(diagnoses, "text", None, [f"html={out}"], options)
    common.say(f"The same as a page: {out}. Your own log: grpo-doctor analyze LOG", err=True)
    if browser:
        webbrowser.open(out.absolute().as_uri())
