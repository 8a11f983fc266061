"""The report for a terminal: verdict, cause, since when, how sure and what to do come first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from grpo_doctor import Diagnosis
from grpo_doctor.report import Options


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """One block a run."""
    console = Console(width=options.width, force_terminal=options.color, no_color=not options.color, highlight=False)
    with console.capture() as capture:
        for diagnosis in diagnoses:
            console.print(Text(f"{diagnosis.verdict.upper()}  {diagnosis.source}", style="bold"))
            console.print(Text(diagnosis.headline))
    return capture.get().rstrip("\n")
