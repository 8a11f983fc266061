"""Limits time and memory per input. The limits are checked during all work on an input, so that no crafted file can
exceed them.

Reading a file and judging a run have separate budgets (`spending`). The code that works on an input calls `spent`
between chunks, rows and checks. Without a budget, as in a live session or a notebook, `spent` does nothing.
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
"""Unit, in bytes, of the peak memory that the system reports."""
_LOOK = 0.02
"""Seconds between measurements of the memory. Each measurement is a system call, and `spent` runs for every row and
check."""
_PARSED = 8
"""Memory that a parsed document needs, as a multiple of its size; measured on JSON with short rows."""


class OverBudgetError(ValueError):
    """An input that exceeds its limits; the message names the limit and how to raise it."""


class Budget(NamedTuple):
    """Seconds, and megabytes of process growth, per input."""

    seconds: float = 600.0
    megabytes: float = 2048.0


@dataclass
class _Spending:
    budget: Budget
    began: float
    peak: float
    looked: float
    """Time of the last memory measurement."""


_current: ContextVar[_Spending | None] = ContextVar("spending", default=None)
_allowed: ContextVar[Budget] = ContextVar("budget", default=Budget())  # noqa: B039 - it is immutable


def allow(budget: Budget) -> None:
    """Set the limits for all later inputs."""
    _allowed.set(budget)


def allowed() -> Budget:
    """Return the limits per input."""
    return _allowed.get()


@contextmanager
def spending() -> Iterator[None]:
    """Use one budget for the work on an input inside the block; nested calls share the outer budget."""
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
    """Raise `OverBudgetError` if the work on this input exceeds its limits, or would exceed them after parsing a
    document of this size.
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
    """Return the peak memory of this process in bytes."""
    return 0.0 if sys.platform == "win32" else float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT)
