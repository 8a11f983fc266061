import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("weights", "difference", "severity"),
    [
        ("0.9999x5", "0.024x5", None),
        ("0.81x5", "0.01x5", None),
        ("0.79 0.9 0.79", "0.01x3", None),
        ("0.8x2", "0.01x2", None),
        ("0.79x2", "0.01x2", "info"),
        ("1.25x2", "0.01x2", None),
        ("1.26x2", "0.01x2", "info"),
        ("0.5", "0.01", None),
        ("0.49", "0.01", "warning"),
        ("2", "0.01", None),
        ("2.01", "0.01", "warning"),
        ("0.25", "0.01", "warning"),
        ("0.24", "0.01", "error"),
        ("0.24", "0.1128", "error"),
        ("0.24", "0.113", None),  # they disagree token by token: RAT004
        ("0.24", "?", None),
        ("0x5", "0x5", None),  # columns that a trainer prints although it measures nothing
    ],
)
def test_boundary(weights: str, difference: str, severity: str | None) -> None:
    found = run_check("RAT008", rollout_weight_mean=weights, rollout_logp_diff=difference)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("k3", "fires"), [(0.01, False), (0.0099, True)])
def test_a_gap_at_the_limit_is_a_disagreement(k3: float, fires: bool) -> None:
    assert (run_check("RAT008", rollout_weight_mean=[0.24], rollout_mismatch_kl=[k3]) is not None) is fires


def test_message() -> None:
    found = find("RAT008", rollout_weight_mean="0.0596", rollout_mult_prob_error="1.024", rollout_mismatch_kl="0.0007")
    assert found.message == (
        "The mean importance weight is 0.0596 and scales every update, although rollout engine and trainer agree (KL "
        "0.0007 nats/token)."
    )
