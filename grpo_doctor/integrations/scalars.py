"""Live checks on the metrics that a trainer logs: the base of every integration except `attach`.

One mapping of metrics a step, under the trainer's own keys, becomes a record by the rules by which its log would be
read. What no metric says (masks, advantages, single rewards) is not seen, and the report says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import ConfigError
from ..diagnosis.check import Finding, Severity
from ..diagnosis.live import LiveDoctor
from ..diagnosis.verdict import Diagnosis
from ..fault_isolation import Boundary, tell, unwatched
from ..preflight import words_before
from ..readers import ReadError, read
from ..readers.input import Input
from ..readers.row_buffer import Rows
from ..record import StepRecord
from ..rollouts import completed
from ..run import Run, Sample
from .alerts import alert
from .session import Action, Folder, Session, Stopped, actions_of, say, say_end, unused

Told = Callable[[Finding, str], None]


class TrainingStopped(RuntimeError):  # noqa: N818 - requested by the user, not an error
    """Raised to stop a trainer that can only be stopped by an exception."""


class LoggedRun:
    """A training as its logged metrics show it. Once it is built, nothing in it raises: what fails is said once.

    Args:
        config: the trainer's configuration, nested or flat; settings that checks ask for are taken from it.
        framework: name that the report shows and that remedies are chosen by.
        out: folder for the records and reports; a number is added where it is there already.
        on: ``SEVERITY=ACTION,…``. From outside a trainer only ``warn`` and ``stop`` can be had: the hook asks
            `stopped` and ends the training where it can.
        on_finding: called with each new finding and its action; prints a line by default.

    Raises:
        ConfigError: ``on`` cannot be read, or asks for what a hook cannot do.
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
        self.boundary = Boundary()
        self.folder = Folder(unused(Path(out).absolute()))  # trainers change the directory
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
    ) -> None:
        """Takes what was logged at a step, some responses of it, or all of them, or the file that holds all of them.

        What all of them show (rewards of groups, loops, tool calls) fills the fields that no metric gave.
        """
        self._guarded(f"at step {step}", self._log, step, metrics, list(samples), responses, rollouts)

    def stop_if_asked(self) -> None:
        """For trainers that end by an exception alone. Raises `TrainingStopped` where a finding asks for a stop."""
        if self.stopped is not None:
            self.finish()
            raise TrainingStopped(f"grpo-doctor stopped the training: {self.stopped.why}; see {self.folder.path}")

    def finish(self) -> None:
        """Writes the reports. A second call does nothing."""
        if not self._finished:
            self._finished = True
            self._guarded("at the end", self._report)

    @property
    def stopped(self) -> Stopped | None:
        """Why a finding asked for a stop."""
        return None if self.session is None else self.session.stopped

    def diagnosis(self) -> Diagnosis:
        """The diagnosis so far. Raises RuntimeError before anything was logged."""
        if self.session is None:
            raise RuntimeError("no training step has been logged yet")
        return self.session.diagnosis()

    def _guarded(self, where: str, function: Callable[..., None], *arguments: Any) -> None:
        before = self.boundary.failure
        self.boundary(function, *arguments)
        if before is None and self.boundary.failure is not None:
            tell(unwatched(self.boundary.failure, where))

    def _rows(self) -> Rows:
        return Rows(Input(self.folder.path), "live")

    def _declare(self, config: Mapping[str, Any]) -> None:
        rows = self._rows()
        rows.declare(config)
        self.settings |= rows.settings
        self.folder.begin(self.settings)

    def _tell_settings(self, config: Mapping[str, Any]) -> None:
        """Report settings and preflight findings before the first step."""
        with contextlib.suppress(ReadError):  # a trainer may pass no configuration
            for line in words_before(config):
                tell(f"grpo-doctor: {line}")

    def _log(
        self,
        step: int,
        metrics: Mapping[str, Any],
        samples: list[Sample],
        responses: Path | None,
        rollouts: Sequence[Sample],
    ) -> None:
        rows = self._rows()
        rows.add(dict(metrics), step=step)
        run = rows.run()
        for record in run.records():
            if self.session is None and run.run_type in ("evaluation", "none"):
                self._before.append(record)  # an evaluation before the first step does not say what is trained
                continue
            session = self.session = self.session or self._begin(run)
            session.doctor.summary.unread.update(run.unread)
            more, shown = _read_responses(responses)
            session.push(record if more is None else completed(record, more), [*samples, *shown], rollouts)

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
    """What a file of one step's responses shows; nothing where it is not there or cannot be read."""
    if path is None or not path.exists():
        return None, []
    try:
        (run,) = read(path)
    except (ReadError, ValueError):  # written to at this moment, or no such file after all
        return None, []
    return next(run.rows(), None), run.samples.get(0, [])


def actions_from_outside(on: str) -> dict[Severity, Action]:
    """The actions of ``--on``. Raises `ConfigError` for an action that needs `attach`."""
    actions = actions_of(on)
    if set(actions.values()) - {"warn", "stop"}:
        raise ConfigError(
            f"on={on}: this integration supports warn and stop; skip-update and rollback need attach or grpo-doctor run"
        )
    return actions
