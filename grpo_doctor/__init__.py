"""grpo-doctor finds out why a GRPO run collapses, stalls or lies, and says what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .check import (
    Confidence,
    Finding,
    Fires,
    Remedy,
    Rival,
    Severity,
    Withheld,
    any_of,
    fires,
    once_known,
)
from .declare import across, check, conclude, probe
from .diagnosis import Diagnosis
from .examine import diagnose
from .live import LiveDoctor
from .preflight import preflight
from .record import StepRecord
from .run import Run

if TYPE_CHECKING:
    from .integrations.trl import Attached

__version__ = "0.1.0"


def attach(trainer: Any, **options: Any) -> Attached:
    """Live checks for a ``trl.GRPOTrainer``; see `grpo_doctor.integrations.trl.attach`. Needs the extra ``trl``."""
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
