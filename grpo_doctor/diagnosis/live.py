"""Live diagnosis during training: one record at a time, at a cost independent of the run's length."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..mismatch import TokenBatch, examined
from ..record import NUMBER_FIELDS, OBJECT_FIELDS, TEXT_FIELDS, StepRecord
from ..run import BROADCAST, CORE, Run, RunType, Sample, continues, figure, merged, non_finite, restarted
from ..series.derived import DERIVED
from .catalogue import Catalogue, load
from .check import Finding, Severity
from .early_indicators import Recorded
from .examine import Examination, Snapshot
from .verdict import Diagnosis, diagnosis_of

KEPT = 512
"""Number of rows kept to find early indicators before a fall. About a third of the rows are searched. All rows need
about 1 MB of memory."""
_CORE = tuple(name for name in NUMBER_FIELDS if name in CORE)
_GET = {names: attrgetter(*names) for names in (NUMBER_FIELDS, _CORE, OBJECT_FIELDS, TEXT_FIELDS)}


def _known(record: StepRecord, names: tuple[str, ...]) -> list[tuple[str, Any]]:
    return [(name, x) for name, x in zip(names, _GET[names](record), strict=True) if x is not None]


class _Row(NamedTuple):
    """The newest row, which later records of its step may change, and the examination before that row.

    Attributes:
        number: number of the row, starting at 0. records: records of the row's step, in order. samples: samples of all
            these records. previous: step of the previous row.
    """

    number: int
    records: tuple[StepRecord, ...]
    samples: tuple[Sample, ...]
    previous: float
    before: Snapshot


class LiveDoctor:
    """Runs the checks of `grpo_doctor.diagnose` during training.

    Consecutive records of one step form one row: each additional record resets the examination to the state before that
    step and passes the merged record.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        source: str = "live",
        catalogue: Catalogue | None = None,
        thresholds: Mapping[str, Mapping[str, Any]] | None = None,
        run_type: RunType = "rl",
    ) -> None:
        from ..rollouts import Steps

        self.catalogue, self.thresholds = catalogue or load(), thresholds or {}
        self.summary = Run(source, run_type=run_type)
        self.summary.settings = dict(settings or {})
        self.examination = Examination(self.catalogue, self.summary.settings, self.thresholds, run_type)
        self.examination.begin_all()
        self._broadcast = {
            name: figure(value)
            for name, value in self.summary.settings.items()
            if name in BROADCAST and isinstance(value, int | float)
        }
        self._derived = [(name, inputs, plan.row, plan.begin()) for name, (inputs, plan) in DERIVED.items()]
        self._row: _Row | None = None
        self.rollouts = Steps()
        self._known: dict[str, str] = {}
        self._recent: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def push(
        self,
        record: StepRecord,
        samples: Sequence[Sample] | None = None,
        *,
        rollouts: Iterable[Sample | Mapping[str, Any]] | None = None,
        batch: TokenBatch | None = None,
    ) -> list[Finding]:
        """Process the record of a step. Return the findings that are new or more severe.

        Args:
            record: the known fields of the step.
            samples: some responses of the step, to be shown. rollouts: all responses of the step instead, as samples or
                as rows of any framework. Rollouts provide the fields that the record lacks. batch: log-probabilities of
                some responses, for example on every tenth step; they show why the rollout engine and the trainer
                differ.

        Raises:
            BatchError: if lists of the batch differ in length from their response.
        """
        if rollouts is not None:
            record, samples = self.rollouts.filled(record, rollouts)
        if batch is not None:
            record = examined(record, batch)
        row = self._row = self._next(record, tuple(samples or ()))
        with np.errstate(all="ignore"):
            numbers, values = self._values(row)
            if len(row.records) > 1:
                self._recent.pop()
            self._recent.append(numbers)
            rang = self.examination.row(values, row.number, record.step)
        if row.number == len(self.summary.steps) < 2:
            self.summary.steps = np.append(self.summary.steps, record.step)
        self.summary.steps[-1] = record.step
        if not rang:
            return []
        fresh = []
        for finding in self.findings():
            before = self._known.get(finding.code)
            if before is None or Severity.of(before) < finding.level:
                self._known[finding.code] = finding.severity
                fresh.append(finding)
        return fresh

    def _next(self, record: StepRecord, samples: tuple[Sample, ...]) -> _Row:
        """Return a new row for a record. If the record belongs to the newest row, reset the examination, and return
        that row with the record added."""
        row = self._row
        if row is not None and continues(record, row.records[-1]):
            self.examination.restore(row.before)
            return row._replace(records=(*row.records, record), samples=(*row.samples, *samples))
        number, previous = (0, -math.inf) if row is None else (row.number + 1, float(row.records[-1].step))
        return _Row(number, (record,), samples, previous, self.examination.snapshot())

    def ahead(self, record: StepRecord) -> list[Finding]:
        """Return the findings that would exist if this record came next. The state does not change."""
        row, known, examination = self._row, dict(self._known), self.examination.snapshot()
        recent = self._recent.copy()
        steps, settings = self.summary.steps.copy(), dict(self.summary.settings)
        self.push(record)
        found = self.findings()
        self._row, self._known, self.summary.steps, self._recent = row, known, steps, recent
        self.summary.settings.clear()
        self.summary.settings.update(settings)
        self.examination.restore(examination)
        return found

    def findings(self) -> list[Finding]:
        """Return all findings so far, with roles, remedies and rivals."""
        return self.diagnosis().findings

    @np.errstate(all="ignore")
    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of the run so far."""
        found = self.examination.findings(self.summary)
        rows = 0 if self._row is None else self._row.number + 1
        coverage, success = self.examination.coverage(found, {}), self.examination.success
        recorded = Recorded(self._column("step"), self._column)
        return diagnosis_of(self.summary, self.catalogue, found, coverage, success, rows=rows, recorded=recorded)

    def _column(self, name: str) -> np.ndarray:
        """Return the values of a field on the kept rows."""
        return np.array([values.get(name, math.nan) for values in self._recent])

    def _values(self, row: _Row) -> tuple[dict[str, float], dict[str, Any]]:
        """Return the known numbers of a row, and all known values including lists, events and samples."""
        record = row.records[0] if len(row.records) == 1 else merged(row.records)
        if row.samples:
            from ..rollouts import completed, sampled

            record = completed(record, sampled(row.samples))
        recorded = zip(NUMBER_FIELDS, _GET[NUMBER_FIELDS](record), strict=True)
        numbers = self._broadcast | {name: float(x) for name, x in recorded if x is not None and x == x}
        numbers["step"] = float(record.step)
        values: dict[str, Any] = {**numbers, **dict(_known(record, OBJECT_FIELDS))}
        for name, inputs, compute, memory in self._derived:
            _, (derived,) = compute(memory, [values.get(field, math.nan) for field in inputs])
            if derived == derived:
                numbers[name] = values[name] = derived
        for name, text in _known(record, TEXT_FIELDS):
            self.summary.settings.setdefault(name, text)
        strange = [(name, x) for name, x in _known(record, _CORE) if not math.isfinite(x)]
        events = [*(record.events or ()), *(non_finite(name, value) for name, value in strange)]
        if record.step <= row.previous and not any(event.kind == "restart" for event in events):
            events.append(restarted(int(row.previous), record.step))
        values["events"] = tuple(events)
        if row.samples:
            values["samples"] = list(row.samples)
        return numbers, values
