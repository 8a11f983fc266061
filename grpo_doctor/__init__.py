"""Explains why a GRPO run collapses, stalls or reports misleading metrics, and shows what to change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .diagnosis.check import Confidence, Finding, Fires, Remedy, Rival, Severity, Withheld, any_of, fires, once_known
from .diagnosis.declare import across, check, conclude, probe
from .diagnosis.examine import diagnose as _diagnose
from .diagnosis.live import LiveDoctor
from .diagnosis.verdict import Diagnosis
from .preflight import preflight
from .record import StepRecord
from .run import Run

if TYPE_CHECKING:
    from .diagnosis.catalogue import Catalogue
    from .integrations.trl import Attached

__version__ = "0.1.0"


def diagnose(
    target: Run | str | Path,
    *,
    catalogue: Catalogue | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
) -> Diagnosis:
    """Diagnose a whole run: problems, onset, confidence, and what to change.

    Args:
        target: a run, or the path of a log, folder or store that contains one run.
        catalogue: the checks to run; by default all.
        thresholds: for each check code, thresholds by name that replace the defaults.

    Raises:
        ReadError: the path cannot be read.
        ValueError: the path contains no run or several runs.
        OverBudgetError: the diagnosis needs more time or memory than `grpo_doctor.limits` allows.
    """
    if isinstance(target, Run):
        return _diagnose(target, catalogue=catalogue, thresholds=thresholds)
    from .readers import read

    runs = read(Path(target))
    if len(runs) != 1:
        raise ValueError(
            f"{target}: holds {len(runs)} runs; diagnose each of grpo_doctor.readers.read({str(target)!r})"
        )
    return _diagnose(runs[0], catalogue=catalogue, thresholds=thresholds)


def attach(trainer: Any, **options: Any) -> Attached:
    """Add live checks to a ``trl.GRPOTrainer``; see `grpo_doctor.integrations.trl.attach`. Needs the extra ``trl``."""
    from .integrations.trl import attach as attach_to_trl

    return attach_to_trl(trainer, **options)


__all__ = [
    "Confidence",
    "Diagnosis",
    "Finding",
    "Fires",
    "LiveDoctor",
    "Remedy",
    "Rival",
    "Run",
    "Severity",
    "StepRecord",
    "Withheld",
    "across",
    "any_of",
    "attach",
    "check",
    "conclude",
    "diagnose",
    "fires",
    "once_known",
    "preflight",
    "probe",
]
