from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import Catalogue, load
from grpo_doctor.diagnosis.check import Finding
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.record import StepRecord
from grpo_doctor.run import run_of


def resumed(before: float, after: float, *, at: int = 20, back: int = 3, field: str = "reward_mean") -> Finding | None:
    """Return the finding for a resumed log, whole and row by row."""
    wave = [0.01 * (n % 3 - 1) for n in range(at)]
    rows: list[dict[str, Any]] = [{"step": n + 1, field: before + wave[n]} for n in range(at)]
    rows += [{"step": at - back + 1 + n, field: after + wave[n]} for n in range(at)]
    records = [StepRecord(**row) for row in rows]
    alone = Catalogue([load().checks["REC005"]], preview=True)
    doctor = LiveDoctor(catalogue=alone)
    for record in records:
        doctor.push(record)
    whole = diagnose(run_of(records, "test"), catalogue=alone).finding("REC005")
    live = doctor.diagnosis().finding("REC005")
    assert (whole and whole.message) == (live and live.message)
    return whole


def test_a_reward_that_falls_at_the_restart_is_reported_with_both_levels() -> None:
    found = resumed(0.8, 0.3)
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step, found.cleared) == ("warning", 18, 22, False)
    assert found.last_step == 22
    assert found.message == "When the run resumed at step 18, the reward changed from 0.798 to 0.298."


@pytest.mark.parametrize(
    ("field", "before", "after", "fires"),
    [
        ("reward_mean", 0.8, 0.61, False),
        ("reward_mean", 0.8, 0.59, True),
        ("reward_mean", 0.3, 0.8, False),  # a better reward after the restart is not a loss
        ("kl", 0.5, 0.0, True),  # the reference was loaded from the checkpoint
        ("entropy_mean", 0.4, 0.9, True),
        ("grad_norm", 0.5, 4.0, True),
        ("grad_norm", 4.0, 0.5, False),
        ("response_length_mean", 300.0, 310.0, False),
    ],
)
def test_boundary(field: str, before: float, after: float, fires: bool) -> None:
    assert (resumed(before, after, field=field) is not None) is fires


def test_a_resume_at_the_second_step_is_not_a_resume_and_at_the_third_is_one() -> None:
    assert resumed(0.8, 0.3, back=19) is None
    assert resumed(0.8, 0.3, back=18) is not None


def test_a_run_that_begins_again_in_the_same_log_is_not_a_resume() -> None:
    assert resumed(0.8, 0.3, back=20) is None
