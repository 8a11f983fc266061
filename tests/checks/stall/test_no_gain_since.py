import math

import pytest

from grpo_doctor import diagnose
from grpo_doctor.testing import find, make_run, run_check


def rising(until: int, rows: int = 200) -> list[float]:
    """A reward that rises from 0.2 to 0.6 until a row and then stays level, with periodic noise."""
    return [0.2 + 0.4 * min(n / until, 1.0) + 0.01 * math.sin(n * 2.4) for n in range(rows)]


def test_a_plateau_is_dated_and_measured() -> None:
    found = find("STL009", reward_mean=rising(40))
    assert (found.severity, found.kind) == ("info", "remark")
    assert 40 <= found.evidence["since"] <= 60
    assert found.evidence["now"] == pytest.approx(0.6, abs=0.01)
    assert found.message.startswith(f"Since step {found.evidence['since']}, for ")


@pytest.mark.parametrize(("until", "fires"), [(40, True), (60, True), (130, False), (200, False)])
def test_a_plateau_that_covers_less_than_three_fifths_is_silent(until: int, fires: bool) -> None:
    found = run_check("STL009", reward_mean=rising(until))
    assert (found is not None and not found.cleared) is fires


@pytest.mark.parametrize(("rows", "fires"), [(39, False), (48, True)])
def test_boundary_of_the_number_of_rewards(rows: int, fires: bool) -> None:
    assert (run_check("STL009", reward_mean=rising(8, rows)) is not None) is fires


def test_a_run_that_never_rose_and_one_that_is_solved_are_silent() -> None:
    flat = [0.2 + 0.01 * math.sin(n * 2.4) for n in range(200)]
    solved = [min(value / 0.6, 1.0) for value in rising(40)]
    assert run_check("STL009", reward_mean=flat) is None
    assert run_check("STL009", reward_mean=solved) is None


def test_the_plateau_follows_the_sentence_on_the_gain() -> None:
    said = diagnose(make_run(reward_mean=rising(60)))
    found = said.finding("STL009")
    assert found is not None
    assert said.verdict == "healthy"
    assert said.headline.startswith("The policy improved: the reward rose from")
    assert said.headline.endswith(f". {found.message} No problem found in the recorded metrics.")
    assert "has not risen" not in diagnose(make_run(reward_mean=rising(130))).headline
