"""``grpo-doctor watch``: follows the log of a run during training."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer
from msgspec import structs

from ..config import Config, ConfigError
from ..diagnosis.check import Finding, Severity
from ..report.model import Options, when
from ..report.redaction import clean, one_line
from ..run import COMPANIONS
from . import common
from .analyze import Outcome, diagnose_runs, exit_code
from .follow import Follower, InPlace, follow
from .live import SHOWN, Pace, Sight, screen
from .notify import Channel, channel

if TYPE_CHECKING:
    from ..diagnosis.verdict import Diagnosis
    from ..readers import Kept


class Stop(NamedTuple):
    """A process to stop if a finding has this severity or a higher one. The process is identified by its id and start
    time."""

    severity: Severity
    process: Any


GRACE = 10.0
"""Seconds after SIGTERM before a process is reported as still running."""
REFRESH = 5
"""Seconds between reloads of a page while its run continues."""
KILLED = 5.0
"""Seconds to wait for the end of a process after SIGKILL."""


class Watcher:
    """The watched log, its findings so far, and the actions to take."""

    def __init__(
        self,
        reader: Follower | InPlace,
        config: Config,
        stops: list[Stop],
        channels: list[Channel] | None = None,
        kill_after: float | None = None,
    ) -> None:
        self.reader, self.path = reader, reader.path
        self.config, self.stops, self.channels = config, stops, channels or []
        self.kill_after = kill_after
        self.signalled: list[Stop] = []
        """Stop actions whose process received SIGTERM but was still running at the last poll."""
        self.catalogue = common.chosen(config)
        self.diagnoses: list[Diagnosis] = []
        self.unreadable = self.broken = 0
        self.stopped = False
        self.say: Callable[[str], None] = common.say
        self._known: dict[tuple[str, str], Severity] = {}
        self._said: set[str] = set()
        self._paces: dict[str, Pace] = {}
        self._rollouts: Kept = {}

    def poll(self) -> bool:
        """Read new data, report findings and act on them; return whether there was new data."""
        for stop in [stop for stop in self.signalled if ended(stop.process)]:
            self.signalled.remove(stop)
            self.say(f"process {stop.process.pid} has ended after SIGTERM")
            self.stopped = True
        if not self.reader.poll():
            return False
        self.examine()
        return True

    def examine(self) -> None:
        """Diagnose all data read so far."""
        from ..readers import ReadError, survey

        if self.reader.copy != self.path:
            self._link_beside()
        try:
            found = survey(self.reader.copy, self.config.map, self._rollouts)
        except ReadError as error:
            self._once(str(error))
            self.unreadable = 1
            return
        self.unreadable = len(found.unreadable)
        for answer in found.unreadable:
            self._once(f"{answer.source}: unreadable: {answer.why}")
        for answer in found.failed:
            self._once(f"{answer.source}: this is a bug in grpo-doctor: {answer.why}")
        outcome = diagnose_runs(found.runs, self.config, self.catalogue)
        self.diagnoses = outcome.diagnoses
        self.unreadable += outcome.unreadable
        self.broken = outcome.broken + len(found.failed)
        for diagnosis in self.diagnoses:
            diagnosis.source = diagnosis.source.replace(str(self.reader.copy), str(self.path))
            diagnosis.run.source = diagnosis.source
            for finding in diagnosis.findings:
                self._meet(diagnosis.source, finding)

    def outcome(self) -> Outcome:
        """Return the outcome so far."""
        return Outcome(self.diagnoses, self.unreadable, self.broken)

    def sights(self) -> list[Sight]:
        """Return the state of each run for the screen."""
        return [self._sight(diagnosis) for diagnosis in self.diagnoses]

    def _sight(self, diagnosis: Diagnosis) -> Sight:
        step, last = diagnosis.last_step or 0, diagnosis.settings.get("max_steps")
        last = last if isinstance(last, int) and last >= step else None
        pace = self._paces.setdefault(diagnosis.source, Pace(step))
        course = {
            name: [float(v) for v in column[column == column][-1000:]]
            for name in SHOWN
            if (column := diagnosis.run.columns.get(name)) is not None
        }
        headline = f"{diagnosis.verdict}: {clean(diagnosis.headline)}"
        return Sight(clean(diagnosis.source), step, last, pace.left(step, last), headline, course, diagnosis.findings)

    def _link_beside(self) -> None:
        for name in COMPANIONS:
            link, there = self.reader.copy.with_name(name), self.path.absolute().with_name(name)
            if there.exists() and not link.is_symlink() and name != self.path.name:
                link.symlink_to(there)

    def _once(self, words: str) -> None:
        words = words.replace(str(self.reader.copy), str(self.path))
        if words not in self._said:
            self._said.add(words)
            common.note(words)

    def _meet(self, run: str, finding: Finding) -> None:
        from ..diagnosis.verdict import weight

        level = weight(finding)
        before = self._known.get((run, finding.code))
        if before is not None and level <= before:
            return
        self._known[run, finding.code] = level
        self.say(f"{finding.severity:<9}{finding.code} {finding.name} {when(finding)}: {clean(finding.message)}")
        if finding.role != "note" and finding.remedies:
            self.say(f"         → {finding.action}")
        if level >= Severity.of(self.config.fail_on):
            self._notify(run, finding)
        for stop in self.stops:
            if level >= stop.severity and not self.stopped and stop not in self.signalled:
                self._stop(stop, finding)

    def _notify(self, run: str, finding: Finding) -> None:
        told = {name: str(getattr(finding, name)) for name in ("code", "name", "severity", "onset_step")}
        told |= {"message": clean(finding.message), "log": clean(run)}
        for send in self.channels:
            if (failed := send(told)) is not None:
                common.note(f"--notify {failed}")

    def _stop(self, stop: Stop, finding: Finding) -> None:
        """Stop the process; if it is still running, continue watching."""
        import psutil

        pid, grace = stop.process.pid, GRACE if self.kill_after is None else self.kill_after
        self.signalled.append(stop)
        try:
            stop.process.terminate()
            done = f"stopped process {pid} because of {finding.code}"
            if not ends(stop.process, grace) and self.kill_after is not None:
                stop.process.kill()
                done = f"killed process {pid} because of {finding.code}: it was still running {grace:g} s after SIGTERM"
                grace = KILLED
                ends(stop.process, grace)
        except psutil.NoSuchProcess:  # or the id now belongs to another process
            self.signalled.remove(stop)
            self.stopped = True
            common.note(f"process {pid} had already ended")
            return
        except psutil.AccessDenied:
            common.note(f"no permission to stop process {pid}; still watching")
            return
        if ended(stop.process):
            self.signalled.remove(stop)
            self.stopped = True
            self.say(done)
        else:
            hint = "" if self.kill_after is not None else "; use --kill-after SECONDS to send SIGKILL"
            common.note(
                f"process {pid} got SIGTERM because of {finding.code} but did not end within {grace:g} s; still "
                f"watching{hint}"
            )


def ends(process: Any, seconds: float) -> bool:
    """Return whether a process ends within this many seconds."""
    last = time.monotonic() + seconds
    while not ended(process):
        if time.monotonic() >= last:
            return False
        time.sleep(0.05)
    return True


def ended(process: Any) -> bool:
    """Return whether a process has ended. A zombie counts as ended."""
    import psutil

    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Window:
    """Terminal output of ``watch``: a screen with new findings above it."""

    def __init__(self, watcher: Watcher) -> None:
        from rich.console import Console
        from rich.live import Live

        self.watcher = watcher
        self.live = Live(console=Console(), refresh_per_second=4)
        watcher.say = lambda words: self.live.console.print(one_line(words), markup=False, highlight=False)

    def tick(self, new: bool) -> None:
        """Redraw the screen."""
        if new:
            self.live.update(screen(self.watcher.sights()))


class Heartbeat:
    """Plain output of ``watch``: a line when the first steps are read, then one line per interval."""

    def __init__(self, watcher: Watcher, every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.watcher, self.every, self.clock = watcher, every, clock
        self.last: float | None = None
        self.changed = clock()

    def tick(self, new: bool) -> None:
        """Print the state of the runs, and the time since the last new data."""
        now = self.clock()
        if new:
            self.changed = now
        if (self.last is None and not self.watcher.diagnoses) or (
            self.last is not None and now - self.last < self.every
        ):
            return
        self.last = now
        silent = now - self.changed
        for sight in self.watcher.sights():
            still = f"  no new data for {silent:.0f} s" if silent >= self.every else ""
            self.watcher.say(f"{sight.at}  {sight.numbers}  {sight.headline}{still}")


On: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--on", help="SEVERITY=stop:PID: stop this process if a finding is this severe, then exit; repeatable."
    ),
]
KillAfter: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--kill-after",
        help="With --on: send SIGKILL if the process is still running after this many seconds.",
        show_default="never",
        min=0,
    ),
]
Notify: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        help="Where to send findings at or above --fail-on: desktop, trackio, wandb:ENTITY/PROJECT/RUN, a URL or a "
        "command; repeatable.",
    ),
]


@common.configured(common.CHECKS, common.LOGS)
def watch(
    path: Annotated[
        Path, typer.Argument(help="Log file, folder or SQLite store; it may not exist yet.", show_default=False)
    ],
    interval: Annotated[float, typer.Option("--interval", help="Seconds between polls.", min=0.05)] = 2.0,
    idle: Annotated[
        float | None,
        typer.Option("--idle", help="Exit after this many seconds without new data.", show_default="never", min=0.1),
    ] = None,
    heartbeat: Annotated[
        float, typer.Option("--heartbeat", help="Seconds between status lines without a terminal.", min=0.1)
    ] = 60.0,
    on: On = None,
    kill_after: KillAfter = None,
    notify: Notify = None,
    report: common.MoreReports = None,
    *,
    settings: Config,
) -> None:
    """Follows a run's log, reports each finding when it appears or gets worse, and prints a final report.

    On a terminal, a live screen shows the verdict, the metrics and the progress; elsewhere, one line is printed per
    minute. `--report html=live.html` updates a page that reloads itself. The log may be rotated, truncated or
    rewritten. A --notify command receives GRPO_DOCTOR_CODE, _NAME, _SEVERITY, _ONSET_STEP, _MESSAGE and _LOG as
    environment variables; a URL receives the same values as JSON. Stop with Ctrl-C. The exit codes are those of
    analyze.
    """
    with common.plain_errors(), tempfile.TemporaryDirectory(prefix="grpo-doctor-") as folder:
        stops, channels = [_stop_of(word) for word in on or []], [channel(word) for word in notify or []]
        if not path.exists():
            common.note(f"{path}: does not exist yet; waiting")
        watcher = Watcher(_reader(path, Path(folder), interval, idle), settings, stops, channels, kill_after)
        options = common.options(settings, "text", None, None)
        with _shown(watcher, heartbeat) as tick:
            _loop(watcher, _kept_current(watcher, tick, report or [], options, path), interval, idle)
        watcher.reader.close()
        watcher.examine()
        common.write(watcher.diagnoses, "text", None, report or [], options, [path])
    raise typer.Exit(exit_code(watcher.outcome(), Severity.of(settings.fail_on)))


def _reader(path: Path, folder: Path, interval: float, idle: float | None) -> Follower | InPlace:
    """Wait until the path exists, and return its reader. Raises `ConfigError` if the path does not exist after ``idle``
    seconds."""
    begun = time.monotonic()
    try:
        while not path.exists() and (idle is None or time.monotonic() - begun <= idle):
            time.sleep(interval if idle is None else min(interval, idle))
    except KeyboardInterrupt:
        pass
    if not path.exists():
        raise ConfigError(f"{path}: the file never appeared")
    return follow(path, folder)


@contextmanager
def _shown(watcher: Watcher, heartbeat: float) -> Iterator[Callable[[bool], None]]:
    """Yield the function to call after each poll."""
    if not sys.stdout.isatty():
        yield Heartbeat(watcher, heartbeat).tick
        return
    window = Window(watcher)
    with window.live:
        yield window.tick
    watcher.say = common.say


def _kept_current(
    watcher: Watcher, tick: Callable[[bool], None], reports: list[str], options: Options, path: Path
) -> Callable[[bool], None]:
    """Return a function for each poll that calls ``tick`` and then updates the files of --report. A page reloads itself
    until `watch` ends."""
    live = structs.replace(options, refresh=REFRESH)

    def kept(new: bool) -> None:
        tick(new)
        if new and reports and watcher.diagnoses:
            common.write(watcher.diagnoses, None, None, reports, live, [path])

    return kept


def _loop(watcher: Watcher, tick: Callable[[bool], None], interval: float, idle: float | None) -> None:
    """Poll until a process was stopped, ``idle`` seconds have passed without new data, or the user interrupts."""
    last = time.monotonic()
    try:
        while not watcher.stopped:
            begun = time.monotonic()
            new = watcher.poll()
            tick(new)
            if new:
                last = time.monotonic()
            elif idle is not None and begun - last > idle:
                return
            # reading a long log takes time, so wait at least as long as reading took
            time.sleep(max(interval, time.monotonic() - begun) if not watcher.stopped else 0)
    except KeyboardInterrupt:
        return


def _stop_of(word: str) -> Stop:
    import psutil

    severity, _, action = word.partition("=")
    kind, _, number = action.partition(":")
    if severity.upper() not in Severity.__members__ or kind != "stop" or not number.isdecimal():
        raise ConfigError(f"--on {word}: expected SEVERITY=stop:PID, for example --on error=stop:4711")
    pid = int(number)
    if pid <= 1 or pid == os.getpid():
        raise ConfigError(f"--on {word}: {pid} is not the process id of a trainer")
    try:
        if os.name == "posix":
            os.kill(pid, 0)  # raises if there is no permission
        return Stop(Severity.of(severity), psutil.Process(pid))
    except (OSError, psutil.Error) as error:
        raise ConfigError(f"--on {word}: process {pid}: {getattr(error, 'strerror', error)}") from None
