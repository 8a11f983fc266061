"""Runs the checks on a run, in blocks or row by row. Both ways give the same findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..limits import spending, spent
from ..record import OBJECT_FIELDS
from ..run import WORDED, Run, figure
from ..series import Memory, Words, steady
from ..series.trajectory import FOLLOWED, STANDING, Trajectory, success_of
from ..series.trend import Standing
from .catalogue import Catalogue, load
from .check import DECLARED, Check, Finding, Fires, Severity, key_of
from .hysteresis import RECENT, Alarm, Episode
from .verdict import Coverage, Diagnosis, bounds, conclude_all, diagnosis_of
from .wording import rendered

BLOCK = 8192
"""Number of rows per block. Blocks limit the memory use and fit into the CPU cache."""
PLANS = 64
"""Number of sets of known fields for which a live run caches the checks that can process a row."""


class Examined:
    """One check applied to a run, which computes its conditions on the rows and updates its alarms."""

    plan: Any
    fires: Fires

    def __init__(self, check: Check, thresholds: Mapping[str, Any], averaged: bool) -> None:
        self.check, self.averaged = check, averaged
        self.thresholds = {name: value for name, value in thresholds.items() if name in check.thresholds}

    def begin(self) -> tuple[Any, list[Alarm]]:
        """Trace the check; return the state of its plan and of its alarms before the first row."""
        traced = self.check.traced(self.thresholds)
        self.plan = traced.plan
        return self.plan.begin(), self.alarms_of(traced.fires)

    def alarms_of(self, fires: Fires) -> list[Alarm]:
        """Return one alarm for each severity of the check's conditions."""
        self.fires = fires
        hold, clear = ((1, 1), 1) if self.averaged else (fires.hold or self.check.hold, fires.clear)
        return [Alarm(level, hold, clear) for level in (self.check.severity, *(level for level, _ in fires.levels))]

    def take(self, alarms: list[Alarm], found: Any, at: int, row: int, step: int) -> tuple[list[Alarm], bool]:
        """Return the alarms after one row (the check's ``at``-th), and whether any alarm started to fire."""
        told: Any
        flags, told = found or ((False,) * len(alarms), ())
        after, rang = [], False
        for alarm, flag in zip(alarms, flags, strict=True):
            if flag or not alarm.calm:
                alarm = alarm.copy()  # a snapshot may share the old state
                rang |= alarm.push(bool(flag), at, row, step)
                if flag and alarm.active and alarm.episode is not None:
                    onset, alarm.episode.confidence, alarm.episode.suffered, *evidence = told
                    alarm.episode.evidence = dict(zip(self.fires.evidence, evidence, strict=True))
                    alarm.episode.backdate(onset)
            after.append(alarm)
        return after, rang

    def block(self, alarms: list[Alarm], found: Any, at: int, rows: np.ndarray, steps: np.ndarray) -> None:
        """Pass the results of many rows to the alarms, starting at the check's ``at``-th row."""
        if found is None and all(alarm.calm for alarm in alarms):
            return
        told: Any
        shown, told = found or ([np.zeros(len(rows), bool)] * len(alarms), ())
        for alarm, flags in zip(alarms, shown, strict=True):
            last: dict[int, int] = {}
            for i in alarm.block(np.asarray(flags, bool), at, rows, steps):
                assert alarm.episode is not None
                alarm.episode.backdate(_at(told[0], i))
                last[id(alarm.episode)] = i
            for episode in (alarm.episode, alarm.longest):
                if episode is not None and id(episode) in last:
                    _, episode.confidence, episode.suffered, *evidence = (_at(x, last[id(episode)]) for x in told)
                    episode.evidence = dict(zip(self.fires.evidence, evidence, strict=True))

    def finding(self, alarms: list[Alarm], known: frozenset[str], since: float) -> Finding | None:
        """Return the finding so far, for a run with these recorded fields. If no alarm is active, an episode that
        lasted until the step ``since`` still counts. A later finding of lower severity does not reactivate a warning
        that ended long before.
        """
        rung = [(a, a.main) for a in alarms if a.main is not None]
        if not rung:
            return None
        active = [(a, main) for a, main in rung if a.active]
        active = active or [(a, main) for a, main in rung if main.last_step >= since]
        main = (active or rung)[0][1]
        last = max((main for _, main in rung), key=lambda e: e.last_row)
        shown = last if active else main  # the numbers of an active finding are those of its last row
        evidence = {name: _plain(value) for name, value in shown.evidence.items()}
        needed = {field for need in self.check.needs for field in need.fields}
        return Finding(
            code=self.check.code,
            name=self.check.name,
            kind="outcome" if main.suffered else self.check.kind,
            severity=str(max(a.level for a, _ in active or rung)),
            confidence=self._confidence(main),
            onset_step=main.onset_step,
            detected_step=main.detected_step,
            last_step=last.last_step,
            cleared=not active,
            message=rendered(self.fires.message, evidence),
            evidence=evidence,
            columns=[c for c in self.check.columns if c in needed and c in known],
        )

    def _confidence(self, episode: Episode) -> str:
        return str(self.check.confidence if episode.confidence is None else episode.confidence)


