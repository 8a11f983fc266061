"""grpo-doctor finds out why a GRPO run collapses, stalls or lies, and says what to change."""

from __future__ import annotations

from .check import (
    Confidence,
    Finding,
    Fires,
    Remedy,
    Rival,
    Severity,
    any_of,
    check,
    conclude,
    fires,
    once_known,
    probe,
)
from .diagnosis import Diagnosis
from .doctor import LiveDoctor, diagnose
from .record import StepRecord
from .run import Run

__version__ = "0.1.0"

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
    "any_of",
    "check",
    "conclude",
    "diagnose",
    "fires",
    "once_known",
    "probe",
]
