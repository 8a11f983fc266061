"""Live output of ``run`` and ``watch``: a refreshing screen on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..report.redaction import clean, one_line

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from ..diagnosis.check import Finding
    from ..diagnosis.verdict import Diagnosis
    from ..integrations.session import Action, Session, Stopped
    from ..record import StepRecord

SHOWN = {
    "reward_mean": "reward",
    "valid_rate": "valid",
    "entropy_mean": "entropy",
    "kl": "KL",
    "response_length_mean": "length",
    "grad_norm": "grad",
}
"""Record fields that the view shows, with their labels."""

POINTS = 60
"""Maximum number of values in a sparkline."""


class Pace:
    """The speed of the run since the first observed step."""

    def __init__(self, first: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.first, self.clock, self.began = first, clock, clock()

    def left(self, step: int, last: int | None) -> str:
        """Return the remaining time and the steps per minute as text."""
        done, passed = step - self.first, self.clock() - self.began
        if not done or passed <= 0:
            return "no new step yet" if step else "starting"
        rate = f"{60 * done / passed:.3g} steps/min"
        if last is None:
            return rate
        seconds = passed / done * max(0, last - step)
        return f"{f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'} left, {rate}"


@dataclass
class Sight:
    """The state of a run that the screen shows."""

    name: str
    step: int
    last: int | None
    pace: str
    headline: str
    course: Mapping[str, Sequence[float]]
    """The known values of each record field."""
    findings: Sequence[Finding] = field(default_factory=list)

    @property
    def at(self) -> str:
        """Return the step, the speed and the name of the run in one line."""
        of = "" if self.last is None else f"/{self.last}"
        return f"step {self.step}{of}, {self.pace}, {self.name}"

    @property
    def numbers(self) -> str:
        """Return the newest value of each metric in one line."""
        return "  ".join(f"{SHOWN[name]} {values[-1]:.3g}" for name, values in self.course.items() if values)


def screen(sights: Sequence[Sight]) -> Group:
    """Render the runs: progress, verdict, metrics with sparklines, and findings."""
    import numpy as np
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from ..report.terminal import LEVEL, sparkline

    parts: list[RenderableType] = []
    for sight in sights:
        parts.append(Text(sight.at))
        if sight.last is not None:
            bar = Table.grid()  # without a grid, no line break follows the bar
            bar.add_row(ProgressBar(total=sight.last, completed=sight.step, width=60))
            parts.append(bar)
        table = Table.grid(padding=(0, 2))
        for name, values in sight.course.items():
            if values:
                table.add_row(
                    SHOWN[name], f"{values[-1]:.3g}", Text(sparkline(np.array(values[-POINTS:]), POINTS), "cyan")
                )
        parts += [table, Text(sight.headline, "bold")]
        active = [f for f in sight.findings if not f.cleared]
        parts += [
            Text(f"{f.severity:8} {f.code} since step {f.onset_step}: {clean(f.message)}", LEVEL[f.severity])
            for f in active[:8]
        ] or [Text("no findings", "green")]
    return Group(*parts)


class View:
    """Plain output of ``run``: one line per 5% of the run, and one line per finding."""

    def __init__(self, last: int, done: int, session: Session) -> None:
        self.last, self.first, self.session = last, done, session
        self.current, self.pace = done, Pace(done)
        self.every = max(1, last // 20)
        self.course: dict[str, list[float]] = {name: [] for name in SHOWN}

    def __enter__(self) -> View:
        typer.echo(one_line(f"grpo-doctor: training {self.last - self.first} steps into {self.session.folder.path}"))
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def step(self, record: StepRecord) -> None:
        """Add a finished step."""
        self.current = record.step
        for name, values in self.course.items():
            if (value := getattr(record, name)) is not None:
                values.append(value)
        self.show()

    def show(self) -> None:
        """Print the current step."""
        if self.current % self.every == 0 or self.current in (self.first + 1, self.last):
            sight = self.sight()
            typer.echo(f"step {sight.step}/{sight.last}  {sight.numbers}  {sight.pace}")

    def sight(self) -> Sight:
        """Return the current state of the run."""
        pace, name = self.pace.left(self.current, self.last), str(self.session.folder.path)
        return Sight(name, self.current, self.last, pace, "", self.course)

    def finding(self, finding: Finding, action: Action) -> None:
        """Print a finding that is new or has become more severe."""
        did = "" if action == "warn" else f" [{action}]"
        what = one_line(f"{finding.code} {finding.message}{did}")
        typer.echo(f"step {finding.detected_step}  {finding.severity}  {what}")

    def end(self, diagnosis: Diagnosis, reports: Sequence[Path], stopped: Stopped | None) -> None:
        """Print the verdict and the paths of the reports."""
        if stopped is not None:
            typer.echo(one_line(f"stopped: {stopped.why}"))
        cause = f" {diagnosis.cause}" if diagnosis.cause else ""
        typer.echo(f"{diagnosis.verdict}:{cause} {one_line(diagnosis.headline)}")
        for path in (self.session.folder.path / "records.jsonl", *reports):
            typer.echo(one_line(str(path)))


class Panel(View):
    """Refreshing screen of ``run``."""

    def __enter__(self) -> Panel:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(screen([self.sight()]), console=Console(), refresh_per_second=4)
        self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.show()
        self.live.__exit__(*error)

    def show(self) -> None:
        self.live.update(screen([self.sight()]))

    def sight(self) -> Sight:
        sight, diagnosis = super().sight(), self.session.doctor.diagnosis()
        sight.findings, sight.headline = diagnosis.findings, f"{diagnosis.verdict}: {diagnosis.headline}"
        return sight

    def finding(self, finding: Finding, action: Action) -> None:
        """Do nothing: the screen shows all findings."""


def view_for(last: int, done: int, session: Session) -> View:
    """Return the refreshing screen on a terminal, and the plain view otherwise."""
    return (Panel if sys.stdout.isatty() else View)(last, done, session)
