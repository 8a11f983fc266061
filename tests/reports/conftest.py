"""Reports quote how often causes were right; in tests these figures are fixed."""

from __future__ import annotations

import pytest

from grpo_doctor import report
from grpo_doctor.measured import Measured, Share

CALIBRATION = {
    "high": Share(41, 43, 0.85, 0.99),
    "medium": Share(30, 40, 0.6, 0.86),
    "low": Share(10, 20, 0.3, 0.7),
}


@pytest.fixture(autouse=True)
def _calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "stored", lambda: Measured(calibration=CALIBRATION))
