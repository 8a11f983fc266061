import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("RAT003", ratio_first_minibatch="0x5 0.08x3")
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 6, 8)
    assert found.message == ("Before the first update, the probability ratio differs from 1 by 0.08 on average.")


@pytest.mark.parametrize(
    ("gap", "severity"),
    [
        ("0x9", None),
        ("0.01x9", None),
        ("0.011x2", None),
        ("0.011x3", "warning"),
        ("0.05x3", "warning"),
        ("0.051x3", "error"),
    ],
)
def test_boundary(gap: str, severity: str | None) -> None:
    found = run_check("RAT003", ratio_first_minibatch=gap)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("settings", "clipped", "fires"),
    [
        ({"train_batch_size": 256, "mini_batch_size": 256}, "0.001x9", False),
        ({"train_batch_size": 256, "mini_batch_size": 256}, "0.0011x9", True),
        ({"train_batch_size": 256, "mini_batch_size": 256, "num_iterations": 1}, "0.0011x9", True),
        ({"train_batch_size": 256, "mini_batch_size": 256, "num_iterations": 2}, "0.1x9", False),
        ({"train_batch_size": 256, "mini_batch_size": 128}, "0.1x9", False),
        ({"train_batch_size": 8, "mini_batch_size": 64, "max_turns": 1}, "0.0011x9", True),
        ({"train_batch_size": 8, "mini_batch_size": 64, "max_turns": 2}, "0.1x9", False),
        ({}, "0.1x9", False),
    ],
)
def test_one_update_per_rollout_clips_nothing(settings: dict[str, int], clipped: str, fires: bool) -> None:
    found = run_check("RAT003", settings, clip_fraction=clipped)
    assert (found is not None) is fires
    assert found is None or found.message == (
        "0.11% of the tokens are clipped, although every ratio should be 1 with one update per rollout. The two "
        "forward passes give different log-probabilities."
    )
