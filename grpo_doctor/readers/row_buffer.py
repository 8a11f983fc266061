"""Collects the rows of a log by key, and converts them to a `Run` with steps, fields, settings and a run type.

Every format adds its rows unchanged. The meaning of the keys is determined once the whole log is known. Only all rows
together show which of several keys to use for a field, and whether a share is in percent.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..limits import spent
from ..record import NUMBER_FIELDS, Event
from ..run import Run
from . import fast, steps
from .aliases import STEP_KEYS, TRAPS, WEAK_STEP_KEYS, Alias, counts_as, is_weak, meant_beside, resolve
from .input import Input, NotRead
from .row_kinds import EVAL, EVALUATED, VALUES, component, declares, flat, is_eval, melted, unpacked
from .series import Values
from .settings import declared, setting_value
from .values import number


class Numbers(NamedTuple):
    """Numeric rows that share the same columns. Each row has a place, which orders it among the rows of other tables, a
    line, a step, and values. ``partly`` is true if a NaN means that a row does not have the value."""

    names: Sequence[str]
    places: np.ndarray
    lines: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    partly: bool = False


SPENT_EVERY = 256
"""Number of rows between checks of the budget."""
_LABELS = ("type", "row_type", "event", "phase", "split", "mode", "kind", "stage", "prefix")
_FLAGS = ("eval", "is_eval", "evaluation", "validation", "is_validation")
"""Keys whose value ``true`` marks a row of an evaluation."""
_TEXT = 60
"""Number of characters above which a value is a text, such as a prompt or an answer."""
_NO_LOG = ("No log", "No Log")
"""The text in a notebook's table for a metric that is missing from a row."""
_CONFIGS = frozenset("config args hparams header meta settings".split())
_OUTER = frozenset("iteration round cycle phase stage outer_step outer_iteration episode".split())
"""Counters that may increase on rows on which the steps restart."""
_COUNTS = frozenset("val/num_eos_tokens truncated_count rollout_count training/rollout_probs_diff_valid".split())
"""Keys of counts that are used only in combination with other keys."""
_CLOCKS = ("timestamp", "_timestamp", "ts")
"""Keys of the time of a row, which is not a metric."""
_SUMMARY = frozenset("train_runtime train_samples_per_second train_steps_per_second total_flos train_loss".split())
"""Keys of Transformers' final summary, which is not a separate step."""
_OF_MODELS = frozenset("architectures transformers_version model_type".split())
"""Keys of a model's configuration, which Transformers merges into the configuration of the run."""
_NEVER_ARGUED = frozenset(["num_return_sequences"])
_GENERATION = (
    frozenset("temperature top_k top_p min_p repetition_penalty max_length min_length".split()) | _NEVER_ARGUED
)
"""Generation defaults in a model's configuration, which are settings of the run only if its trainer also has these
arguments."""
_TARGETS = {"dead_share": "zero_variance_share", "cut_share": "truncated_rate", "invalid_rate": "fallback_rate"}