def _at(value: Any, row: int) -> Any:
    """Return the value on one row of a column or of a constant."""
    if isinstance(value, Words):
        return Words(value.function, tuple(_at(column, row) for column in value.columns))
    return value[row] if isinstance(value, np.ndarray) and value.ndim else value


def _plain(value: Any) -> Any:
    """Return evidence as Python numbers and strings."""
    if isinstance(value, Words):
        return value.function(*value.columns)
    value = value[()] if isinstance(value, np.ndarray) else value
    value = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


class _Rows:
    """The columns of a block of rows, from which the arguments of the checks are taken."""

    def __init__(
        self,
        run: Run,
        start: int,
        stop: int,
        settings: Mapping[str, Any],
        success: Mapping[str, tuple[list[Standing], list[int]]],
    ) -> None:
        self.run, self.start, self.stop, self.settings, self.success = run, start, stop, settings, success
        self._columns: dict[str, Any] = {}
        self._known: dict[str, np.ndarray] = {}

    def field(self, name: str) -> Any:
        """Return the field's column; all values are unknown if the run does not have the field."""
        if name not in self._columns:
            value = self._column(name)
            if value is None:
                value = self._all(None if name in OBJECT_FIELDS else math.nan)
            self._columns[name] = value
        return self._columns[name]

    def _all(self, value: Any) -> np.ndarray:
        """Return a column with one value on all rows."""
        one = np.empty(1, float if isinstance(value, float) else object)
        one[0] = value
        return np.broadcast_to(one, self.stop - self.start)

    def _column(self, name: str) -> Any:
        if name.startswith(DECLARED):
            return self._all(declared(self.settings, name))
        if name in STANDING:
            field, word = STANDING[name]
            standings, rows = self.success[field]
            return np.repeat([getattr(standing, word) for standing in standings], rows)
        if name == "step":
            return self.run.steps[self.start : self.stop].astype(float)
        if name in ("events", "samples"):
            happened: Mapping[int, list[Any]] = self.run.events if name == "events" else self.run.samples
            rows = [row for row in happened if self.start <= row < self.stop]
            column = self._all(() if name == "events" else None)
            column = column.copy() if rows else column
            for row in rows:
                column[row - self.start] = happened[row]
            return column
        return self.run.column(name, self.start, self.stop)

    def known(self, name: str) -> np.ndarray:
        """Return the rows on which the field is known."""
        if name not in self._known:
            column = self.field(name)
            values = column[:1] if steady(column) else column
            known = np.array([v is not None for v in values], bool) if column.dtype == object else ~np.isnan(values)
            self._known[name] = np.broadcast_to(known, len(column))
        return self._known[name]

    def argument(self, fields: tuple[str, ...]) -> Any:
        """Return, for each row, the value of the first alternative that is known."""
        out, known = self.field(fields[0]), self.known(fields[0])
        for name in fields[1:]:
            if known.all():
                break
            out, known = np.where(known, out, self.field(name)), known | self.known(name)
        return out


