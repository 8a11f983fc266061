"""A whole run: columns over steps, declared settings, events, samples, and the source of each row."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from .record import ADDED_UP, LARGEST, NUMBER_FIELDS, OBJECT_FIELDS, TEXT_FIELDS, WHOLE, Event, StepRecord
from .series.derived import DERIVED

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

RunType = Literal["rl", "supervised", "preference", "evaluation", "probe", "none"]

COMPANIONS = ("config.json", "samples.jsonl", "report.html", "report.md")
"""Files next to the records of a run, which are read together with the records."""
RANKS, BATCHES = "ranks", "batches"
"""Folders next to the records of a run that are not read as runs. `RANKS` contains each rank's part of the records.
`BATCHES` contains token batches, whose analysis is already in the records."""

CORE = frozenset(
    "loss policy_loss kl_loss value_loss grad_norm kl kl_k1 kl_k3 entropy_mean reward_mean reward_std ratio_mean "
    "advantage_mean advantage_std reward_margin weight_delta".split()
)
"""Fields in which a NaN or an infinity is an event. In other fields, NaN or infinity is a gap in an auxiliary
metric."""

WORDED = frozenset(
    "adv_estimator advisories algorithm cache_precision cannot_run constant_rewards engine_load eos_token "
    "evaluation framework hydra_config importance_correction importance_sampling_level kl_estimator kl_penalty "
    "lacking_column loss_agg_mode loss_type mask_without_eos model model_name_or_path normaliser optim optimizer "
    "own_loss pinned_beside pinned_version precision preference_loss ref_adapters reference reference_model "
    "refused_arguments refused_rewards removed_settings reward_kl_estimator rollout_engine rollout_precision "
    "routing_replay rows scale_rewards start_adapter strategy strict_rewards teacher torn_targets trl_version "
    "turn_ends_with turn_terminator unknown_settings wrong_form".split()
)
"""Settings that checks read as strings. For other settings, a string such as ``auto`` counts as unknown."""
BROADCAST = frozenset(
    "group_size groups temperature top_p top_k min_new_tokens max_new_tokens "
    "entropy_coef kl_coef advantage_ddof".split()
)
"""Settings that apply to every step. A check can read such a setting as a column if no record contains it."""


def non_finite(name: str, value: float, line: int | None = None) -> Event:
    """Return the event for a core field that was recorded as NaN or infinite."""
    return Event(kind="nan", message=f"{name} is {'NaN' if math.isnan(value) else 'infinite'}", line=line)


def restarted(before: int, after: int, line: int | None = None) -> Event:
    """Return the event for a step counter that decreases or repeats a step, because of a resumed run or of two runs in
    one log."""
    said = f"step goes back from {before} to {after}" if after < before else f"step {after} comes again"
    return Event(kind="restart", message=said, line=line)


class Call(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool call in a response: the name of the tool, the arguments, the result, and the kind of failure if the call
    failed."""

    name: str = ""
    arguments: str = ""
    result: str | None = None
    failure: str | None = None


