import pytest

from grpo_doctor.testing import find, run_check

CALM = "0.05x20"
LEAPS = f"{CALM} 60 0.05x16 60 0.05x16 60 0.05x16"


def test_a_kl_that_leaps_again_and_again() -> None:
    norms = "0.4x20 900 0.4x16 800 0.4x16 700 0.4x16"
    finding = find("KL008", kl=LEAPS, grad_norm=norms)
    assert (finding.severity, finding.kind, finding.onset_step, finding.detected_step) == ("warning", "outcome", 21, 55)
    assert finding.message == (
        "The KL to the reference model has spiked 3 times so far, up to 60 nats/token, with a gradient norm of up to 900."
    )


def test_a_run_that_learns_in_spite_of_it_is_at_risk() -> None:
    reward = [0.2 + 0.005 * n for n in range(71)]
    assert find("KL008", kl=LEAPS, reward_mean=reward).kind == "risk"


@pytest.mark.parametrize(
    ("kl", "fires"),
    [
        (f"{CALM} 60 0.05x16 60 0.05x40", False),  # twice
        (f"{CALM} 10x3 0.05x9", False),
        (f"{CALM} 10.1x3 0.05x9", True),
        ("2x20 20x3 2x9", False),  # ten times the level, and not more
        ("2x20 20.1x3 2x9", True),
        (f"{CALM} 60 0.05x49 60 0.05x49 60", False),  # the first of them is a hundred rows back
        (f"{CALM} 60 0.05x49 60 0.05x48 60", True),
        ("0.05x19 60x3", False),  # no level is known yet
    ],
)
def test_exactly_at_a_threshold(kl: str, fires: bool) -> None:
    assert (run_check("KL008", kl=kl) is not None) is fires


def test_a_kl_that_drifts_is_silent() -> None:
    assert run_check("KL008", kl=[0.001 * 1.05**n for n in range(200)]) is None
