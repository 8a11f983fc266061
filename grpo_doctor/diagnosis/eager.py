"""Runs checks eagerly: each function is called on whole numpy columns, so ``print``, breakpoints and ``if`` work in it.

The compiled mode (`series.plan`) gives the same findings; the tests compare both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..run import Run
from .catalogue import Catalogue
from .check import Check, Fires
from .examine import Examination, Examined, diagnosis_from, fill_from_samples
from .hysteresis import Alarm
from .verdict import Diagnosis


class EagerPlan:
    """Calls each check on all rows of a run, instead of a compiled `series.Plan`."""

    def __init__(self, check: Check, thresholds: Mapping[str, Any]) -> None:
        self.check, self.thresholds = check, {**check.thresholds, **thresholds}
        self.fires: Fires | None = None
        self.held: list[tuple[str, np.ndarray]] = []
        """Severity of each condition, and the rows on which the condition is true, in the order of the check."""

    def begin(self) -> tuple[int]:
        """Return 0, the number of processed rows before the first row."""
        return (0,)

    def block(self, memory: tuple[int], arguments: Sequence[Any], rows: int) -> tuple[tuple[int], Any]:
        """Compute what `series.Plan.block` computes, for a block that contains the whole run. Raises ValueError for any
        other block."""
        if memory[0]:
            raise ValueError(f"{self.check.code}: an eager check is given all rows at once")
        whole = [np.array(np.broadcast_to(column, rows)) for column in arguments]
        self.fires = found = self.check.conditions(whole, self.thresholds)
        conditions = [(str(self.check.severity), found.when), *((str(level), held) for level, held in found.levels)]
        self.held = [(level, np.broadcast_to(held, rows)) for level, held in conditions]
        shown = [held for _, held in self.held]
        if not any(held.any() for held in shown):
            return (rows,), None
        return (rows,), (shown, [found.onset, found.confidence, found.suffered, *found.evidence.values()])


class EagerlyExamined(Examined):
    """One check whose alarms are known only after the call."""

    called: EagerPlan | None = None

    def begin(self) -> tuple[Any, list[Alarm]]:
        """Return no alarms; `block` adds them."""
        self.plan = self.called = EagerPlan(self.check, self.thresholds)
        return self.called.begin(), []

    def block(self, alarms: list[Alarm], found: Any, at: int, rows: np.ndarray, steps: np.ndarray) -> None:
        """Pass the check's results for all rows to the alarms."""
        assert self.called is not None
        assert self.called.fires is not None
        alarms += self.alarms_of(self.called.fires)
        super().block(alarms, found, at, rows, steps)


@np.errstate(all="ignore")
def diagnose_eagerly(
    run: Run, catalogue: Catalogue, thresholds: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Diagnosis, list[EagerPlan]]:
    """Call every check eagerly on the whole run. Return the diagnosis, and the plan of each called check."""
    examination = Examination(catalogue, run.settings, thresholds or {}, run.run_type, kind=EagerlyExamined)
    fill_from_samples(run)
    examination.block(run, 0, len(run))
    called = [examined.called for examined in examination.examined if isinstance(examined, EagerlyExamined)]
    return diagnosis_from(run, catalogue, examination), [plan for plan in called if plan is not None]
