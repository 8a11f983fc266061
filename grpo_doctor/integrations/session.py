"""A training run with live checks: its folder, the actions on findings, and the reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

import msgspec
from filelock import FileLock, Timeout

from ..config import ConfigError
from ..diagnosis.catalogue import report_names
from ..diagnosis.check import Finding, Severity
from ..diagnosis.examine import diagnose
from ..diagnosis.live import LiveDoctor
from ..diagnosis.verdict import Diagnosis
from ..fault_isolation import tell
from ..mismatch import TokenBatch, examined, write_batch
from ..readers import read
from ..record import StepRecord, encode, portable, read_records
from ..report import output
from ..report.model import Options, render
from ..run import BATCHES, Sample
from .alerts import keep_report

Action = Literal["warn", "skip-update", "stop", "rollback"]

REPORTS = {"html": "report.html", "markdown": "report.md"}
"""Report formats in a run folder, with their file names."""


def actions_of(words: str) -> dict[Severity, Action]:
    """Parse actions per severity, such as ``warning=warn,error=stop``. Raises `ConfigError`."""
    chosen: dict[Severity, Action] = {}
    for word in words.split(","):
        level, equals, action = word.strip().partition("=")
        if not equals or level.upper() not in Severity.__members__ or action not in get_args(Action):
            raise ConfigError(
                f"--on {word}: expected SEVERITY=ACTION with info, warning, error or critical "
                f"and {', '.join(get_args(Action))}"
            )
        chosen[Severity.of(level)] = cast(Action, action)
    return chosen


def say(finding: Finding, action: str) -> None:
    """Print a finding in one line on stderr, with its severity and with the action, unless the action is ``warn``."""
    did = "" if action == "warn" else f" [{action}]"
    tell(f"grpo-doctor: step {finding.detected_step}: {finding.severity} {finding.code} {finding.message}{did}")


def say_end(diagnosis: Diagnosis, reports: Sequence[Path]) -> None:
    """Print one line at the end of a training run: the verdict, the headline, and the path of the report."""
    where = f" Report: {reports[0]}" if reports else ""
    tell(f"grpo-doctor: {diagnosis.verdict}: {diagnosis.headline}{where}")
    for report in reports[:1]:
        keep_report(report)


LOCK = ".lock"


def holds_a_run(path: Path) -> bool:
    """Return whether a folder contains a run or is reserved by a run."""
    return any((path / name).exists() for name in ("records.jsonl", LOCK))


def unused(path: Path, taken: Callable[[Path], bool] = Path.exists) -> Path:
    """Return the path, with a number appended if the path is in use. By default, a path is in use if it exists."""
    free, n = path, 1
    while taken(free):
        n += 1
        free = path.with_name(f"{path.name}-{n}")
    return free


class Checkpointed(Protocol):
    """The trainer methods that a session calls."""

    def save(self, path: Path) -> None: ...
    def load(self, path: Path) -> None: ...


class Resumed(NamedTuple):
    """The resume point: the newest checkpoint, the steps up to it, and the number of later steps to train again."""

    checkpoint: Path | None
    steps: list[tuple[StepRecord, list[Sample]]]
    again: int

    def words(self) -> str:
        """Describe the resume point."""
        again = f"; {self.again} later step{'s' * (self.again != 1)} will be trained again" if self.again else ""
        if self.checkpoint is None:
            return f"no checkpoint: starting at step 1{again.replace('later', 'recorded')}"
        return f"resuming after {self.checkpoint.name}{again}"


class Folder:
    """A run folder, ``runs/<name>/``, with records and samples (one flushed line each), settings, checkpoints and
    reports."""

    elsewhere = "choose another folder with --out"
    onward = f"add --resume, or {elsewhere}"
    """Advice for a folder that another run uses or has used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self._lock = FileLock(path / LOCK)

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Create the folder, lock it for this process, and write the settings.

        Raises:
            ConfigError: the folder contains a run, is used by another process, or is not writable.
        """
        self.claim()
        if (self.path / "records.jsonl").exists():
            self.release()
            raise ConfigError(f"{self.path}: already contains a run; {self.onward}")
        try:
            self.declare(settings)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from None

    def declare(self, settings: Mapping[str, Any]) -> None:
        """Write the settings. Raises OSError if writing fails."""
        text = json.dumps(portable(dict(settings)), indent=1, ensure_ascii=False)
        output.replace(self.path / "config.json", text + "\n", named=False)

    def claim(self) -> None:
        """Create the folder, and lock it until `release` is called or the process ends.

        Raises:
            ConfigError: another run writes to the folder, or the folder cannot be created.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout:
            raise ConfigError(
                f"{self.path}: another run is writing here; wait until it ends, or {self.elsewhere}"
            ) from None
        except NotImplementedError:  # a file system without locks
            pass
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from None

    def release(self) -> None:
        """Unlock the folder."""
        self._lock.release(force=True)

    def resume(self) -> Resumed:
        """Return the newest checkpoint and the steps up to it. Delete the lines of later steps, because training writes
        these steps again.

        Raises:
            ConfigError: another run writes to the folder.
        """
        self.claim()
        newest = max(self._numbered(), default=None)
        last = newest or 0
        path = self.path / "records.jsonl"
        written = path.read_bytes().count(b"\n") if path.exists() else 0
        steps = self._truncate("records.jsonl", last)
        samples = self._truncate("samples.jsonl", last)
        by_step: dict[int, list[Sample]] = {}
        for line in samples:
            sample = msgspec.json.decode(line, type=Sample)
            by_step.setdefault(sample.step, []).append(sample)
        records = list(read_records(path)) if steps else []
        return Resumed(
            self.checkpoint(newest) if newest is not None else None,
            [(r, by_step.get(r.step, [])) for r in records],
            written - len(steps),
        )

    def _truncate(self, name: str, last: int) -> list[bytes]:
        """Return the complete lines of steps up to ``last``, and remove all other lines from the file."""
        path = self.path / name
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]  # what follows the last newline is empty or an incomplete line
        kept = [line for line in lines if line and msgspec.json.decode(line)["step"] <= last]
        with output.replacing(path) as file:
            file.write(b"".join(line + b"\n" for line in kept))
        return kept

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:06d}.pt"

    def _numbered(self) -> list[int]:
        return [int(path.stem.removeprefix("step-")) for path in self.checkpoints.glob("step-*.pt")]

    def last_before(self, step: int) -> int | None:
        """Return the step of the newest checkpoint that precedes a step."""
        return max((n for n in self._numbered() if n < step), default=None)

    def keep(self, limit: int) -> None:
        """Remove old checkpoints beyond the limit, but keep the first checkpoint."""
        for step in sorted(self._numbered())[1:-limit]:
            self.checkpoint(step).unlink()

    def drop_after(self, step: int) -> None:
        """Remove the checkpoints of later steps."""
        for later in self._numbered():
            if later > step:
                self.checkpoint(later).unlink()

    def settings(self) -> dict[str, Any]:
        """Return the settings with which the run was started. Raises `ConfigError`."""
        try:
            loaded = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"{self.path}: no run to resume: config.json: {why}") from None
        return dict(loaded)

    def write_reports(self, diagnosis: Diagnosis) -> list[Path]:
        """Write the reports of the run, replacing each file atomically. Return the paths of the reports."""
        written = []
        for kind, name in REPORTS.items():
            if kind in report_names():
                path = self.path / name
                output.replace(path, render(kind, [diagnosis], Options()) + "\n", named=False)
                written.append(path)
        return written


