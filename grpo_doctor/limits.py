"""What one input may take: time and memory, looked at wherever work is done, so that no crafted file takes more.

Reading one file is one spending, judging one run another. Code within calls `spent` between chunks, rows and checks;
outside of any spending, as in a live session or in a user's notebook that never asked for one, `spent` does nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

if sys.platform != "win32":
    import resource

_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system tells the peak of a process."""
_LOOK = 0.02
"""Seconds between two looks at the memory: each asks the system, and this is called for every row and check."""
_PARSED = 8
"""Times its own size that a document takes in memory once it is parsed; measured on JSON of short rows."""


class OverBudgetError(ValueError):
    """An input that takes more than it may; the message says of what, and how to allow more."""


class Budget(NamedTuple):
    """Seconds, and megabytes by which the process may grow, that one input may take."""

    seconds: float = 600.0
    megabytes: float = 2048.0


@dataclass
class _Spending:
    budget: Budget
    began: float
    peak: float
    looked: float
    """When the memory was looked at last."""


_current: ContextVar[_Spending | None] = ContextVar("spending", default=None)
_allowed: ContextVar[Budget] = ContextVar("budget", default=Budget())  # noqa: B039 - it is immutable


def allow(budget: Budget) -> None:
    """What each input may take from here on."""
    _allowed.set(budget)


def allowed() -> Budget:
    """What each input may take."""
    return _allowed.get()


@contextmanager
def spending() -> Iterator[None]:
    """One input: what is done within counts towards one budget; within another spending it counts towards that."""
    if _current.get() is not None:
        yield
        return
    began = time.monotonic()
    token = _current.set(_Spending(_allowed.get(), began, _peak(), began))
    try:
        yield
    finally:
        _current.reset(token)


def spent(document: int = 0, what: str = "a document") -> None:
    """Ends the work on this input where it has taken what it may, or would with a document of so many bytes.

    Raises `OverBudgetError`.
    """
    now = _current.get()
    if now is None:
        return
    clock = time.monotonic()
    if clock - now.began > now.budget.seconds:
        raise OverBudgetError(f"given up after {now.budget.seconds:g} seconds; --budget-seconds allows more")
    limit = f"more than the {now.budget.megabytes:g} MB of memory that one input may take; --budget-megabytes allows"
    if _PARSED * document > now.budget.megabytes * 2**20:
        raise OverBudgetError(f"{what} of {document >> 20} MB, which must be read as a whole, needs {limit} more")
    if document or clock - now.looked > _LOOK:
        now.looked = clock
        if _peak() - now.peak > now.budget.megabytes * 2**20:
            raise OverBudgetError(f"it needs {limit} more")


def _peak() -> float:
    """The most memory that this process has held, in bytes."""
    return 0.0 if sys.platform == "win32" else float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT)
