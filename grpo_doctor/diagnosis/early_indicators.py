"""Early indicators: recorded series whose level shifted before success fell, and stayed there until it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from ..record import NUMBER_FIELDS
from ..run import Table
from ..series.derived import DERIVED
from ..series.trajectory import SUCCESS, TURNED

BEYOND = 4.0
"""Robust deviations from its own median beyond which a series has left its range (Tukey's far-out fence is 3.5)."""
FAR = 0.2
"""Share of that median by which it must have moved besides: a steady series leaves its range by rounding."""
BACK = 0.35
"""Share of the rows before the onset that is searched; what lies before them is what the series is held against."""
LEAST = 4
"""Rows without which a series has no range."""
SHIFTED = 2
"""Rows before the onset on which a level must have held: one row is no level."""
SEVERAL = 3
"""Steady series that say something of the policy together."""
LEFT_OUT = frozenset("step optimizer_step epoch tokens_seen wall_time learning_rate groups group_size".split()) | {
    *SUCCESS,
    *TURNED,
}
"""Fields that move by themselves or by schedule, and those whose fall is to be explained."""
EXTREMES = ("_max", "_min")
"""Ends of the names of largest and smallest values, which leave their range by chance as a batch grows."""


class Moved(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A series whose level shifted at ``step``, ``lead`` rows before the onset, from its usual level to this one."""

    field: str
    step: int
    lead: int
    start: float
    end: float


class Recorded(NamedTuple):
    """Rows in which a series may have moved: their steps, and a field's values on them; None where it has none."""

    steps: np.ndarray
    column: Callable[[str], np.ndarray | None]


class Before(NamedTuple):
    """Before a fall: what shifted, the earliest first, and the level of every field that varied within its range."""

    moved: list[Moved]
    steady: dict[str, float]

    def told(self) -> str:
        """What is said where no cause is known; nothing where too little was recorded."""
        if self.moved:
            first = "; ".join(
                f"{m.field} {'rose' if m.end > m.start else 'fell'} from {m.start:.2g} to {m.end:.2g} at step {m.step}"
                for m in self.moved[:2]
            )
            return f" Early indicators: {first}."
        steady = len(self.steady)
        return f" No early indicator among {steady} other metrics." if steady >= SEVERAL else ""

    def tables(self) -> list[Table]:
        """The same as a table of the report, none where nothing was recorded."""
        title = "Early indicators"
        if self.moved:
            rows = [[m.field, f"{m.start:.3g}", f"{m.end:.3g}", str(m.step), str(m.lead)] for m in self.moved]
            head = ["metric", "level before", "level after", "at step", "rows before the fall"]
            note = "Metrics whose level shifted before success fell, the earliest first. Order in time proves no cause."
            return [Table(title=title, head=head, rows=rows, note=note)]
        note = (
            "None of these shifted before success fell. What breaks a policy usually shows here, so first check what "
            "is outside the policy: the reward function, its environment and the prompts."
        )
        rows = [[name, f"{level:.3g}"] for name, level in self.steady.items()]
        return (
            [Table(title=title, head=["steady metric", "level"], rows=rows, note=note)] if len(rows) >= SEVERAL else []
        )


def before(recorded: Recorded, onset: int) -> Before:
    """What moved and what did not before the step at which success began to fall."""
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
    """The row from which a series is searched."""
    return max(int(at * (1 - BACK)), min(LEAST, at))


def _usual(column: np.ndarray, at: int) -> tuple[float, float] | None:
    """The level of a series well before, and how far it ranged about it; None where it had no range."""
    begin = _begin(at)
    usual = column[:begin]
    usual = usual[np.isfinite(usual)][-max(begin // 2, LEAST) :]
    if len(usual) < LEAST:
        return None
    middle = float(np.median(usual))
    spread = 1.4826 * float(np.median(np.abs(usual - middle)))
    return middle, max(spread, float(usual.std()) / 2, _rounding(middle))


def _rounding(middle: float) -> float:
    """The least that a series at such a level ranges."""
    return max(1e-3 * abs(middle), 1e-9)


def _left(name: str, column: np.ndarray, steps: np.ndarray, at: int, middle: float, spread: float) -> Moved | None:
    """The rows up to the onset on which the series stays out of the range that it had well before, on one side."""
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
    return Moved(name, int(steps[row]), at - row, middle, float(np.median(column[rows[-stays:]])))