class Sample(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One response of the policy. Texts come from models and users: escape them wherever they are shown.

    Attributes:
        response: the policy's own text; the results of tools are in ``calls``.
        reference: accepted answers, if the log contains them.
        finish: ``stop``, ``length``, ``loop`` (the engine stopped a loop), ``aborted`` or ``environment`` (the
            environment failed).
        tokens: length of the response in tokens.
        turns: number of model turns in the response. calls: tool calls of the response; None if unknown. signs:
            properties of the response, named as in ``rollouts/words.toml``.
    """

    step: int
    response: str
    prompt: str | None = None
    reward: float | None = None
    valid: bool | None = None
    task: str | None = None
    group: str | None = None
    success: float | None = None
    advantage: float | None = None
    components: dict[str, float] | None = None
    reference: list[str] | None = None
    finish: str | None = None
    tokens: int | None = None
    turns: int | None = None
    calls: list[Call] | None = None
    signs: list[str] | None = None


class Reading(msgspec.Struct, kw_only=True):
    """How a log was read, and how reliable its values are.

    Attributes:
        way: the reader of the rows: the name of a known format or, for custom trainers, ``lines`` or ``templates``.
            why: the reason for choosing this reader. rows: number of rows read. other_rows: number of rows in the
            second reading of a custom trainer's console; None without a second reading.
        pace: share of step increments that equal the most frequent increment; None for fewer than three rows.
        out_of_range: columns with impossible values.
        unused: unread series that may be a reward (most likely first), with the number of values.
        decides: whether the two readings differ in the reward, so that the verdict depends on which reading is used.
    """

    way: str
    why: str
    rows: int
    other_rows: int | None = None
    pace: float | None = None
    out_of_range: list[str] = []
    unused: dict[str, int] = {}
    decides: bool = False

    @property
    def not_recognised(self) -> str:
        """Return one clause on unread series that may be a reward, with the option that reads them; empty if there are
        none."""
        if not self.unused:
            return ""
        named = ", ".join(f"{name} ({count} values)" for name, count in self.unused.items())
        first = next(iter(self.unused))
        return f"series not recognised: {named}; if one is the reward, use --map '{first}=reward_mean'"


EndKind = Literal[
    "numerical failure",
    "out of memory",
    "killed",
    "interrupted",
    "time limit",
    "collective timeout",
    "exception",
    "finished",
]


class Ending(msgspec.Struct, kw_only=True):
    """How a log ends: the kind, the text, the line (0 in a notebook), the named exception, and whether training had
    already finished."""

    kind: EndKind
    what: str
    line: int
    raised: str = ""
    after_training: bool = False

    @property
    def ended_by(self) -> str:
        """Return what ended the process, and whether training had finished."""
        return f"{self.what}{' after training had finished' if self.after_training else ''}"

    @property
    def described(self) -> str:
        """Return the text of the ending, with its line and its exception."""
        raised = f": {self.raised.rstrip(' .:')}" if self.raised else ""
        return f"{self.ended_by}{f' (line {self.line})' if self.line else ''}{raised}"


class RepeatedError(msgspec.Struct, kw_only=True):
    """The error message that a log repeats most often: the number of lines that contain it, the first of these lines,
    and whether the message reports a skipped update."""

    lines: int
    text: str
    skips: bool = False

    @property
    def described(self) -> str:
        """Return the message with its number of lines."""
        quoted = self.text.replace('"', "'")
        return f'{self.lines} lines report {"skipped updates:" if self.skips else "the error"} "{quoted}"'


class Run:
    """A run as columns. Unknown values are NaN; recorded NaN and infinities of core fields are ``nan`` events.

    Attributes:
        steps: int64, the trainer's step of each row; decreases if a log restarts.
        lines: int64, the line of each row in the source, or 0 if unknown. settings: declared or printed values, by
            field or setting name.
        events: row number to the events of that row.
        samples: row number to the samples of that row.
        unread: log keys that no field uses, with their counts.
        mapping: log key to record field, as read.
        notes: notes of the reader: merged rows and rejected guesses; `NotRead` for skipped input.
        reading: how the log was read, and doubts about it; None for records and runs that were not read.
        ending: how the log ends, if known.
        repeated_error: the error message on most lines, if one repeats.
        reached: last position of the progress bar, for a log without a training row; None if unknown. The length of the
            bar is ``settings["max_steps"]``.
        texts: names of the first texts in a file whose records have texts and no metrics, like a data set.
        path: the file that ``lines`` refer to; None for no file or several files.
    """

    def __init__(self, source: str = "", format: str = "records", run_type: RunType = "rl") -> None:
        self.source, self.format, self.run_type = source, format, run_type
        self.steps = np.empty(0, np.int64)
        self.lines = np.empty(0, np.int64)
        self.columns: dict[str, np.ndarray] = {}
        self.settings: dict[str, Any] = {}
        self.events: dict[int, list[Event]] = {}
        self.samples: dict[int, list[Sample]] = {}
        self.unread: dict[str, int] = {}
        self.mapping: dict[str, str] = {}
        self.notes: list[str] = []
        self.tables: list[Table] = []
        self.path: Path | None = None
        self.reading: Reading | None = None
        self.ending: Ending | None = None
        self.reached: int | None = None
        self.repeated_error: RepeatedError | None = None
        self.texts: list[str] = []

    @property
    def restarts(self) -> int:
        """Return the number of restarts within these rows."""
        return sum(event.kind == "restart" for events in self.events.values() for event in events)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def keys(self) -> set[str]:
        """Every key of the log and every field read from it."""
        return {*self.mapping, *self.unread, *self.columns}

    def column(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray | None:
        """Return rows ``start:stop`` of a recorded, derived or declared field, or None if no value is known.

        A declared value applies to rows on which the field is not recorded.
        """
        stop = len(self) if stop is None else stop
        recorded = self.columns[name][start:stop] if name in self.columns else None
        declared = self.settings.get(name) if name in BROADCAST else None
        if isinstance(declared, int | float):
            filled = np.full(stop - start, figure(declared))
            return filled if recorded is None else np.where(np.isnan(recorded), filled, recorded)
        if recorded is not None:
            return recorded
        if name in DERIVED:
            inputs, plan = DERIVED[name]
            known = [self.column(field, start, stop) for field in inputs]
            if all(c is None for c in known):
                return None
            rows = stop - start
            given = [np.full(rows, math.nan) if c is None else c for c in known]
            with np.errstate(all="ignore"):
                _, (derived,) = plan.block(plan.begin(), given, rows)
            return np.asarray(derived)
        return None

    def all_events(self) -> Iterable[tuple[int, Event]]:
        """Yield every event with the step at which it happened."""
        for row in sorted(self.events):
            for event in self.events[row]:
                yield int(self.steps[row]), event

    def not_finite(self) -> set[tuple[int, str]]:
        """Return rows and core fields with a recorded NaN or infinity; unknown values do not count."""
        return {
            (row, event.message.split(" ", 1)[0])
            for row, events in self.events.items()
            for event in events
            if event.kind == "nan"
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the known values of each step, including a recorded NaN of a core field."""
        recorded = self.not_finite()
        for row, step in enumerate(self.steps.tolist()):
            found: dict[str, Any] = {"step": step}
            for name, column in self.columns.items():
                value = column[row]
                if column.dtype == object:
                    if value is not None:
                        found[name] = value
                elif not math.isnan(value) or (row, name) in recorded:
                    whole = WHOLE.get(name, float) if math.isfinite(value) else float
                    found[name] = whole(value)
            yield found

    def records(self) -> Iterator[StepRecord]:
        """Yield the rows as records."""
        for row, values in enumerate(self.rows()):
            events = [e for e in self.events.get(row, ()) if e.kind != "nan"]
            yield StepRecord(**values, events=events or None)

    def to_frame(self) -> pandas.DataFrame:
        """Return the columns as a pandas frame indexed by step, for notebooks."""
        import pandas

        return pandas.DataFrame(self.columns, index=pandas.Index(self.steps, name="step"))


def not_finite_any_longer(run: Run) -> str:
    """Return a clause on the core fields that are NaN or infinite from some step to the end of the run; empty if there
    are none."""
    rows: dict[str, list[int]] = {}
    for row, name in run.not_finite():
        rows.setdefault(name, []).append(row)
    told = []
    for name, at in sorted(rows.items()):
        column = run.columns.get(name)
        known = np.empty(0) if column is None or column.dtype == object else np.flatnonzero(np.isfinite(column))
        after = [row for row in at if row > (known[-1] if len(known) else -1)]
        if after:
            told.append(f"{name} has not been finite since step {int(run.steps[min(after)])}")
    return " and ".join(told)


def figure(value: float) -> float:
    """Return a number as a float; an integer too large for a float becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class Table(msgspec.Struct, kw_only=True):
    """A table for the report; ``texts`` is true if the table contains prompts or responses."""

    title: str
    head: list[str]
    rows: list[list[str]]
    note: str = ""
    texts: bool = False


class RunBuilder:
    """Collects rows in the order of the log and turns them into a `Run`.

    Consecutive rows of one step are merged. Counts are summed. Maxima and the gradient norm keep the largest value, and
    other fields keep the last value. A non-finite value always takes precedence. If the step counter decreases, a new
    segment begins.
    """

    def __init__(self, source: str = "", format: str = "records") -> None:
        self.run = Run(source, format)
        self._steps = array("q")
        self._lines = array("q")
        self._numbers: dict[str, array[float]] = {}
        self._recorded: dict[str, list[int]] = {}
        self._objects: dict[str, dict[int, Any]] = {}
        self._events: dict[int, list[Event]] = {}
        self._samples: dict[int, list[Sample]] = {}
        self._pending_events: list[Event] = []
        self._again: list[int] = []

    def add(self, row: Mapping[str, Any] | StepRecord, line: int = 0) -> None:
        """Add one row, given as a map from record fields to values, including ``step``. An unknown field is an error in
        the reader."""
        values = msgspec.structs.asdict(row) if isinstance(row, StepRecord) else row
        index = len(self._steps)
        self._steps.append(int(values["step"]))
        self._lines.append(line)
        for name, value in values.items():
            if value is None or name == "step":
                continue
            if name == "events":
                self._events.setdefault(index, []).extend(value)
                if any(event.kind == "restart" for event in value):
                    self._again.append(index)
            elif name in _NUMBERS:
                self._number(name, index, float(value))
            elif name in TEXT_FIELDS:
                self.run.settings.setdefault(name, value)
            elif name in OBJECT_FIELDS:
                self._objects.setdefault(name, {})[index] = value
            else:
                raise KeyError(f"{name!r} is not a record field")
        if self._pending_events:
            self._events.setdefault(index, []).extend(self._pending_events)
            self._pending_events = []

    def add_records(self, records: Sequence[StepRecord], lines: Sequence[int]) -> None:
        """Add many records at once."""
        columns: dict[str, np.ndarray] = {}
        recorded: dict[str, list[int]] = {}
        for name in (*NUMBER_FIELDS, *TEXT_FIELDS, *OBJECT_FIELDS):
            values = list(map(attrgetter(name), records))
            known = next((value for value in values if value is not None), None)
            if known is None:
                continue
            if name in TEXT_FIELDS:
                self.run.settings.setdefault(name, known)
            elif name in _NUMBERS:
                columns[name] = np.array(values, float)
                odd = np.flatnonzero(~np.isfinite(columns[name])).tolist()
                recorded[name] = [row for row in odd if values[row] is not None]
            else:
                columns[name] = np.empty(len(values), object)
                columns[name][:] = values
        events = {row: record.events for row, record in enumerate(records) if record.events}
        again = [row for row, happened in events.items() if any(event.kind == "restart" for event in happened)]
        self.extend(np.array([record.step for record in records]), columns, np.array(lines), recorded, events, again)

    def extend(
        self,
        steps: np.ndarray,
        columns: Mapping[str, np.ndarray],
        lines: np.ndarray | None = None,
        recorded: Mapping[str, Iterable[int]] | None = None,
        events: Mapping[int, list[Event]] | None = None,
        again: Iterable[int] = (),
    ) -> None:
        """Add many rows at once: columns of record fields, NaN (None in object columns) if unknown.

        ``recorded`` maps each field to the rows (counted from 0) with a recorded non-finite value. ``events`` contains
        the events of these rows. A row in ``again`` starts a new row, although its step is that of the previous row.
        """
        start = len(self._steps)
        self._steps.frombytes(np.ascontiguousarray(steps, np.int64).tobytes())
        self._lines.frombytes(
            np.ascontiguousarray(np.zeros(len(steps)) if lines is None else lines, np.int64).tobytes()
        )
        for name, values in columns.items():
            if values.dtype == object:
                known = {start + row: value for row, value in enumerate(values) if value is not None}
                self._objects.setdefault(name, {}).update(known)
                continue
            column = self._numbers.setdefault(name, array("d"))
            column.extend([math.nan] * (start - len(column)))
            column.frombytes(np.ascontiguousarray(values, np.float64).tobytes())
        for name, rows in (recorded or {}).items():
            self._recorded.setdefault(name, []).extend(start + row for row in rows)
        for row, happened in (events or {}).items():
            self._events.setdefault(start + row, []).extend(happened)
        self._again.extend(start + row for row in again)

    def _number(self, name: str, index: int, value: float) -> None:
        column = self._numbers.setdefault(name, array("d"))
        if len(column) < index:
            column.extend([math.nan] * (index - len(column)))
        column.append(value)
        if not math.isfinite(value):
            self._recorded.setdefault(name, []).append(index)

    def event(self, kind: str, message: str, line: int | None = None) -> None:
        """Add an event between rows. The event belongs to the next row, or to the last row if no row follows."""
        self._pending_events.append(Event(kind=kind, message=message, line=line))

    def sample(self, sample: Sample) -> None:
        """Add a response to the last row of its step, which must exist."""
        self._samples.setdefault(len(self._steps) - 1, []).append(sample)

    def finish(self) -> Run:
        """Return the run. Rows of one step are merged, and non-finite values of core fields become events."""
        run, n = self.run, len(self._steps)
        if self._pending_events and n:
            self._events.setdefault(n - 1, []).extend(self._pending_events)
        steps = np.frombuffer(self._steps, np.int64) if n else np.empty(0, np.int64)
        fresh = np.concatenate(([True], steps[1:] != steps[:-1])) if n else np.empty(0, bool)
        fresh[self._again] = True
        starts = np.flatnonzero(fresh)
        owner = np.zeros(n, np.int64)
        owner[starts[1:]] = 1
        owner = np.cumsum(owner)
        run.steps = steps[starts].copy()
        last = np.concatenate((starts[1:], [n])) - 1 if n else starts
        run.lines = np.frombuffer(self._lines, np.int64)[last].copy() if n else np.empty(0, np.int64)
        for name in list(self._numbers):  # remove one column at a time, so that a long run is not stored twice
            values = self._numbers.pop(name)
            values.extend([math.nan] * (n - len(values)))
            run.columns[name] = self._merge(name, np.frombuffer(values, float), owner, starts)
        for name, objects in self._objects.items():
            column = np.full(len(starts), None, object)
            for index, value in objects.items():
                column[owner[index]] = value
            run.columns[name] = column
        for index, events in self._events.items():
            run.events.setdefault(int(owner[index]), []).extend(events)
        for index, samples in self._samples.items():
            run.samples.setdefault(int(owner[index]), []).extend(samples)
        self._note_non_finite(owner)
        self._note_restarts()
        return run

    def _merge(self, name: str, values: np.ndarray, owner: np.ndarray, starts: np.ndarray) -> np.ndarray:
        if len(starts) == len(values):
            merged = values.copy()
        elif name in ADDED_UP:
            merged = np.add.reduceat(np.nan_to_num(values), starts)
            merged[np.logical_and.reduceat(np.isnan(values), starts)] = math.nan
        elif name in LARGEST:
            merged = np.fmax.reduceat(values, starts)
        else:
            merged = np.full(len(starts), math.nan)
            known = np.flatnonzero(~np.isnan(values))
            merged[owner[known]] = values[known]
        for index in self._recorded.get(name, ()):
            merged[owner[index]] = values[index]
        return merged

    def _note_non_finite(self, owner: np.ndarray) -> None:
        for name in sorted(CORE & self._recorded.keys()):
            rows = sorted({int(owner[index]) for index in self._recorded[name]})
            for row in rows:
                event = non_finite(name, self.run.columns[name][row], int(self.run.lines[row]) or None)
                self.run.events.setdefault(row, []).append(event)

    def _note_restarts(self) -> None:
        for row in (np.flatnonzero(np.diff(self.run.steps) <= 0) + 1).tolist():
            if any(event.kind == "restart" for event in self.run.events.get(row, ())):
                continue
            event = restarted(self.run.steps[row - 1], self.run.steps[row], int(self.run.lines[row]) or None)
            self.run.events.setdefault(row, []).append(event)


_NUMBERS = frozenset(NUMBER_FIELDS)


def continues(record: StepRecord, before: StepRecord) -> bool:
    """Return whether a record belongs to the row of the previous record: same step and no restart."""
    return record.step == before.step and not any(event.kind == "restart" for event in record.events or ())


def merged(records: Sequence[StepRecord]) -> StepRecord:
    """Merge the records of one step, by the rules of `RunBuilder`."""
    run = run_of(records)
    known = {name: column[0] for name, column in run.columns.items()}
    said = {name: run.settings[name] for name in TEXT_FIELDS if name in run.settings}
    events = [event for record in records for event in record.events or ()]
    return StepRecord(step=records[0].step, events=events or None, **known, **said)


def run_of(records: Iterable[StepRecord], source: str = "", settings: Mapping[str, Any] | None = None) -> Run:
    """Return the run of these records."""
    builder = RunBuilder(source)
    builder.run.settings.update(settings or {})
    for record in records:
        builder.add(record)
    return builder.finish()
