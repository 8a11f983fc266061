import pytest

from grpo_doctor.testing import find, run_check


def test_the_margin_and_the_chosen_reward_are_reported() -> None:
    found = find("PRF005", chosen_reward="0x10 -2x20", reward_margin="0x10 3x20")
    assert (found.severity, found.kind) == ("info", "remark")
    assert found.message == (
        "The reward margin grew from 0 to 3 while the chosen responses became less likely. The implicit reward of the "
        "chosen responses fell from 0 to -2."
    )


@pytest.mark.parametrize(
    ("chosen", "margin", "fires"),
    [
        ("0x10 -1x200", "0x10 3x200", True),
        ("0x10 -0.9x200", "0x10 3x200", False),
        ("0x10 -1x200", "3x210", False),
        ("2x10 0.5x200", "0x10 3x200", False),  # still more likely than under the reference
    ],
)
def test_boundary(chosen: str, margin: str, fires: bool) -> None:
    assert (run_check("PRF005", chosen_reward=chosen, reward_margin=margin) is not None) is fires


@pytest.mark.parametrize(("logp", "fires"), [("-100x10 -120x200", False), ("-100x10 -121x200", True)])
def test_log_probabilities_do_where_no_reward_is_logged(logp: str, fires: bool) -> None:
    assert (run_check("PRF005", chosen_logp=logp, reward_margin="0x10 3x200") is not None) is fires


def test_chosen_responses_that_become_likelier_are_silent() -> None:
    assert run_check("PRF005", chosen_reward="0x10 1x50", reward_margin="0x10 3x50") is None