class _Arguments(Sequence[Any]):
    """The arguments of a check on the rows that it processes, each computed on demand."""

    def __init__(self, columns: _Rows, arguments: Sequence[tuple[str, ...]], keep: np.ndarray) -> None:
        self.columns, self.arguments, self.keep = columns, arguments, keep

    def __len__(self) -> int:
        return len(self.arguments)

    def __getitem__(self, place: Any) -> Any:
        column = self.columns.argument(self.arguments[place])
        if self.keep.all():
            return column
        return column[: np.count_nonzero(self.keep)] if steady(column) else column[self.keep]


def declared(settings: Mapping[str, Any], name: str) -> Any:
    """Return the number declared under ``settings.name``, or the string for `WORDED` settings; otherwise NaN."""
    value = settings.get(name.removeprefix(DECLARED))
    if isinstance(value, str):
        return value if name.removeprefix(DECLARED) in WORDED else math.nan
    return figure(value) if isinstance(value, int | float) else math.nan


_STANDING_OF = {STANDING[name][0]: key_of((name,)) for name in STANDING}
"""Keys under which the states of a success series are stored with the values of a row."""
_Seen: TypeAlias = tuple[int, Callable[[Memory, Mapping[str, Any]], tuple[Memory, Any]]]
"""The index of a check, and the function that computes the check on a row."""


class Snapshot(NamedTuple):
    """The success series, the fields known so far, and for each check its state, its alarms, and whether all of them
    are calm."""

    success: dict[str, Trajectory]
    memories: list[Memory]
    alarms: list[list[Alarm]]
    calm: list[bool]
    ever: frozenset[str]


