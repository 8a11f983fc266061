"""What ``run`` shows while it trains: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..check import Finding
    from ..diagnosis import Diagnosis
    from ..record import StepRecord
    from ..session import Action, Session, Stopped

SHOWN = {
    "reward_mean": "reward",
    "valid_rate": "valid",
    "entropy_mean": "entropy",
    "kl": "KL",
    "response_length_mean": "length",
    "grad_norm": "grad",
}
"""Record fields in the view, and what they are called there."""

STYLES = {"info": "dim", "warning": "yellow", "error": "red", "critical": "bold red"}


class View:
    """Plain lines: one for every twentieth of the run, and one for every finding."""

    def __init__(self, last: int, done: int, session: Session) -> None:
        self.last, self.first, self.session = last, done, session
        self.began = time.monotonic()
        self.every = max(1, last // 20)

    def __enter__(self) -> View:
        typer.echo(f"grpo-doctor: training {self.last - self.first} steps into {self.session.folder.path}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def step(self, record: StepRecord) -> None:
        """Takes a finished step."""
        if record.step % self.every == 0 or record.step in (self.first + 1, self.last):
            values = "  ".join(f"{name} {value}" for name, value in numbers(record))
            typer.echo(f"step {record.step}/{self.last}  {values}  {self.left(record.step)}")

    def finding(self, finding: Finding, action: Action) -> None:
        """Takes a finding that is new or has become worse."""
        did = "" if action == "warn" else f" [{action}]"
        typer.echo(f"step {finding.detected_step}  {finding.severity}  {finding.code} {finding.message}{did}")

    def end(self, diagnosis: Diagnosis, reports: Sequence[Path], stopped: Stopped | None) -> None:
        """The verdict, and where the reports are."""
        if stopped is not None:
            typer.echo(f"stopped: {stopped.why}")
        cause = f" {diagnosis.cause}" if diagnosis.cause else ""
        typer.echo(f"{diagnosis.verdict}:{cause} {diagnosis.headline}")
        for path in (self.session.folder.path / "records.jsonl", *reports):
            typer.echo(str(path))

    def left(self, step: int) -> str:
        """The time that the rest will take, in words."""
        done = step - self.first
        if not done:
            return "starting"
        seconds = (time.monotonic() - self.began) / done * (self.last - step)
        return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"


def numbers(record: StepRecord) -> list[tuple[str, str]]:
    """The shown fields that are known, as text."""
    return [(name, f"{value:.3g}") for field, name in SHOWN.items() if (value := getattr(record, field)) is not None]


class Panel(View):
    """One panel that redraws itself: numbers with their recent course, progress, and what was found."""

    def __enter__(self) -> Panel:
        from rich.console import Console
        from rich.live import Live

        self.history: dict[str, list[float]] = {}
        self.current = self.first
        self.live = Live(self.render(), console=Console(), refresh_per_second=4)
        self.live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.update(self.render())
        self.live.__exit__(kind, error, trace)

    def step(self, record: StepRecord) -> None:
        self.current = record.step
        for field in SHOWN:
            value = getattr(record, field)
            if value is not None:
                self.history.setdefault(field, []).append(value)
        self.live.update(self.render())

    def finding(self, finding: Finding, action: Action) -> None:
        """Nothing: the panel shows all that the doctor knows."""

    def render(self) -> RenderableType:
        """The panel as it stands."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = Table.grid()  # alone it would end without a line break
        bar.add_row(ProgressBar(total=self.last, completed=self.current, width=60))
        table = Table.grid(padding=(0, 2))
        for field, name in SHOWN.items():
            if values := self.history.get(field):
                table.add_row(name, f"{values[-1]:.3g}", Text(sparkline(values[-60:]), "cyan"))
        head = Text(f"step {self.current}/{self.last}, {self.left(self.current)}, {self.session.folder.path}")
        found = [
            Text(f"{f.severity:8} {f.code} since step {f.onset_step}: {f.message}", STYLES[f.severity])
            for f in self.session.doctor.findings()
            if not f.cleared
        ]
        rest = found or [Text("no findings", "green")]
        return Group(head, bar, table, *rest[:8])


def sparkline(values: Sequence[float]) -> str:
    """The course of some numbers in one row of blocks; what is not finite is a gap."""
    known = [v for v in values if v == v and abs(v) != float("inf")]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = (high - low) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[int(7 * (v - low) / span)] if v in known else " " for v in values)


def view_for(last: int, done: int, session: Session) -> View:
    """The panel on a terminal, lines elsewhere."""
    return (Panel if sys.stdout.isatty() else View)(last, done, session)
