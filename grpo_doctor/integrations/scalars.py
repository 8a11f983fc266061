"""Runs live checks on the metrics that a trainer logs; the base of every integration except `attach`.

The metrics of a step, under the trainer's own keys, are converted to a record by the rules of the log readers. Masks,
advantages and individual rewards are not metrics, so the report lists them as unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..config import ConfigError
from ..diagnosis.check import Finding, Severity
from ..diagnosis.live import LiveDoctor
from ..diagnosis.verdict import Diagnosis
from ..fault_isolation import FaultGuard, tell, unwatched
from ..preflight import words_before
from ..readers import ReadError, read
from ..readers.input import Input
from ..readers.row_buffer import Rows
from ..record import StepRecord
from ..rollouts import completed
from ..run import Run, Sample
from .alerts import alert
from .session import Action, Folder, Session, Stopped, actions_of, say, say_end, unused

T = TypeVar("T")
Told = Callable[[Finding, str], None]


class TrainingStopped(RuntimeError):  # noqa: N818 - requested by the user, not an error
    """Raised to stop a trainer that can only be stopped by an exception."""


class LoggedRun:
    """Checks a training run by its logged metrics. Once constructed, a `LoggedRun` raises no internal errors; it
    reports the first failure.

    Args:
        config: the trainer's configuration (nested or flat), from which checks read settings.
        framework: name of the framework, for the report and for choosing remedies.
        out: folder for the records and reports; a number is appended if the folder exists.
        on: ``SEVERITY=ACTION,…``. Only ``warn`` and ``stop`` are supported: the integration reads `stopped` and ends
            training if possible.
        on_finding: called with each new finding and its action; prints a line by default.

    Raises:
        ConfigError: ``on`` is invalid, or contains an action that is not supported.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        framework: str,
        out: str | Path,
        on: str = "warning=warn,error=warn",
        on_finding: Told = say,
    ) -> None:
        self.actions, self.on_finding = actions_from_outside(on), on_finding
        self.boundary = FaultGuard()
        self.folder = Folder(unused(Path(out).absolute()))  # trainers may change the working directory
        self.settings: dict[str, Any] = {"framework": framework}
        self.session: Session | None = None
        self._before: list[StepRecord] = []
        self._finished = False
        self._guarded("before the first step", self._declare, config)
        self._guarded("before the first step", self._tell_settings, config)

    def log(
        self,
        step: int,
        metrics: Mapping[str, Any],
        samples: Sequence[Sample] = (),
        responses: Path | None = None,
        rollouts: Sequence[Sample] = (),
    ) -> dict[str, float]:
        """Add the metrics of a step, with some or all responses of the step, or with the file that contains all its
        responses.

        All responses together provide fields that metrics do not contain: rewards of groups, loops and tool calls.

        The result is the series for the trainer's own loggers (`Session.series`), which is empty before training and
        after a failure.
        """
        return self._guarded(f"at step {step}", self._log, step, metrics, list(samples), responses, rollouts) or {}

    def raise_requested_stop(self) -> None:
        """Raise `TrainingStopped` if a finding requires a stop. Some trainers can only be stopped by an exception."""
        if self.stopped is not None:
            self.finish()
            raise TrainingStopped(f"grpo-doctor stopped the training: {self.stopped.why}; see {self.folder.path}")

    def finish(self) -> None:
        """Write the reports. Further calls do nothing."""
        if not self._finished:
            self._finished = True
            self._guarded("at the end", self._report)

    @property
    def stopped(self) -> Stopped | None:
        """Return why training must stop, or None if it may continue."""
        return None if self.session is None else self.session.stopped

    def diagnosis(self) -> Diagnosis:
        """Return the current diagnosis. Raises RuntimeError before the first logged step."""
        if self.session is None:
            raise RuntimeError("no training step has been logged yet")
        return self.session.diagnosis()

    def _guarded(self, where: str, function: Callable[..., T], *arguments: Any) -> T | None:
        before = self.boundary.failure
        result = self.boundary(function, *arguments)
        if before is None and self.boundary.failure is not None:
            tell(unwatched(self.boundary.failure, where))
        return result

    def _rows(self) -> Rows:
        return Rows(Input(self.folder.path), "live")

    def _declare(self, config: Mapping[str, Any]) -> None:
        rows = self._rows()
        rows.declare(config)
        self.settings |= rows.settings
        self.folder.begin(self.settings)

    def _tell_settings(self, config: Mapping[str, Any]) -> None:
        """Report settings and preflight findings before the first step."""
        with contextlib.suppress(ReadError):  # the trainer may have passed no configuration
            for line in words_before(config):
                tell(f"grpo-doctor: {line}")

    def _log(
        self,
        step: int,
        metrics: Mapping[str, Any],
        samples: list[Sample],
        responses: Path | None,
        rollouts: Sequence[Sample],
    ) -> dict[str, float]:
        rows, series = self._rows(), dict[str, float]()
        rows.add(dict(metrics), step=step)
        run = rows.run()
        for record in run.records():
            if self.session is None and run.run_type in ("evaluation", "none"):
                self._before.append(record)  # an evaluation before the first step does not show the kind of training
                continue
            session = self.session = self.session or self._begin(run)
            session.doctor.summary.unread.update(run.unread)
            more, shown = _read_responses(responses)
            record = record if more is None else completed(record, more)
            series = session.series(session.push(record, [*samples, *shown], rollouts))
        return series

    def _begin(self, run: Run) -> Session:
        source = str(self.folder.path / "records.jsonl")
        doctor = LiveDoctor(self.settings, source=source, run_type=run.run_type)
        doctor.summary.notes.append("Only logged metrics were checked, not masks or advantages per response.")
        session = Session(self.folder, doctor, None, self.actions, on_finding=self._found)
        for record in self._before:
            session.push(record, [])
        return session

    def _found(self, finding: Finding, action: str) -> None:
        alert(finding)
        self.on_finding(finding, action)

    def _report(self) -> None:
        if self.session is not None:
            diagnosis = self.diagnosis()
            say_end(diagnosis, self.folder.write_reports(diagnosis))
        self.folder.release()


def _read_responses(path: Path | None) -> tuple[dict[str, Any] | None, list[Sample]]:
    """Return the fields and the samples from a file with the responses of one step; return neither if the file is
    missing or unreadable."""
    if path is None or not path.exists():
        return None, []
    try:
        (run,) = read(path)
    except (ReadError, ValueError):  # the file is incomplete, or was removed
        return None, []
    return next(run.rows(), None), run.samples.get(0, [])


def actions_from_outside(on: str) -> dict[Severity, Action]:
    """Parse the actions in ``on``. Raises `ConfigError` for an action that needs `attach`."""
    actions = actions_of(on)
    if set(actions.values()) - {"warn", "stop"}:
        raise ConfigError(
            f"on={on}: this integration supports warn and stop; skip-update and rollback need attach or grpo-doctor run"
        )
    return actions