class Examination:
    """Runs every check of a catalogue on one run."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Mapping[str, Any],
        thresholds: Mapping[str, Mapping[str, Any]],
        run_type: str = "rl",
        *,
        kind: type[Examined] = Examined,
    ) -> None:
        self.catalogue, self.settings = catalogue, settings
        averaged = settings.get("rows") == "epochs" or "responses" in settings  # one averaged row is enough
        self.examined = [
            kind(check, thresholds.get(check.code, {}), averaged)
            for check in catalogue.checks.values()
            if check.predicate is not None and run_type in check.run_types
        ]
        self.memories: list[Any] = [(0,)] * len(self.examined)
        self.alarms: list[list[Alarm]] = [[] for _ in self.examined]
        self.calm = [True] * len(self.examined)
        """Each check's state, its alarms, and whether all alarms are calm. Processing the next row does not change the
        lists of this row, so a snapshot can share the lists. The initial state of a check is its state before the first
        row."""
        arguments = {alternatives for e in self.examined for alternatives in e.check.arguments}
        fields = {field for alternatives in arguments for field in alternatives}
        self.alternatives = {key_of(fields): fields for fields in arguments if len(fields) > 1}
        self.picked: list[tuple[str, str]] = []
        """The key of each argument with alternatives, and its first known field in the newest row."""
        self.asked = sorted(f for f in fields if f.startswith(DECLARED))
        self.declared: dict[str, Any] = {}
        self.settings_before: dict[str, Any] | None = None
        self.blank = {**dict.fromkeys(fields, math.nan), **dict.fromkeys((*OBJECT_FIELDS, "samples"))}
        """The values of a row without any known field."""
        self.known: frozenset[str] = frozenset()
        self.full: dict[str, Any] = {}
        """The known values of the newest row, and the values of `blank` for all other fields."""
        self.plans: dict[frozenset[str], list[_Seen]] = {}
        self.ever: frozenset[str] = frozenset()
        """Fields known on any row so far."""
        self.success = success_of(run_type)

    def begin(self, place: int) -> None:
        """Prepare a check for its first row."""
        self.memories[place], self.alarms[place] = self.examined[place].begin()

    def begin_all(self) -> None:
        """Prepare every check before the first row, so that no row of a live run has to wait."""
        for place in range(len(self.examined)):
            self.begin(place)

    def block(self, run: Run, start: int, stop: int) -> None:
        """Process rows ``start:stop`` of a run as one block."""
        tops = run.column("reward_max", start, stop)
        tops = np.full(stop - start, math.nan) if tops is None else tops
        success = {name: self._followed(run, name, start, stop, tops) for name in self.success}
        columns = _Rows(run, start, stop, self.settings, success)
        numbers, before, steps = np.arange(start, stop), self.ever, run.steps[start:stop]
        needed = {field for e in self.examined for need in e.check.needs for field in need.fields}
        now = frozenset(field for field in needed if columns.known(field).any())
        self.ever |= now
        for place, examined in enumerate(self.examined):
            spent()
            if all((self.ever if need.sparse else now) & {*need.fields} for need in examined.check.needs):
                self._block(place, columns, numbers, steps, before)

    def _followed(
        self, run: Run, name: str, start: int, stop: int, tops: np.ndarray
    ) -> tuple[list[Standing], list[int]]:
        """Return the states of one series, and the number of rows over which each is valid."""
        trajectory, values = self.success[name], run.column(name, start, stop)
        standings, begins = [trajectory.standing], [0]
        if values is not None:
            for taken in trajectory.block(values, run.steps[start:stop], tops):
                if name in FOLLOWED.values():
                    standings.append(trajectory.standing)
                    begins.append(taken - 1)
        return standings, np.diff([*begins, stop - start]).tolist()

    def _block(
        self, place: int, columns: _Rows, numbers: np.ndarray, steps: np.ndarray, before: frozenset[str]
    ) -> None:
        """Process these rows with one check; rows without its required fields are skipped."""
        examined = self.examined[place]
        keep = np.ones(len(numbers), bool)
        for need in examined.check.needs:
            known = np.logical_or.reduce([columns.known(field) for field in need.fields])
            if need.sparse:
                known = np.logical_or.accumulate(known) | (not before.isdisjoint(need.fields))
            keep &= known
        if not keep.any():
            return
        arguments = _Arguments(columns, examined.check.arguments, keep)
        numbers, steps = numbers[keep], steps[keep]
        if not self.memories[place][0]:
            self.begin(place)
        at = self.memories[place][0] + 1
        self.memories[place], found = examined.plan.block(self.memories[place], arguments, len(numbers))
        examined.block(self.alarms[place], found, at, numbers, steps)

    def row(self, values: dict[str, Any], row: int, step: int) -> list[Examined]:
        """Process one row of a live run; return the checks whose alarm started to fire."""
        self.memories, self.alarms, self.calm = self.memories.copy(), self.alarms.copy(), self.calm.copy()
        if self.settings != self.settings_before:
            self.settings_before = dict(self.settings)
            said = {name: declared(self.settings, name) for name in self.asked}
            self.declared = {name: value for name, value in said.items() if value == value}
        values.update(self.declared)
        top = values.get("reward_max", math.nan)
        for name, trajectory in self.success.items():
            if name in values:
                trajectory.push(values[name], step, top)
        if values.keys() != self.known:
            self.known, self.full = frozenset(values), dict(self.blank)
            self.picked = [
                (key, next((field for field in fields if field in values), fields[-1]))
                for key, fields in self.alternatives.items()
            ]
        self.full.update(values)
        self.full.update((key, self.success[field].standing) for field, key in _STANDING_OF.items())
        self.full.update([(key, self.full[field]) for key, field in self.picked])
        rang = []
        memories, calm, full = self.memories, self.calm, self.full
        for place, compute in self._seeing():
            memory, found = compute(memories[place], full)
            memories[place] = memory
            if found is not None or not calm[place]:
                examined = self.examined[place]
                alarms, rings = examined.take(self.alarms[place], found, memory[0], row, step)
                self.alarms[place], calm[place] = alarms, all(alarm.calm for alarm in alarms)
                rang += [examined] * rings
        return rang

    def _seeing(self) -> list[_Seen]:
        """Return the checks that can process the newest row."""
        known = self.known
        if known not in self.plans:
            if not known <= self.ever or len(self.plans) == PLANS:
                self.ever |= known
                self.plans.clear()
            self.plans[known] = [(i, e.plan.row) for i, e in enumerate(self.examined) if self._sees(e, known)]
        return self.plans[known]

    def _sees(self, examined: Examined, known: frozenset[str]) -> bool:
        return not any((self.ever if need.sparse else known).isdisjoint(need.fields) for need in examined.check.needs)

    def snapshot(self) -> Snapshot:
        """Return the current state, for `restore`."""
        success = {name: trajectory.copy() for name, trajectory in self.success.items()}
        return Snapshot(success, self.memories, self.alarms, self.calm, self.ever)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot; a snapshot can be restored repeatedly."""
        self.success = {name: trajectory.copy() for name, trajectory in snapshot.success.items()}
        self.memories, self.alarms, self.calm = snapshot.memories, snapshot.alarms, snapshot.calm
        if self.ever != snapshot.ever:
            self.ever, self.known = snapshot.ever, frozenset()
            self.plans.clear()

    def findings(self, run: Run) -> list[Finding]:
        """Return the findings of the checks in this run, including conclusions."""
        first, last = bounds(run)
        since = math.inf if first is None or last is None or first == last else last - RECENT * (last - first)
        told = (e.finding(alarms, self.ever, since) for e, alarms in zip(self.examined, self.alarms, strict=True))
        found = {finding.code: finding for finding in told if finding is not None}
        conclude_all(self.catalogue, found)
        for finding in found.values():
            if self.catalogue.checks[finding.code].preview and not self.catalogue.preview:
                finding.severity, finding.preview = str(Severity.INFO), True
        return list(found.values())

    def coverage(self, found: list[Finding], unread: Mapping[str, int]) -> Coverage:
        """Return which checks ran, fired, passed or were skipped, and which log keys were not used."""
        fired = {f.code for f in found}
        seen = {e.check.code for e, (rows, *_) in zip(self.examined, self.memories, strict=True) if rows}
        ran = [e.check.code for e in self.examined if e.check.code in seen]
        skipped = [
            {"code": e.check.code, "needs": self._missing(e.check)}
            for e in self.examined
            if e.check.code not in seen and e.check.code not in fired
        ]
        passed = [c for c in ran if c not in fired]
        return Coverage(
            ran=len(ran),
            fired=len(fired),
            passed=len(passed),
            skipped=skipped,
            unread_keys=list(unread),
            passed_codes=passed,
        )

    def _missing(self, check: Check) -> list[str]:
        """Return the missing fields that a check requires."""
        lacking = (" or ".join(need.fields) for need in check.needs if self.ever.isdisjoint(need.fields))
        return list(dict.fromkeys(lacking))  # a field can be required both on every row and on some rows


@np.errstate(all="ignore")
def diagnose(
    run: Run,
    *,
    catalogue: Catalogue | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
) -> Diagnosis:
    """Run all checks on a run and return the diagnosis: problems, onsets, confidence and remedies.

    Fields that can be computed only from the samples become columns of the run.

    Raises `OverBudgetError` if the run takes more time or memory than `grpo_doctor.limits` allows.
    """
    catalogue = catalogue or load()
    examination = Examination(catalogue, run.settings, thresholds or {}, run.run_type)
    with spending():
        fill_from_samples(run)
        for start in range(0, len(run), BLOCK):
            examination.block(run, start, min(start + BLOCK, len(run)))
    return diagnosis_from(run, catalogue, examination)


def fill_from_samples(run: Run) -> None:
    """Add columns from the samples of a run; without samples, nothing is imported."""
    if run.samples:
        from ..rollouts import fill

        fill(run)


def diagnosis_from(run: Run, catalogue: Catalogue, examination: Examination) -> Diagnosis:
    """Return the diagnosis from an examination that has processed all rows."""
    found = examination.findings(run)
    return diagnosis_of(run, catalogue, found, examination.coverage(found, run.unread), examination.success)
