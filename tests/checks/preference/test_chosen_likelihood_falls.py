from typing import Any

import numpy as np
import pytest

from grpo_doctor.testing import find, run_check

FALLS = np.linspace(0, -12, 60).tolist()


def test_chosen_responses_that_are_ruled_out() -> None:
    finding = find("PRF003", chosen_reward=FALLS, chosen_logp=np.linspace(-100, -150, 60).tolist())
    assert finding.severity == "warning"
    assert finding.message == (
        "The chosen responses become less likely: their reward fell from -0.407 to -11.6 and their log-probability "
        "fell from -102 to -148. The margin grows because the likelihood of the rejected responses falls faster."
    )


@pytest.mark.parametrize(
    "held_out",
    [{"eval_loss": "0.6 ?x9 0.5 ?x49"}, {"eval_score": "0.6 ?x9 0.6 ?x49"}, {"eval_loss": "0.5 ?x9 0.55 ?x49"}],
)
def test_it_is_a_remark_where_a_held_out_figure_holds(held_out: dict[str, Any]) -> None:
    assert find("PRF003", chosen_reward=FALLS, **held_out).severity == "info"


@pytest.mark.parametrize("held_out", [{"eval_loss": "0.5 ?x9 0.56 ?x49"}, {"eval_loss": "?x10 0.5 ?x49"}])
def test_it_is_a_warning_where_it_does_not(held_out: dict[str, Any]) -> None:
    assert find("PRF003", chosen_reward=FALLS, **held_out).severity == "warning"


@pytest.mark.parametrize(
    ("reward", "logp", "fires"),
    [
        ("0x10 -6.9x10", "-50x20", False),
        ("0x10 -7x10", "-50x20", True),
        ("-300x10 -306x10", "-3000x10 -3060x10", False),  # another method, whose rewards begin there
        ("0x10 -1x10", "-50x10 -100x10", False),
        ("0x10 -1x10", "-50x10 -100.1x10", True),
        ("0x20", "-50x10 -100.1x10", False),
        ("0x10 -1x10", "0x10 -1x10", False),  # twice nothing is nothing
        ("0x10 1x10", "-50x10 -120x10", False),  # longer texts, that the policy likes better than its reference
    ],
)
def test_exactly_at_a_threshold(reward: str, logp: str, fires: bool) -> None:
    assert (run_check("PRF003", chosen_reward=reward, chosen_logp=logp) is not None) is fires


def test_a_small_share_is_usual() -> None:
    noise = np.random.default_rng(0).normal(0, 30, 100)
    logp = (np.linspace(-120, -140, 100) + noise).tolist()
    assert run_check("PRF003", chosen_reward=np.linspace(0, -1, 100).tolist(), chosen_logp=logp) is None
