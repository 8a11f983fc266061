"""Reports quote how often causes were right; in tests these figures are fixed."""

from __future__ import annotations

import pytest

from grpo_doctor.diagnosis.lab_results import Measured, Share
from grpo_doctor.report import model

CALIBRATION = {
    "high": Share(41, 43, 0.85, 0.99),
    "medium": Share(30, 40, 0.6, 0.86),
    "low": Share(10, 20, 0.3, 0.7),
}


@pytest.fixture(autouse=True)
def _calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "stored", lambda: Measured(calibration=CALIBRATION))
