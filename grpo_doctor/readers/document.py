"""Finds the rows of one or several runs in a JSON document. The rows may be a list under any key, a set of columns, or
the points of curves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from .aliases import GUESSED, STEP_KEYS, WEAK_STEP_KEYS, resolve, words
from .row_kinds import EVAL, UPDATED, flat, is_eval, melted, says
from .settings import declared
from .values import number

Row = Mapping[str, Any]

_HISTORIES = ("log_history", "history", "metrics", "logs", "steps", "records", "trajectory", "rows", "data")
_RUNS = tuple(
    "run run_id run_name experiment exp variant method algo algorithm "
    "arm condition model trajectory trial fold seed".split()
)
"""Columns that may distinguish runs."""
_VARIED = frozenset(
    "lambda alpha gamma beta rho sweep variant ablation trial seed fold config setting lr weight coef coefficient arm "
    "condition".split()
)
"""Words in the name of a column that contains the varied setting of a sweep."""
_CLOCKED = frozenset("lr learning_rate".split())
"""Names of settings that a schedule changes within one run."""
_TRAIN = frozenset(("train", "training", "trainer"))
_TEXTS = frozenset(
    "prompt question completion completions response output generation messages text answer problem query code".split()
)
_LOG = re.compile(r"log|hist|metric|step|episode|curve|traject|train|record|epoch|iter|update|row", re.IGNORECASE)
_CURVE = re.compile(
    r"[_ ](?:curve|history|log|series|values|trace|trajectory"
    r"|per_step|per_episode|per_epoch|per_iteration|over_time)$"
)
_COUNTED = re.compile(r"(epoch|step|iter|iteration|update|round|episode|checkpoint|ckpt)?[-_ ]?(\d+)", re.IGNORECASE)
_ACROSS = (*STEP_KEYS, *WEAK_STEP_KEYS, "x", "index", "t")
_UP = ("value", "y", "mean", "avg", "v")
_DEEPEST = 5
_MOST_RUNS = 50


class Table(NamedTuple):
    """The rows of one run, and the name of the run among the runs of a document."""

    name: str
    rows: Sequence[Row]
    series: bool = False
    """Whether the form of the document (columns, curves or histories) shows that the rows are in temporal order."""


def tables(value: Any, name: str = "") -> list[Table]:
    """Return the tables of a document. If the document has no table, return the document itself as one row.

    Args:
        value: the document.
        name: the name of the document, from which the meaning of a plain list of numbers is inferred.
    """
    if isinstance(value, list) and len(value) > 1 and all(map(_numeric, value)):
        return [Table("", _scalar(value, name))]
    if isinstance(value, list):
        return _of_list(value) or [Table("", [])]
    return _of_mapping(_unfolded(value), 0) or [Table("", [value])]


def labelled(value: Any) -> Any:
    """Return the rows of a document that lists the names of its columns once, like tables of pandas
    (``orient="split"``) and W&B. Return any other document unchanged."""
    names, data = (value.get("columns"), value.get("data")) if isinstance(value, dict) else (None, None)
    if not isinstance(names, list) or not isinstance(data, list):
        return value
    whole = all(isinstance(row, list) and len(row) == len(names) for row in data)
    return [dict(zip(map(str, names), row, strict=True)) for row in data] if whole else value


def _scalar(points: list[Any], name: str) -> list[Row]:
    """Return the rows of one scalar, which TensorBoard's page exports as lists ``[wall time, step, value]``, or the
    rows of other lists of numbers."""
    steps = [at[1] for at in points if isinstance(at, list) and len(at) == 3 and isinstance(at[1], int)]
    counted = len(steps) == len(points) and all(a < b for a, b in pairwise(steps))
    return [{"step": point[1], curve(name): point[2]} if counted else {curve(name): point} for point in points]


def curve(name: str) -> str:
    """Return the metric of a curve: the name without ``_history`` and similar suffixes, or the word in the name that
    means a metric."""
    short = _CURVE.sub("", name)
    return short if resolve(short) else next((word for word in ("reward", "loss") if word in name.lower()), name)


def _metric(name: str) -> str:
    """Return the name of a column. Remove ``_history`` and similar suffixes if only the rest of the name is a
    metric."""
    short = _CURVE.sub("", name)
    return short if resolve(short) and not resolve(name) else name


def _of_list(value: list[Any]) -> list[Table]:
    rows = widened([row for row in value if isinstance(row, dict)])
    if not rows:
        return []
    return [Table(name, part) for name, part in runs_of(rows).items()]


def widened(rows: Sequence[Row]) -> Sequence[Row]:
    """Convert a long table with columns ``metric, step, value`` to one row per step and run. Return the rows unchanged
    if they are not a long table, or if a metric occurs twice at a step.
    """
    names = {str(key).lower(): key for key in rows[0]} if rows else {}
    across = next((names[name] for name in STEP_KEYS if name in names), None)
    owners = [names[name] for name in _RUNS if name in names]
    found: dict[tuple[str, ...], dict[float, dict[str, Any]]] = {}
    for row in rows:
        at = number(row.get(across)) if across else None
        if at is None or (wide := melted(row)) is row:
            return rows
        metric = list(wide)[-1]
        held = found.setdefault(tuple(str(row.get(key)) for key in owners), {}).setdefault(at, {})
        if metric in held:
            return rows
        held.update(wide)
    return [steps[at] for steps in found.values() for at in sorted(steps)]


def _names_runs(key: str) -> bool:
    """Return whether a column with this name may distinguish runs, such as ``seed`` or ``kl_lambda``."""
    low = key.lower()
    return low in _RUNS or (not set(re.split(r"[\W_]+", low)).isdisjoint(_VARIED) and low not in _CLOCKED)


def names_runs(keys: Iterable[str]) -> bool:
    """Return whether any column of a table may distinguish runs."""
    return any(_names_runs(str(key)) for key in keys)


def runs_of(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """Return the rows of each run by name, for a table with columns that name the run. For a single run, the name is
    empty."""
    names = {str(key).lower(): key for key in rows[0]} if rows else {}
    columns = [names[name] for name in _RUNS if name in names] or _varied(rows, names)
    across = next((names[name] for name in _ACROSS if name in names), None)
    if not columns or across is None:
        return {"": rows}
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(" ".join(str(row.get(key, "")) for key in columns), []).append(row)
        if len(found) > _MOST_RUNS:
            return {"": rows}
    steps = [{number(row.get(across)) for row in part} for part in found.values()]
    shared = len(set().union(*steps)) < 0.7 * sum(map(len, steps))
    several = sum(len(part) > 1 for part in found.values())
    return dict(found) if len(found) > 1 and shared and 2 * several > len(found) else {"": rows}


def _varied(rows: Sequence[Row], names: Mapping[str, str]) -> list[str]:
    """Return the column with the varied setting of a sweep, as a list. The column with the setting has few distinct
    values, each of which occurs on many rows or again later."""
    for name, key in names.items():
        values = [str(row.get(key, "")) for row in rows]
        turns = sum(a != b for a, b in pairwise(values)) + 1
        distinct = len(set(values))
        if _names_runs(name) and 1 < distinct <= _MOST_RUNS and (turns > distinct or 3 * distinct <= len(values)):
            return [key]
    return []


def _of_mapping(value: Mapping[str, Any], depth: int) -> list[Table]:
    for key in _HISTORIES:
        inner = value.get(key)
        if isinstance(inner, list) and (found := _of_list(inner)):
            return found
        if isinstance(inner, dict) and (rows := columns(inner)) and not _runs_of_columns(inner):
            return [Table("", rows, True)]
    held = columns(value)
    told = bool(held) and _means(held[0])
    choices = (
        _counted(value) or _runs_of_columns(value),
        [Table("", rows, True) for rows in (held if told else [], _curves(value)) if rows][:1],
        _within(value, depth) if depth < _DEEPEST else [],
    )
    best = max(choices, key=_shows)
    return best or ([Table("", held)] if held and not _means(value) else [])  # otherwise, the lists are histograms


def _shows(tables: Sequence[Table]) -> float:
    """Rate how much information the tables contain about a training run."""
    return max((says(name for row in table.rows[:3] for name in row) for table in tables), default=-1.0)


def _counted(value: Mapping[str, Any]) -> list[Table]:
    """Return the table of a document with numbered rows, such as ``{"1": {…}}`` or ``{"epoch_1": {…}}``."""
    if not value or not all(isinstance(inner, dict) for inner in value.values()):
        return []
    found = [_COUNTED.fullmatch(str(key).lstrip("-")) for key in value]
    if all(found) and len({m[1] for m in found if m}) == 1:
        kind = (found[0][1] or "step").lower() if found[0] else "step"
        return [Table("", [{kind: int(m[2]), **row} for m, row in zip(found, value.values(), strict=True) if m])]
    return []


def _runs_of_columns(value: Mapping[str, Any]) -> list[Table]:
    """Return the tables of several runs in one document, each a mapping with the same columns."""
    held = {str(key): inner for key, inner in value.items() if isinstance(inner, dict)}
    if len(held) < 2 or _sides(held):
        return []
    found = {key: rows for key, inner in held.items() if (rows := columns(inner)) and _means(rows[0])}
    alike = {frozenset(rows[0]) for rows in found.values()}
    return [Table(key, rows, True) for key, rows in found.items()] if len(found) > 1 and len(alike) == 1 else []


def columns(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of named columns, which are lists of the same length that contain numbers or one list per
    step."""
    held = flat(value).items()
    lists = {_metric(key): v for key, v in held if isinstance(v, list) and v and not isinstance(v[0], dict)}
    lists = {key: v for key, v in lists.items() if not isinstance(v[0], list) or not _points(v)}
    lengths = [len(v) for v in lists.values() if any(_numeric(x) for x in v[:5])]
    if not lengths:
        return []

    def tells(length: int) -> tuple[int, int, int, int]:
        names = [key for key, v in lists.items() if len(v) == length]
        known = [key for key in names if _known(key)]
        return len([key for key in known if not is_eval(key)]), len(known), len(names), length

    longest = max(set(lengths), key=tells)
    if longest < 2:
        return []
    table = {"step" if _is_counter(key, v) else key: v for key, v in lists.items() if len(v) == longest}
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    for key, v in lists.items():
        if is_eval(key) and 1 < len(v) < longest and _numeric(v):
            for at, height in zip(_evaluated(key, len(v), lists, rows), v, strict=False):
                rows[at][key] = height
    return rows