def _plain(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row without nested mappings, with one key per metric."""
    row = unpacked(row)
    if any(isinstance(value, Mapping) for value in row.values()):
        row = flat(row)
    if not VALUES.isdisjoint(row):
        row = melted(row)
    if "eval_runtime" in row and "loss" not in row:  # ``evaluate`` logs only held-out metrics
        row = {key if is_eval(key) or key in ("epoch", "step") else f"eval/{key}": row[key] for key in row}
    return row


def _count(value: Any) -> float | None:
    """Return the number of a counter, or the first number of ``5/100``."""
    return number(value.partition("/")[0] if isinstance(value, str) else value)


class Rows:
    """Collects the rows of a log."""

    def __init__(self, file: Input, format: str) -> None:
        self.file, self.format = file, format
        self.settings: dict[str, Any] = {}
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.unread: dict[str, int] = {}
        self.odd: list[str] = []
        """Unread keys whose first value is not finite."""
        self.steps = array("d")
        self.lines = array("q")
        self.trains = bytearray()
        self.columns: dict[str, Values] = {}
        self.components: dict[str, Values] = {}
        self.lists: dict[str, dict[int, Any]] = {}
        self.extra: dict[str, Values] = {}
        self.seen: set[str] = set()
        self.wordy: dict[str, str] = {}
        self.texts: list[str] = []
        """Unread keys whose first value is a text."""
        """Keys of metrics whose first value is a word, with the word."""
        self.seeds: set[str] = set()
        self.meant: str | None = None
        """The key of the true reward, if the optimised reward is called its proxy."""
        self.origins = array("q")
        self.origin = 0
        self.ended: list[int] = []
        self.by_bar = self.redrawn = False
        self.reached: list[tuple[int, float, int]] = []
        """Lines that show how many steps were taken, each with the number of steps taken and the planned number of
        steps."""
        self.numbered = True
        """Whether the steps of the rows come from the log and not from counting the rows."""
        self._declared: list[tuple[int, str, Any]] = []
        self._known: dict[str, Values] = {}
        self.weak = Values("", ())
        self._step_key = next((key for key, field in file.mapping.items() if field == "step"), None)
        self._shapes: dict[int, fast.JsonShape] = {}
        self._read: Counter[int] = Counter()
        self._held: fast.Shape | None = None
        self._unreadable = 0

    def __len__(self) -> int:
        return len(self.steps)

    @classmethod
    def apart(cls, file: Input, format: str, parts: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Run]:
        """Return the runs of the parts of a file, by the name of the part. Empty cells are not read."""
        runs: list[Run] = []
        for name, part in parts.items():
            rows = cls(replace(file, shown=f"{file.source} ({name})") if name else file, format)
            for row in part:
                rows.add({key: value for key, value in row.items() if value != ""})
            runs += rows.runs()
        return runs

    def add_points(self, points: Iterable[tuple[str, int, Any]]) -> None:
        """Add values that a store returns one by one as key, step and value. The values of a step become one row."""
        table: dict[int, dict[str, Any]] = {}
        for key, step, value in points:
            table.setdefault(step, {})[key] = value
        for step, row in sorted(table.items()):
            self.add(row, step=step)

    def add(self, row: Mapping[str, Any], line: int = 0, step: float | None = None) -> bool:
        """Add one row with its original keys, and return whether any key is known."""
        self.flush()
        if not len(self.steps) % SPENT_EVERY:
            spent()
        row = _plain(row)
        label = self._label(row)
        if label in _CONFIGS:
            self.declare(row)
            return False
        if ends := any(str(key).endswith("train_runtime") for key in row):  # a summary at the end of a run
            row = {key: value for key, value in row.items() if key.rpartition("/")[2] not in (*_SUMMARY, "epoch")}
        if (seed := row.get("seed")) is not None and len(self.seeds) < SPENT_EVERY:
            self.seeds.add(str(seed))
        if step is None:
            step = self._step(row)
        index = len(self.steps)
        trains = known = False
        self.meant = self.meant or meant_beside(tuple(row))
        for key, value in row.items():
            if value is None or key == self._step_key:
                continue
            column = self._take(label, key, value, index)
            known |= column
            trains |= column and label != "eval" and not is_eval(key) and self._trains(label, key)
        if known:
            self.steps.append(math.nan if step is None else step)
            self.lines.append(line)
            self.trains.append(trains)
            self.origins.append(self.origin)
        if ends:
            self.end()
        return known

    def add_tables(self, tables: Iterable[Numbers], starts: Iterable[int] = ()) -> None:
        """Add rows of numbers in the order of their places and lines. ``starts`` contains the places at which the
        program was restarted. A run ends at a restart of the program if its steps restart or are not in the log."""
        self.flush()
        spent()
        parts = [(table, columns) for table, columns in map(self._understood, tables) if len(table.lines)]
        if not parts:
            return
        first, sizes = len(self), [len(table.lines) for table, _ in parts]
        places, lines, steps = (np.concatenate([table[i] for table, _ in parts]) for i in (1, 2, 3))
        order = np.lexsort((lines, places))
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.arange(len(order))
        trains = np.zeros(len(order), bool)
        for (table, columns), rows in zip(parts, np.split(row_of, np.cumsum(sizes)[:-1]), strict=True):
            for name, column, values in zip(table.names, columns, table.values.T, strict=True):
                if column is not None:
                    held = ~np.isnan(values) if table.partly else np.ones(len(values), bool)
                    column.scatter(first + rows[held], values[held])
                    trains[rows[held]] |= column.trains and not is_eval(name)
        self.steps.frombytes(steps[order].tobytes())
        self.lines.extend(lines[order].tolist())
        self.trains.extend(trains.tobytes())
        self.origins.extend([self.origin] * len(order))
        self._end_at(places[order], steps[order], first, starts)

    def _understood(self, table: Numbers) -> tuple[Numbers, list[Values | None]]:
        """Return the rows of a table that have a value of a known metric, and the column of each name."""
        names = list(_plain(dict.fromkeys(table.names, 0.0)))
        self.meant = self.meant or meant_beside(tuple(names))
        columns = [self._column(name, table.values[:, i], table.partly) for i, name in enumerate(names)]
        metrics = [i for i, column in enumerate(columns) if column is not None and not column.counts]
        held = table.values[:, metrics]
        known = ~np.isnan(held).all(axis=1) if table.partly else np.full(len(held), bool(metrics))
        places, lines, steps, values = (part[known] for part in table[1:5])
        return Numbers(names, places, lines, steps, values, table.partly), columns

    def _column(self, name: str, values: np.ndarray, partly: bool) -> Values | None:
        """Return the column of a name, which is created if the name is known; None if the name is not read."""
        values = values[~np.isnan(values)] if partly else values
        if name == "seed":
            self.seeds.update(map(str, np.unique(values)[:SPENT_EVERY].tolist()))
        column = self._known.get(name)
        if column is None and len(values):
            before = self.unread.get(name, 0)
            column = None if before else self._open("", name, name, float(values[0]))
            if column is not None:
                self._known[name] = column
            elif name in self.unread:
                self.unread[name] = before + len(values)
        return column

    def _end_at(self, places: np.ndarray, steps: np.ndarray, first: int, starts: Iterable[int]) -> None:
        """End a run at each restart of the program if its steps restart or are not in the log. ``first`` is the row
        number of the first new row."""
        begun = float(steps[0])
        for at in np.unique(np.searchsorted(places, np.array([*starts], np.int64))):
            if at < len(places) and (not self.numbered or steps[at] <= begun):
                self.ended.append(first + int(at))
                begun = float(steps[at])

    def end(self) -> None:
        """Record the end of training at the current row."""
        self.flush()
        self.ended.append(len(self))

    def _trains(self, label: str, key: str) -> bool:
        column = self._known.get(f"{label}.{key}" if label else key)
        return column is None or column.trains

    def quick(self, raw: bytes, line: int, step: float | None = None) -> bool:
        """Add one JSON row with known keys. Return False if the row must be parsed normally."""
        shape = self._shapes.get(raw.count(fast.KEY)) if self._shapes else None
        if shape is None or not shape.take(raw, line, step):
            return False
        self.hold(shape)
        return True

    def learn(self, row: Mapping[str, Any], raw: bytes, step: float | None = None, strict: bool = True) -> None:
        """Switch to fast reading for rows with the same number of keys, once enough such rows have been parsed
        normally."""
        count = raw.count(fast.KEY)
        if count != len(row):  # the row has unknown keys, or texts that look like keys
            return
        self._read[count] += 1
        if self._read[count] % fast.LEARNED_FROM:
            return
        wanted = self.wanted(row, step)
        if wanted and all(map(fast.stands_in_json, wanted)):
            self._shapes[count] = fast.JsonShape(row, wanted, self.step_key(row, step), strict)

    def step_key(self, row: Mapping[str, Any], step: float | None = None) -> str | None:
        """Return the key that counts the rows, if a row has this key and no other step is given; otherwise None."""
        return self._step_key if step is None and self._step_key in row else None

    def wanted(self, row: Mapping[str, Any], step: float | None = None) -> list[str]:
        """Return the keys to read from rows with the same keys as this row; empty if the rows must be parsed one by
        one."""
        keyed = self.step_key(row, step) is not None
        as_it_stands = melted(row) is row and unpacked(row) is row
        if self._label(row) or not as_it_stands or not (step is not None or keyed or self._uncounted(row)):
            return []
        for key, value in row.items():
            if isinstance(value, list | Mapping) and key not in self.unread:
                return []
            unknown = value is None and key not in self._known and key not in self.unread
            if unknown and (column := self._open("", key, key, 0.0)) is not None:
                self._known[key] = column
        kept = [key for key in row if key in self._known]
        return [*kept, str(self._step_key)] if kept and keyed else kept

    def _uncounted(self, row: Mapping[str, Any]) -> bool:
        """Return whether neither this row nor any earlier row has a counter other than fractions of an epoch."""
        named = {key.lower().replace(" ", "_") for key in row}
        weak = [row[key] for key in row if is_weak(key)]
        parts = all((at := number(value)) is not None and not at.is_integer() for value in weak)
        return self._step_key is None and named.isdisjoint(STEP_KEYS) and parts

    def hold(self, shape: fast.Shape) -> None:
        """Register a shape that buffers the newest rows, and flush it if it is full."""
        if shape is not self._held:
            self.flush()
            self._held = shape
        if len(shape.lines) >= fast.CHUNK:
            self.flush()

    def flush(self) -> None:
        """Convert the buffered rows of a shape to columns."""
        shape, self._held = self._held, None
        if shape is None:
            return
        columns, start, count = shape.columns(), len(self.steps), len(shape.lines)
        if shape.step_key is not None:
            shape.steps = [math.nan if v is None else float(v) for v in columns.pop(shape.step_key)]
        for key, values in columns.items():
            self._known[key].take(start, values)
        self.steps.extend(shape.steps)
        self.lines.extend(shape.lines)
        self.origins.extend([self.origin] * count)
        self.trains.extend(bytes([any(not is_eval(key) and self._known[key].trains for key in columns)]) * count)
        for key in self.unread:
            if key in shape.keys:
                self.unread[key] += count
        shape.steps, shape.lines = [], []

    def _label(self, row: Mapping[str, Any]) -> str:
        for key in _LABELS:
            value = row.get(key)
            if isinstance(value, str) and len(value) < 40:
                low = value.lower()
                if low.split("_")[0] in EVAL:
                    return "eval"
                return low
        return "eval" if any(row.get(key) is True for key in _FLAGS) else ""

    def _step(self, row: Mapping[str, Any]) -> float | None:
        if self._step_key is not None and (step := _count(row.get(self._step_key))) is not None:
            return step
        named = {key.lower().replace(" ", "_"): key for key in map(str, row)}
        for name in STEP_KEYS:
            if name in named and (step := _count(row[named[name]])) is not None and math.isfinite(step):
                self._step_key = self._step_key or named[name]
                return step
        for word in WEAK_STEP_KEYS:
            counter = next((key for key in named.values() if counts_as(key, word)), None)
            if counter is not None and (step := number(row[counter])) is not None:
                self.weak.put(len(self.steps), step)
                break
        return None

    def _take(self, label: str, key: str, value: Any, index: int) -> bool:
        name = f"{label}.{key}" if label and key not in _LABELS else key
        column = self._known.get(name)
        if column is None:
            if isinstance(value, list):
                return self._list(key, value, index)
            if name in self.unread:
                self.unread[name] += 1
                return False
            column = self._open(label, name, key, value)
            if column is None:
                return False
            self._known[name] = column
        figure = number(value)
        if figure is None:
            return False
        column.put(index, figure)
        return not column.counts

    def _open(self, label: str, name: str, key: str, value: Any) -> Values | None:
        """Return a new column for a known key, or None. A key that declares a setting is stored as a setting; other
        keys are recorded as unread."""
        self.seen.add(key)
        aliases = () if declares(key) else self._meaning(f"eval/{key}" if label == "eval" else key)
        if key in _COUNTS or (key.lower() in (*_OUTER, *_CLOCKS) and number(value) is not None):
            self.extra[key] = Values(label, (), counts=True)
            return self.extra[key]
        if not aliases:
            setting = declared(key)
            if setting is not None and label != "eval" and (held := setting_value(setting, value)) is not None:
                self.set(setting, held)
            if (
                label != "eval"
                and not is_eval(key)
                and key not in TRAPS
                and component(key)
                and not declares(key)
                and number(value) is not None
                and not isinstance(value, bool)
            ):
                self.components[name] = Values(component(key), ())
                return self.components[name]
            if value not in _NO_LOG:
                self.unread[name] = 1
                if isinstance(value, str) and len(value) > _TEXT:
                    self.texts.append(name)
                if (figure := number(value)) is not None and not math.isfinite(figure):
                    self.odd.append(name)
            return None
        if number(value) is None:
            if isinstance(value, str) and value.strip() and value not in _NO_LOG:
                self.wordy.setdefault(key, value.strip())
            return None
        column = self.columns[name] = Values(label, aliases)
        return column

    def _meaning(self, key: str) -> tuple[Alias, ...]:
        if key in self.file.mapping:
            target = self.file.mapping[key]
            return (Alias(_TARGETS.get(target, target), rank=-1),)
        if key == self.meant:
            return (Alias("eval_score"),)
        found = resolve(key)
        if found and key.startswith("eval/") and any(a.field not in EVALUATED for a in found):
            return ()
        return tuple(a for a in found if a.field in NUMBER_FIELDS)

    def _list(self, key: str, values: list[Any], index: int) -> bool:
        """Add the rewards or advantages of a row, given as a list or as one list per group. Return whether the values
        were added."""
        name = key.rpartition("/")[2].lower()
        if name not in ("rewards", "advantages", "group_rewards", "reward"):
            if key not in self.unread and values and isinstance(values[0], Mapping):
                self.texts.append(key)  # the messages of a conversation
            self.unread[key] = self.unread.get(key, 0) + 1
            return False
        grouped = bool(values) and all(isinstance(group, list) for group in values)
        groups = [[number(v) for v in group] for group in (values if grouped else [values])]
        if not all(groups) or any(figure is None for group in groups for figure in group):
            return False
        place = "advantages" if name == "advantages" else "rewards"
        self.lists.setdefault(place, {})[index] = (groups if grouped else groups[0], grouped)
        return True

    def declare(self, config: Mapping[str, Any]) -> None:
        """Add the known settings of a configuration in the log, under the names that checks use."""
        of_model = not _OF_MODELS.isdisjoint(config)
        for key, value in flat(config).items():
            if of_model and key in _GENERATION and (key in _NEVER_ARGUED or "num_generations" not in config):
                continue
            if (setting := declared(key)) is not None and (held := setting_value(setting, value)) is not None:
                self.set(setting, held)

    def set(self, name: str, value: Any) -> None:
        """Add a setting at the current row of the log. The first value in each run applies."""
        self.flush()
        self._declared.append((len(self), name, value))
        self.settings.setdefault(name, value)

    def unreadable(self, line: int) -> None:
        """Record a line that should have been a row. The first line that could not be read is reported."""
        self._unreadable += 1
        if self._unreadable == 1:
            self.notes.append(NotRead(f"line {line} is not a row and was skipped"))

    def event(self, kind: str, message: str, line: int) -> None:
        """Add an event, which belongs to the row that follows its line, or to the last row."""
        self.events.append(Event(kind=kind, message=message, line=line))

    @property
    def comes_again(self) -> bool:
        """Return whether any step is smaller than the previous step, or many steps are repeated."""
        self.flush()
        known = np.array(self.steps)
        known = known[~np.isnan(known)] if not np.isnan(known).all() else self.weak.full(len(known))
        moves = np.diff(known)
        return bool((moves < 0).any() or np.count_nonzero(moves == 0) > 0.3 * len(moves))

    def reach(self, line: int, step: float | None, planned: int) -> None:
        """Record the number of steps that were taken up to a line, and the planned number of steps."""
        if self.reached and self.reached[-1][1:] == (step, planned):
            self.reached.pop()
        if step:
            self.reached.append((line, step, planned))

    def join(self, rollouts: list[int]) -> None:
        """Assign the step of the following update to rows that are numbered by their rollout."""
        self.steps = array("d", steps.joined(np.array(self.steps), rollouts))

    def _spread(self) -> None:
        """Correct the steps of rows if they are positions of a progress bar, which advances while rows are buffered."""
        column = max(self.columns.values(), key=lambda c: len(c.values) - np.isnan(c.values).sum(), default=None)
        if column is not None:
            trains = np.frombuffer(self.trains, np.uint8).astype(bool)
            held = np.flatnonzero(~np.isnan(column.full(len(self))) & trains)
            after = [step for line, step, _ in self.reached if line >= self.lines[-1]]
            self.steps = array("d", steps.spread(np.array(self.steps), held, max(after, default=0.0)))
            plans = [planned for line, _, planned in self.reached if line <= self.lines[-1]]
            plans = plans[-1:] or [planned for *_, planned in self.reached[:1]]
            if plans and self.steps[-1] <= plans[0]:
                self.settings.setdefault("max_steps", plans[0])

    def run(self) -> Run:
        """Return all rows as one run."""
        from .assemble import assemble

        self.flush()
        if self.by_bar or (self.reached and np.isnan(np.array(self.steps)).all()):
            self._spread()
        return assemble(self)

    def runs(self) -> list[Run]:
        """Return the runs of a log that may contain several runs. The source of each run contains its lines."""
        self.flush()
        n = len(self)
        epochs, tokens = (
            [c.full(n) for c in self.columns.values() if any(a.field == of for a in c.aliases)][:1]
            for of in ("epoch", "tokens_seen")
        )
        outer = [*epochs, *(column.full(n) for key, column in self.extra.items() if key.lower() in _OUTER)]
        counted = np.array(self.steps)
        if n and np.isnan(counted).all() and steps.restarts(weak := self.weak.full(n)):
            counted = weak
        parts = steps.runs(
            counted, np.frombuffer(self.trains, np.uint8).astype(bool), [*epochs, *tokens], outer,
            self.ended, np.array(self.origins),
        ) if n else []  # fmt: skip
        if len(parts) < 2:
            return [self.run()]
        found: list[Run] = []
        ends = [*(self.lines[part[0]] for part in parts[1:]), math.inf]
        for place, (rows, end) in enumerate(zip(parts, ends, strict=True), 1):
            part = self._part(rows, f"run {place} of {len(parts)}")
            part.reached = [at for at in self.reached if part.lines[0] <= at[0] < end]
            run = part.run()
            run.notes.append(f"the file has {len(parts)} runs, which are judged separately; this is run {place}")
            found.append(run)
        return found

    def _part(self, rows: np.ndarray, name: str) -> Rows:
        """Return some of the rows as a separate buffer, with the settings that were printed before its end."""
        n, first, last = len(self), int(rows[0]), int(rows[-1])
        lines = np.array(self.lines)[rows]
        if lines.any():
            name = f"{name}, lines {lines[0]}-{lines[-1]}"
        whole = self.file.source
        shown = f"{whole[:-1]}, {name})" if whole != str(self.file.path) and whole[-1:] == ")" else f"{whole} ({name})"
        part = Rows(replace(self.file, shown=shown), self.format)
        part.by_bar, part.seen, part.notes = self.by_bar, self.seen, list(self.notes)
        part.wordy = self.wordy
        part.numbered, part.seeds, part.redrawn = self.numbered, self.seeds, self.redrawn
        part.steps, part.lines = array("d", np.array(self.steps)[rows]), array("q", lines)
        part.trains = bytearray(np.frombuffer(self.trains, np.uint8)[rows].tobytes())
        part.origins, part.weak = array("q", np.array(self.origins)[rows]), self.weak.of(rows, n)
        for kind in ("columns", "components", "extra"):
            getattr(part, kind).update({key: column.of(rows, n) for key, column in getattr(self, kind).items()})
        part.seen = self.seen - _of_others(part)
        place = {row: at for at, row in enumerate(rows.tolist())} if self.lists else {}
        part.lists = {
            key: {place[row]: held for row, held in lists.items() if row in place} for key, lists in self.lists.items()
        }
        part.unread, part.odd = dict(self.unread), self.odd
        own = [(setting, value) for at, setting, value in self._declared if first <= at <= last]
        before = [(setting, value) for at, setting, value in reversed(self._declared) if at < first]
        for setting, value in (*own, *before):
            part.settings.setdefault(setting, value)
        part.events = [e for e in self.events if e.line is None or lines[0] <= e.line <= lines[-1]]
        return part


def _of_others(part: Rows) -> set[str]:
    """Return the keys of the log for which this part has no value, although other parts have values."""
    keys: dict[bool, set[str]] = {True: set(), False: set()}
    for held in (part.columns, part.components, part.extra):
        for name, column in held.items():
            keys[column.known > 0].add(name if name in part.seen else name.partition(".")[2])
    return keys[False] - keys[True]
