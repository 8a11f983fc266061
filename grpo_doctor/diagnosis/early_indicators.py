"""Finds early indicators: recorded series whose level shifted before success fell, and did not return before the
fall."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from ..record import NUMBER_FIELDS
from ..run import Table
from ..series.derived import DERIVED
from ..series.noise_model import median
from ..series.trajectory import SUCCESS, TURNED
from .wording import listed, number

BEYOND = 4.0
"""Distance from the median, in robust standard deviations, beyond which a series is outside its baseline range."""
FAR = 0.2
"""Share of the median by which a series must also have changed, because rounding alone can move a constant series out
of its baseline range."""
BACK = 0.35
"""Share of the rows before the onset, at their end, that is searched for shifts. The rows before them are the
baseline."""
LEAST = 4
"""Minimum number of rows from which a baseline range is computed."""
SHIFTED = 2
"""Minimum number of rows before the onset for which the new level must have lasted."""
SEVERAL = 3
"""Minimum number of steady series for the report to mention them."""
LEFT_OUT = frozenset("step optimizer_step epoch tokens_seen wall_time learning_rate groups group_size".split()) | {
    *SUCCESS,
    *TURNED,
}
"""Fields that are never early indicators: fields that always change or follow a schedule, and the success series
themselves."""
EXTREMES = ("_max", "_min")
"""Suffixes of fields with extreme values, which leave their range by chance if a batch is large."""


Columns: TypeAlias = Callable[[str], np.ndarray | None]
"""The values of a field by its name, or None if the field was not recorded."""


class Moved(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A series whose level shifted from ``start`` to ``end`` at ``step``, ``lead`` rows before the onset."""

    field: str
    step: int
    lead: int
    start: float
    end: float


class Recorded(NamedTuple):
    """Rows to search: their steps, and the values of a field on these rows (None if the field was not recorded)."""

    steps: np.ndarray
    column: Columns


class Before(NamedTuple):
    """The metrics that shifted before a fall, the earliest first, and the level of every steady metric."""

    moved: list[Moved]
    steady: dict[str, float]

    def sentence(self) -> str:
        """Return the sentence for a headline without a known cause; empty if too little was recorded."""
        if self.moved:
            first = [
                f"{m.field} {'rose' if m.end > m.start else 'fell'} from {number(m.start, 2)} to {number(m.end, 2)} "
                f"at step {m.step}"
                for m in self.moved[:2]
            ]
            return f" Early indicator{'s' if first[1:] else ''}: {listed(first)}."
        steady = len(self.steady)
        return f" None of the {steady} other metrics changed earlier." if steady >= SEVERAL else ""

    def tables(self) -> list[Table]:
        """Return the early indicators as a table of the report; empty if too little was recorded."""
        title = "Early indicators"
        if self.moved:
            rows = [[m.field, number(m.start), number(m.end), str(m.step), str(m.lead)] for m in self.moved]
            head = ["metric", "level before", "level after", "at step", "rows before the fall"]
            note = "Metrics whose level shifted before success fell, the earliest first. Order is not proof of a cause."
            return [Table(title=title, head=head, rows=rows, note=note)]
        note = (
            "None of these metrics shifted before success fell. A policy failure usually shows here, so first check "
            "the reward function, its environment and the prompts."
        )
        rows = [[name, number(level)] for name, level in self.steady.items()]
        return (
            [Table(title=title, head=["steady metric", "level"], rows=rows, note=note)] if len(rows) >= SEVERAL else []
        )


def before(recorded: Recorded, onset: int) -> Before:
    """Return which metrics shifted before the step at which success began to fall, and which did not."""
    at = int(np.searchsorted(recorded.steps, onset))
    names = [n for n in dict.fromkeys((*NUMBER_FIELDS, *DERIVED)) if n not in LEFT_OUT and not n.startswith("reward")]
    names = [n for n in names if not n.endswith(EXTREMES)]
    found, steady = [], {}
    for name in names:
        column = recorded.column(name)
        usual = None if column is None else _usual(column, at)
        if column is None or usual is None:
            continue
        if (moved := _left(name, column, recorded.steps, at, *usual)) is not None:
            found.append(moved)
        elif name in NUMBER_FIELDS and usual[1] > _rounding(usual[0]):
            steady[name] = usual[0]
    return Before(sorted(found, key=lambda m: -m.lead), steady)


def _begin(at: int) -> int:
    """Return the first row to search."""
    return max(int(at * (1 - BACK)), min(LEAST, at))


def _usual(column: np.ndarray, at: int) -> tuple[float, float] | None:
    """Return the baseline level and range of a series; None if there are too few rows."""
    begin = _begin(at)
    usual = column[:begin]
    usual = usual[np.isfinite(usual)][-max(begin // 2, LEAST) :]
    if len(usual) < LEAST:
        return None
    middle = median(usual)
    spread = 1.4826 * median(np.abs(usual - middle))
    return middle, max(spread, float(usual.std()) / 2, _rounding(middle))


def _rounding(middle: float) -> float:
    """Return the smallest range that rounding allows for a series at this level."""
    return max(1e-3 * abs(middle), 1e-9)


def _left(name: str, column: np.ndarray, steps: np.ndarray, at: int, middle: float, spread: float) -> Moved | None:
    """Return the shift of a series that stays above or below its baseline range up to the onset; None if there is no
    such shift."""
    rows = np.arange(_begin(at), at)
    rows = rows[np.isfinite(column[rows])]
    away = column[rows] - middle
    out = np.sign(away) * ((np.abs(away) > BEYOND * spread) & (np.abs(away) > FAR * abs(middle)))
    if not len(out) or not out[-1]:
        return None
    stays = int(np.argmin(out[::-1] == out[-1])) or len(out)
    if stays < SHIFTED:
        return None
    row = int(rows[-stays])
    return Moved(name, int(steps[row]), at - row, middle, median(column[rows[-stays:]]))