def _evaluated(key: str, count: int, lists: Mapping[str, list[Any]], rows: Sequence[Row]) -> list[int]:
    """Return the row numbers of a score that was measured less often than the other metrics, from its list of steps.
    Without a list of steps, regular intervals are assumed if the number of rows is divisible by the number of scores.
    The row numbers are unknown if the number of rows is not divisible by the number of scores.
    """
    own = next((v for name, v in lists.items() if len(v) == count and _is_counter(name, v, "eval")), None)
    if own is not None:
        places = {row.get("step", i): i - 1 for i, row in enumerate(rows, 1)}
        return [places[at] for at in own] if all(at in places for at in own) else []
    apart, rest = divmod(len(rows), count)
    return [] if rest else list(range(apart - 1, len(rows), apart))


_COUNTERS = frozenset("step steps iteration iterations iter iters".split())


def _is_counter(key: str, values: list[Any], beside: str = "train") -> bool:
    """Return whether a list counts the rows of other lists: its name is like ``steps`` or ``train_iterations``, and its
    values only increase."""
    found = words(key)
    if not found & _COUNTERS or found - _COUNTERS - {beside, "global"}:
        return False
    counts = [at if isinstance(at, int) else None for at in values]
    return all(a is not None and b is not None and a < b for a, b in pairwise(counts))


