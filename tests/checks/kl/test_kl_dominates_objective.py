from typing import Any

import pytest

from grpo_doctor import diagnose
from grpo_doctor.testing import find, make_run, run_check


def test_message() -> None:
    found = find("KL002", kl_grad_share="0.62 ?x9 0.62 ?x9 0.62 ?x3")
    assert (found.severity, found.onset_step) == ("warning", 21)
    assert found.message == (
        "The KL term contributes 62% of the gradient norm, so updates pull the policy back to the reference model."
    )


def test_the_share_in_the_value_is_called_weak() -> None:
    found = find("KL002", kl_loss_share="0.97 0.92 0.91", kl="0.094 0.0813 0.0741")
    assert found.message == (
        "The KL term is 91% of the loss value (weak evidence: in on-policy training, the policy loss is 0 by "
        "construction) and the KL falls from 0.094 to 0.0741, so updates pull the policy back to the reference "
        "model."
    )


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        ({"kl_grad_share": "0.34x9"}, None),
        ({"kl_grad_share": "0.5x9"}, None),
        ({"kl_grad_share": "0.51x2"}, None),
        ({"kl_grad_share": "0.51x3"}, "warning"),
        ({"kl_grad_share": "0 0.9 0 0 0.9"}, None),  # noise while the KL is near 0
        ({"kl_grad_share": "0.8x3"}, "warning"),
        ({"kl_grad_share": "0.81x3"}, "error"),
        ({"kl_loss_share": "0.92x3", "kl": "1 0.95 0.9"}, None),
        ({"kl_grad_share": "0.81x20", "reward_mean": "0.1x5 0.2x5 0.3x5 0.4x5"}, "warning"),
        ({"kl_loss_share": "0.92x3", "kl": "0.094 0.0813 0.0741"}, "warning"),  # Lever-Plus
        ({"kl_loss_share": "0.92x3", "kl": "0.094 0.0813 0.0850"}, None),
        ({"kl_loss_share": "0.92x3", "kl": "0.094 0.0913 0.0870"}, None),  # above 90% of its highest
        ({"kl_loss_share": "0.92 0.8 0.92", "kl": "0.094 0.0813 0.0741"}, None),
        ({"kl_loss_share": "0.999x9", "kl": "0.1x9"}, None),  # the value share alone proves nothing
        ({"kl_loss_share": "0.92x3", "kl": "0.094 0.0813 0.0741", "kl_grad_share": "0.1x3"}, None),
    ],
)
def test_boundary(columns: dict[str, Any], severity: str | None) -> None:
    found = run_check("KL002", **columns)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("after", "reward", "fires"),
    [
        ("-3x5 -1x10", "-0.7x15", False),  # a rise of 2, the range of single rewards
        ("-3.1x5 -1x10", "-0.7x15", True),
        ("-3.1x5 -1x10", "-0.9x5 0.5x10", False),  # the reward has improved, too
        ("-1x5 -3.1x10", "-0.7x15", False),
    ],
)
def test_a_rise_beyond_the_range_of_the_rewards_comes_from_the_penalty(after: str, reward: str, fires: bool) -> None:
    range_of: dict[str, Any] = {"reward_min": "-1x15", "reward_max": "1x15"}
    found = run_check("KL002", reward_mean=reward, reward_after_kl=after, **range_of)
    assert (found is not None) is fires
    if found is not None:
        assert found.message == (
            "The KL penalty in the reward fell, but the reward itself did not improve: the reward after the penalty rose "
            "from -3.1 to -1."
        )


def test_a_penalty_that_pays_for_short_responses_is_the_cause_of_the_collapse() -> None:
    rewards = [-0.5 - 0.02 * (row % 3) for row in range(30)] + [-0.9 - 0.01 * (row % 3) for row in range(30)]
    said = diagnose(
        make_run(
            reward_mean=rewards,
            reward_after_kl="-19x30 -2x30",
            reward_min="-1x60",
            reward_max="1x60",
            response_length_mean="970x30 9x30",
        )
    )
    assert (said.verdict, said.outcome, said.cause) == ("failing", "REW009", "KL002")
    assert "Likely cause (KL002): The KL penalty in the reward fell" in said.headline
