import pytest

from grpo_doctor.testing import find, run_check


def test_recovery_that_falls_to_chance_is_reported() -> None:
    found = find("DIV008", prompt_recovery="0.8x10 0.1x10")
    assert (found.severity, found.onset_step) == ("error", 11)
    assert found.message == (
        "Responses no longer depend on their prompt. Prompt recovery (how often the most similar response "
        "answers the same prompt, corrected for chance) fell from 80% to 10%."
    )


@pytest.mark.parametrize(
    ("recovery", "fires"),
    [
        ("0.5x10 0.125x10", True),
        ("0.5x10 0.126x10", False),
        ("0.4x10 0.05x10", True),
        ("0.39x10 0.05x10", False),  # responses did not depend on the prompt at first, either
        ("0.05x20", False),
        ("0.9x40", False),
    ],
)
def test_boundary(recovery: str, fires: bool) -> None:
    assert (run_check("DIV008", prompt_recovery=recovery) is not None) is fires


def test_a_run_that_learns_gets_a_warning() -> None:
    rising = [0.1 + 0.01 * n for n in range(60)]
    assert find("DIV008", prompt_recovery="0.8x20 0.1x40", reward_mean=rising).severity == "warning"
