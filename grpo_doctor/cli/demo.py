"""``grpo-doctor demo``: diagnoses a bundled broken run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import common

RUN = Path(__file__).parents[1] / "demo"
"""The run folder of ``grpo-doctor run --inject train-mode-generation --steps 30``."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Path of the HTML report.")] = Path("grpo-doctor-demo.html"),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the report in the browser.")] = True,
) -> None:
    """Diagnoses a bundled run whose responses become invalid after every update, and opens the report.

    The run comes from this project's training engine. The exit code is always 0.
    """
    import webbrowser

    from ..config import Config
    from .analyze import diagnose_paths

    with common.plain_errors():
        diagnoses = diagnose_paths([RUN / "records.jsonl"], Config()).diagnoses
        for diagnosis in diagnoses:
            diagnosis.source = diagnosis.run.source = "a bundled run of 30 steps"
        options = common.options(Config(), "text", None, None, rest="the HTML report")
        common.write(diagnoses, "text", None, [f"html={out}"], options)
    common.say("To diagnose your own log: grpo-doctor analyze LOG", err=True)
    if browser:
        webbrowser.open(out.absolute().as_uri())