def _known(key: str) -> bool:
    """Return whether a key is known with its prefix, so that the prefix does not name a run."""
    return any(alias.rank < GUESSED for alias in resolve(key))


def _unfolded(value: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    """Convert metrics with nested values, such as ``{"reward": {"values": […], "steps": […]}}``, to lists or curves."""
    inside = {key: inner for key, inner in value.items() if isinstance(inner, dict)}
    found = {key: curve for key, inner in inside.items() if (curve := _folded(inner))}
    if any(resolve(key) and not declared(key) for key in found):
        return {**value, **found}
    return {**value, **{k: _unfolded(inner, depth + 1) for k, inner in inside.items()}} if depth < _DEEPEST else value


def _folded(inner: Mapping[str, Any]) -> list[Any]:
    """Return the values of one metric, with their steps if given; empty for other mappings."""
    lists = {key.lower().removesuffix("s"): v for key, v in inner.items() if isinstance(v, list)}
    heights = next((lists.pop(key) for key in ("value", "y") if key in lists), [])
    if len(lists) > 1 or not all(map(_numeric, heights)) or any(isinstance(v, dict) for v in inner.values()):
        return []
    (across, steps), *_ = *lists.items(), ("", [])
    if not across:
        return heights
    alike = across.lstrip("_") in _ACROSS and len(steps) == len(heights)
    return [list(point) for point in zip(steps, heights, strict=True)] if alike else []


def _curves(value: Mapping[str, Any]) -> list[Row]:
    """Return the rows of named curves, which are lists of ``[step, value]`` or of ``{"step": …, "value": …}``."""
    rows: dict[float, dict[str, Any]] = {}
    for key, curve in flat(value).items():
        name = _CURVE.sub("", key)
        for at, height in _points(curve) if isinstance(curve, list) and _known(name) else ():
            rows.setdefault(at, {"step": at})[name] = height
    return [rows[at] for at in sorted(rows)] if len(rows) > 1 else []


def left_out(value: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, int]:
    """Return the lists of numbers in a document that no extracted row contains, and their lengths."""
    held = {str(key).rpartition("/")[2] for row in rows for key in row}
    whole = flat(_unfolded(value))
    lists = {key: v for key, v in whole.items() if isinstance(v, list) and len(v) > 1 and all(map(_numeric, v))}
    names = {key: key.rpartition("/")[2] for key, v in lists.items() if not _is_counter(key, v)}
    return {key: len(lists[key]) for key, name in names.items() if not {name, _CURVE.sub("", name)} & held}


def _points(curve: list[Any]) -> list[tuple[float, Any]]:
    """Return the points of a curve; empty for any other list."""
    found = []
    for point in curve:
        if isinstance(point, dict):
            named = {str(key).lower(): v for key, v in point.items()}
            alone = [key for key in named if key not in (*_ACROSS, "epoch")]
            heights = alone if len(alone) == 1 else _UP  # the only metric has the name of its curve
            point = [next((named[key] for key in keys if key in named), None) for keys in (_ACROSS, heights)]
        if (
            not isinstance(point, list | tuple)
            or len(point) != 2
            or (at := number(point[0])) is None
            or not _numeric(point[1])
        ):
            return []
        found.append((at, point[1]))
    if len(found) > 2 and found[-1][0] == found[-2][0]:
        found.pop()  # the average of the training, which Transformers logs at the last step
    steps = [at for at, _ in found]
    return found if all(at.is_integer() for at in steps) and all(a < b for a, b in pairwise(steps)) else []


def _within(value: Mapping[str, Any], depth: int) -> list[Table]:
    """Return the tables below the keys of a mapping. Keys for training and evaluation are joined into one run;
    otherwise, each key is a separate run."""
    found: dict[str, list[Table]] = {}
    for key, inner in value.items():
        inside = _of_list(inner) if isinstance(inner, list) else []
        inside = _of_mapping(inner, depth + 1) if isinstance(inner, dict) else inside
        if inside := [table for table in inside if _is_log(table, str(key))]:
            found[str(key)] = inside
    if _sides(found) and all(len(inside) == 1 for inside in found.values()):
        rows = [row for key, (table,) in found.items() for row in _of_side(key, table.rows)]
        steps = [next((at for key in _ACROSS if (at := number(row.get(key))) is not None), None) for row in rows]
        known = [at for at in steps if at is not None]
        order = sorted(range(len(rows)), key=known.__getitem__) if len(known) == len(rows) else range(len(rows))
        return [Table("", [rows[i] for i in order])]
    if len(found) == 1:
        return next(iter(found.values()))
    return [Table(f"{key} {t.name}".strip(), t.rows, t.series) for key, inside in found.items() for t in inside]


def _sides(held: Mapping[str, Any]) -> bool:
    """Return whether all keys name training or evaluation, and at least one names training."""
    heads = {key.lower().split("_")[0] for key in held}
    return bool(heads & _TRAIN) and heads <= _TRAIN | EVAL


def _of_side(key: str, rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        yield row if key.lower().split("_")[0] in _TRAIN else {"split": "eval", **row}


def _is_log(table: Table, key: str) -> bool:
    """Return whether the rows under a key are metrics over time, possibly with the prompt of an update. A model's
    answers and the results of several runs are not metrics over time."""
    rows = table.rows
    if len(rows) < 2 or not any(_means(row) for row in rows[:3]):
        return False
    names = {str(name).lower() for row in rows[:3] for name in row}
    counted = table.series or names & {*STEP_KEYS, *WEAK_STEP_KEYS} or _LOG.search(key)
    updates = any(alias.field in UPDATED for name in names for alias in resolve(name))
    return (updates or not names & _TEXTS) and bool(counted)


def _means(row: Row) -> bool:
    """Return whether a row contains a metric other than an epoch or a time."""
    return any(
        _numeric(v)
        and any(alias.field not in ("epoch", "wall_time") and alias.rank < GUESSED for alias in resolve(key))
        for key, v in flat(row).items()
    )


def _numeric(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(number(x) is not None for x in value)
    return not isinstance(value, bool) and number(value) is not None
