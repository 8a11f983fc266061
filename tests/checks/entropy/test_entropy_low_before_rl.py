from typing import Any

import pytest

from grpo_doctor import StepRecord, diagnose
from grpo_doctor.run import run_of
from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("ENT012", {"temperature": 0.75}, entropy_mean="0.032 0.059 0.05 0.055")
    assert (found.severity, found.onset_step, found.detected_step) == ("warning", 1, 3)
    assert found.message == (
        "Entropy was 0.032 nats on the first row, before any update (sampled at temperature 0.75). The cause is an "
        "earlier training stage or the sampler, not the entropy coefficient or the group size."
    )


@pytest.mark.parametrize(
    ("settings", "columns", "severity"),
    [
        ({}, {"entropy_mean": "0.03x2"}, None),
        ({}, {"entropy_mean": "0.149 0.09x3"}, "warning"),
        ({}, {"entropy_mean": "0.15 0.09x9"}, None),  # spent in RL: ENT001
        ({}, {"entropy_mean": "0.03 0.1x9"}, None),
        ({}, {"entropy_mean": "1.2 0.03x9"}, None),
        ({"rows": "epochs"}, {"entropy_mean": "0.03x9"}, None),
        ({}, {"entropy_mean": "0x30"}, None),  # not computed
        ({}, {"entropy_mean": "-0.03x9"}, None),  # a sum of log-probabilities
        ({}, {"entropy_mean": "0.04x30", "reward_mean": "0.1x10 0.2x10 0.5x10"}, "info"),
    ],
)
def test_boundary(settings: dict[str, Any], columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("ENT012", settings, **columns)
    assert (found.severity if found else None) == severity


def test_a_log_that_begins_later_is_not_judged() -> None:
    run = run_of([StepRecord(step=100 + i, entropy_mean=0.03) for i in range(9)])
    assert diagnose(run).finding("ENT012") is None


def test_it_is_the_cause_of_the_collapse_and_withholds_what_acts_on_the_update() -> None:
    diagnosis = diagnose(run_of([StepRecord(step=i, entropy_mean=0.03) for i in range(9)]))
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", "ENT012")
    collapse = diagnosis.finding("ENT001")
    assert collapse is not None
    assert collapse.explained_by == ["ENT012"]
    assert {"clip-higher", "entropy-bonus", "roll-back"} <= {remedy.id for remedy in collapse.withheld}


@pytest.mark.parametrize(
    ("rows", "dead", "severity"), [(14, 0.25, "info"), (13, 0.25, "warning"), (14, 0.49, "info"), (14, 0.5, "warning")]
)
def test_live_groups_count_from_the_tenth_reward(rows: int, dead: float, severity: str) -> None:
    entropy, reward = [0.04] * rows, [0.3] * rows
    found = find("ENT012", entropy_mean=entropy, reward_mean=reward, zero_variance_share=[dead] * rows)
    assert found.severity == severity  # the warning is over five rows after the ninth
