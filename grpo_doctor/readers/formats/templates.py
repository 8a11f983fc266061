"""Reads repeatedly printed lines in a second way, for comparison with the result of the first way (`keyvalue`).

The second way uses only structure. Lines of one shape are a template. The template with the most information about
training is the main template, and a number that counts up in its lines counts the rows. Without such a number, a
heading is used if it advances with nearly every row or encloses several lines. Lines below one heading are averaged.
The numbers of other templates are added to the rows. Lines whose words vary are generated text. Without a counter, no
row is read from generated text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..aliases import is_step
from ..row_kinds import SAYS_ENOUGH, says
from .repeated_lines import Shape, backs

_ALIKE = 0.6
"""Minimum share of common names for two templates to count as one template with optional fields."""
_FALLS = 0.1
"""Maximum share of decreases in a counter. A decrease means that a new run begins."""
_ADVANCES = 0.8
"""Minimum share of the rows at which a heading must advance for the heading to count the rows."""
_MOST = 40
"""Maximum number of templates. The most frequent templates are used."""


class Table:
    """Lines of one template, or rows that combine lines. A table has names, and the numbers, place, line number and
    process of each line."""

    def __init__(
        self, names: list[str], values: np.ndarray, order: np.ndarray, lines: np.ndarray, origins: np.ndarray
    ) -> None:
        self.names, self.values, self.order, self.lines, self.origins = names, values, order, lines, origins
        self.counter: str | None = None
        self.evaluates = self.varied = False

    @classmethod
    def of(cls, shape: Shape) -> Table:
        """Return the lines of a shape as a table, with the name that counts the lines."""
        names = list(dict.fromkeys(name for name in shape.names if name))
        values = shape.table()[:, [shape.names.index(name) for name in names]]
        table = cls(names, values, *(np.array(of) for of in (shape.order, shape.lines, shape.origins)))
        table.evaluates, table.varied = shape.evaluates(), shape.varied or shape.sample
        counts = (shape.names[place] for place in shape.counters() if shape.names[place])
        table.counter = next((name for name in counts if _counts(table.column(name))), None)
        return table

    def column(self, name: str) -> np.ndarray:
        return np.asarray(self.values[:, self.names.index(name)])

    @property
    def score(self) -> float:
        """Rate how likely it is that this table contains the rows of the run."""
        trust = 1.0 if self.counter is not None else 0.35
        return says(self.names) * trust * (0.25 + 0.75 * min(len(self.order), 6) / 6)

    def absorb(self, other: Table) -> bool:
        """Merge another template if it differs only in optional fields, and return whether it was merged."""
        shared = len(set(self.names) & set(other.names))
        names = list(dict.fromkeys((*self.names, *other.names)))
        alike = shared >= _ALIKE * len(names) or (shared > 1 and shared == len(other.names))
        if not alike or self.counter != other.counter or self.evaluates != other.evaluates:
            return False
        parts = []
        for table in (self, other):
            parts.append(np.full((len(table.order), len(names)), np.nan))
            parts[-1][:, [names.index(name) for name in table.names]] = table.values
        order = np.concatenate((self.order, other.order))
        at = np.argsort(order, kind="stable")
        self.names, self.values, self.order = names, np.concatenate(parts)[at], order[at]
        self.lines = np.concatenate((self.lines, other.lines))[at]
        self.origins = np.concatenate((self.origins, other.origins))[at]
        return True

    def grouped(self, groups: np.ndarray) -> Table:
        """Return one row per group with the means of its lines, at the position of its first line."""
        sorts = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.diff(groups[sorts], prepend=-1))
        known = ~np.isnan(self.values[sorts])
        sums = np.add.reduceat(np.where(known, self.values[sorts], 0.0), begins)
        with np.errstate(all="ignore"):
            means = sums / np.add.reduceat(known.astype(float), begins)
        first = sorts[begins]
        at = np.argsort(self.order[first])
        first = first[at]
        return Table(self.names, means[at], self.order[first], self.lines[first], self.origins[first])


def _counts(values: np.ndarray) -> bool:
    """Return whether numbers are a counter: they are whole, change, and decrease only where a new run begins."""
    moves = np.diff(values)
    if not (values == np.floor(values)).all():
        return False
    return len(values) == 1 or bool((moves > 0).any() and backs(values) <= max(_FALLS * len(moves), 1))


def _templates(shapes: Sequence[Shape]) -> list[Table]:
    found: list[Table] = []
    for table in sorted(map(Table.of, shapes), key=lambda t: (-len(t.order), -len(t.names))):
        if not any(other.absorb(table) for other in found):
            found.append(table)
        if len(found) >= _MOST:
            break
    return found


def mine(shapes: Sequence[Shape], heads: Sequence[Shape]) -> tuple[Table, np.ndarray] | None:
    """Return the rows of the template with the most information about training, and the step of each row. Steps are
    NaN without a counter.

    Args:
        shapes: shapes with metrics.
        heads: lines without a metric that contain the number of a step.
    """
    templates = _templates(shapes)
    able = [t for t in templates if says(t.names) >= SAYS_ENOUGH and not t.evaluates]
    main = max(able, key=lambda t: t.score, default=None)
    if main is None:
        return None
    if main.counter is not None:
        rows = main.grouped(_turns(main.column(main.counter), main.origins))
        steps = rows.column(main.counter)
    else:
        found = _counted(main, [*(t for t in templates if t is not main and t.counter), *map(Table.of, heads)])
        if found is None and main.varied:
            return None
        rows, steps = found or (main, np.full(len(main.order), np.nan))
    for other in templates:
        if other is not main and not other.varied and not any(map(is_step, {*other.names} - {other.counter})):
            _join(rows, other)
    return rows, steps


def _turns(keys: np.ndarray, origins: np.ndarray) -> np.ndarray:
    """Return, for each line, the number of its period. A period consists of consecutive lines of one process with the
    same count."""
    out = np.zeros(len(keys), np.int64)
    turn = 0
    for origin in np.unique(origins):
        own = np.flatnonzero(origins == origin)
        out[own] = turn + np.cumsum(np.diff(keys[own], prepend=np.nan) != 0)
        turn = int(out[own].max()) + 1
    return out


def _counted(main: Table, others: Sequence[Table]) -> tuple[Table, np.ndarray] | None:
    """Return the rows of a template without a counter, with the counter of another template that advances with the rows
    or encloses them."""
    best: tuple[tuple[float, ...], Table, np.ndarray] | None = None
    first, last = main.order[0], main.order[-1]
    for other in others:
        if other.counter is None or other.evaluates:
            continue
        marks = other.grouped(_turns(other.column(other.counter), other.origins))
        if len(marks.order) < 2 <= len(main.order) or marks.order[0] > last or marks.order[-1] < first:
            continue
        place = np.searchsorted(marks.order, main.order, side="right")
        below = int((main.order < marks.order[0]).sum()) > int((main.order > marks.order[-1]).sum())
        place = np.minimum(place, len(marks.order) - 1) if below else np.maximum(place - 1, 0)
        advances = float((np.diff(place) > 0).mean()) if len(place) > 1 else 1.0
        inside = int(((marks.order >= first) & (marks.order <= last)).sum())
        covered = len(set(place.tolist())) / max(inside, 1)
        each = advances >= _ADVANCES
        if not each and (covered < _ALIKE or inside < 2):
            continue
        rank = (float(each), float(other.column(other.counter).max() >= inside), covered, advances)
        if best is None or rank > best[0]:
            steps = marks.column(other.counter)[place]
            rows = main if each else main.grouped(place)
            best = rank, rows, steps if each else marks.column(other.counter)[np.unique(place)]
    return None if best is None else (best[1], best[2])


def _join(rows: Table, other: Table) -> None:
    """Add the means of another template's numbers to the rows before it, or to the rows after it if it is printed
    first."""
    below = other.order[0] < rows.order[0] and other.order[-1] < rows.order[-1]
    place = np.searchsorted(rows.order, other.order, side="right") - (not below)
    inside = (place >= 0) & (place < len(rows.order))
    for name in other.names:
        if name not in rows.names and name != other.counter and inside.any():
            values = other.column(name)
            known = inside & ~np.isnan(values)
            with np.errstate(all="ignore"):
                column = np.bincount(place[known], values[known], len(rows.order)) / np.bincount(
                    place[known], minlength=len(rows.order)
                )
            rows.names, rows.values = [*rows.names, name], np.column_stack((rows.values, column))
