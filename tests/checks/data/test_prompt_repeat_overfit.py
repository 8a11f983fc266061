import pytest

from grpo_doctor.testing import find, run_check

REWARD = [0.2 + 0.02 * i for i in range(30)]
EPOCH = [i / 2 for i in range(30)]
FLAT = [0.3 + 0.01 * (i % 2) for i in range(30)]


def test_ten_passes_without_gain_on_held_out_prompts() -> None:
    assert run_check("DAT002", reward_mean=REWARD[:22], epoch=EPOCH[:22], eval_score=FLAT[:22]) is None
    found = find("DAT002", reward_mean=REWARD, epoch=EPOCH, eval_score=FLAT)
    assert (found.severity, found.onset_step) == ("warning", 21)
    assert found.message == (
        "After 14 passes over the prompts, the reward has risen, but the held-out score has not risen "
        "beyond noise (0.304 at the start, 0.306 now)."
    )


def test_held_out_gain() -> None:
    assert run_check("DAT002", reward_mean=REWARD, epoch=EPOCH, eval_score=REWARD) is None


def test_a_held_out_score_that_never_moves_has_not_gained() -> None:
    assert find("DAT002", reward_mean=REWARD, epoch=EPOCH, eval_score="0x30").severity == "warning"


@pytest.mark.parametrize(
    ("score", "fires"), [("0.89x30", True), ("0.9001x30", False), ("1x30", False), ("60x30", True)]
)
def test_a_held_out_score_with_nothing_left_to_gain_is_not_flagged(score: str, fires: bool) -> None:
    assert (run_check("DAT002", reward_mean=REWARD, epoch=EPOCH, eval_score=score) is not None) is fires