@dataclass
class Stopped:
    """Why a run was stopped before its last step."""

    why: str
    finding: Finding | None = None


@dataclass
class Session:
    """Checks and stores every step, and performs the actions of ``--on``."""

    folder: Folder
    doctor: LiveDoctor
    trainer: Checkpointed | None
    """None if the session can neither save nor load checkpoints."""
    actions: Mapping[Severity, Action] = field(default_factory=dict)
    save_steps: int = 20
    save_total_limit: int = 3
    on_finding: Callable[[Finding, Action], None] = lambda finding, action: None
    stopped: Stopped | None = None

    def replay(self, steps: Sequence[tuple[StepRecord, list[Sample]]]) -> None:
        """Process the steps of a resumed run again."""
        for record, samples in steps:
            self.doctor.push(record, samples)

    def action(self, finding: Finding) -> Action:
        """Return the action on a finding, which is the action of the highest severity that the finding reaches."""
        reached = [s for s in self.actions if s <= finding.level]
        return self.actions[max(reached)] if reached else "warn"

    def veto(self, record: StepRecord) -> str | None:
        """Return the reason to skip this update: a finding with the action ``skip-update`` that is active on this step.
        Return None without such a finding.

        The record is incomplete before the update, but the checks must process every step only once, with the complete
        record. Therefore, their state is restored after they have processed the incomplete record.
        """
        if "skip-update" not in self.actions.values():
            return None
        for finding in self.doctor.ahead(record):
            if finding.last_step == record.step and self.action(finding) == "skip-update":
                return f"{finding.code} {finding.name}"
        return None

    def push(
        self,
        record: StepRecord,
        samples: Sequence[Sample],
        rollouts: Sequence[Sample] | None = None,
        batch: TokenBatch | None = None,
    ) -> list[Finding]:
        """Write a step, check it, and perform the actions. Return the findings that are new or have become more severe.

        ``rollouts`` contains all responses of the step, which provide the samples and fields that the record lacks.
        """
        if rollouts:
            record, samples = self.doctor.rollouts.filled(record, rollouts)
        if batch is not None:
            record = examined(record, batch)
            write_batch(self.folder.path / BATCHES / f"step-{batch.step:06d}.parquet", batch)
        self._append("samples.jsonl", [msgspec.json.encode(sample) for sample in samples])
        self._append("records.jsonl", [encode(record)])
        fresh = self.doctor.push(record, samples)
        for finding in fresh:
            action = self.action(finding)
            self.on_finding(finding, action)
            if action in ("stop", "rollback") and self.stopped is None:
                self.stopped = Stopped(f"{finding.code} {finding.name} at step {record.step}", finding)
                if action == "rollback":
                    self._rollback(finding)
        if self.stopped is None and record.step % self.save_steps == 0:
            self.checkpoint(record.step)
        return fresh

    def series(self, fresh: Sequence[Finding]) -> dict[str, float]:
        """Return the values that trackers plot for the newest step: the worst active severity, and the severity of each
        new finding."""
        worst = self.doctor.diagnosis().worst or Severity.INFO
        return {"grpo_doctor/verdict": float(worst)} | {f"grpo_doctor/{f.code}": float(f.level) for f in fresh}

    def diagnosis(self) -> Diagnosis:
        """Diagnose the records in the folder, which are read as `analyze` reads them.

        Facts that are known only during training are added: notes, log keys that were not read, and a stop.
        """
        path, live = self.folder.path / "records.jsonl", self.doctor
        if not path.exists():
            return live.diagnosis()
        (run,) = read(path)
        run.run_type = live.summary.run_type
        run.notes += live.summary.notes
        run.unread.update(live.summary.unread)
        if self.stopped is not None:
            run.notes.append(f"The training was stopped: {self.stopped.why}.")
        return diagnose(run, catalogue=live.catalogue, thresholds=live.thresholds)

    def checkpoint(self, step: int) -> None:
        """Save the trainer's state."""
        if self.trainer is not None:
            self.trainer.save(self.folder.checkpoint(step))
            self.folder.keep(self.save_total_limit)

    def _rollback(self, finding: Finding) -> None:
        assert self.stopped is not None
        step = self.folder.last_before(finding.onset_step)
        if step is None or self.trainer is None:
            self.stopped.why += "; there is no checkpoint from before it"
            return
        self.trainer.load(self.folder.checkpoint(step))
        self.stopped.why += f"; rolled back to the checkpoint of step {step}"
        self.folder.drop_after(step)

    def _append(self, name: str, lines: list[bytes]) -> None:
        with open(self.folder.path / name, "ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
