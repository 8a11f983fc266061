import math
from typing import Any

import numpy as np
import pytest

from grpo_doctor.testing import find, run_check

LN2 = math.log(2)
RATE = "1e-7 2e-7 5e-7x58"


def test_a_loss_that_stays_at_ln_2() -> None:
    finding = find("PRF002", loss="0.693x60", reward_margin="0.001 -0.001 0.002x58", learning_rate=RATE)
    assert (finding.severity, finding.onset_step) == ("warning", 1)
    assert finding.message == (
        "The policy does not learn the preference pairs: after 60 rows, the loss is 0.693 and the margin is 0.002. The "
        "learning rate is too low: at 5e-07, no margin exceeds 0.002."
    )
    assert finding.evidence["too_low"]


@pytest.mark.parametrize(
    ("margin", "rate", "too_low"), [(0.009, 9e-6, True), (0.011, 9e-6, False), (0.009, 1e-5, False)]
)
def test_small_margins_at_a_low_rate_are_the_fault_of_the_rate(margin: float, rate: float, too_low: bool) -> None:
    finding = find("PRF002", loss="0.693x60", reward_margin=[margin] * 60, learning_rate=[rate] * 60)
    assert bool(finding.evidence["too_low"]) is too_low


def test_margins_of_exactly_0_prove_that_nothing_has_moved() -> None:
    assert find("PRF002", loss="0.6931x60", reward_margin="0x60").severity == "error"


@pytest.mark.parametrize(
    ("rows", "rate", "severity"),
    [
        (3, "1e-5 9e-6 8e-6", "warning"),
        (2, "1e-5 9e-6", None),
        (3, "1e-6 2e-6 3e-6", None),  # it still warms up
        (3, "1e-5x3", None),
        (40, "1e-5x40", "error"),
    ],
)
def test_few_rows_prove_it_once_the_rate_falls(rows: int, rate: str, severity: str | None) -> None:
    found = run_check("PRF002", loss=[0.6931] * rows, reward_margin=[0.0] * rows, learning_rate=rate)
    assert (found.severity if found else None) == severity


def test_margins_that_have_moved_are_not_proof() -> None:
    columns: dict[str, Any] = {"loss": "0.6931x3", "learning_rate": "1e-5 9e-6 8e-6"}
    assert run_check("PRF002", reward_margin="0 0.0001 0", **columns) is None


def test_log_probabilities_of_exactly_0_are_those_of_no_token() -> None:
    finding = find("PRF002", loss="0.6931x60", reward_margin="0.001x60", chosen_logp="0x60")
    assert finding.severity == "error"
    assert finding.message == (
        "The policy does not learn the preference pairs: the log-probability of the chosen responses is 0 in all 60 "
        "rows: no token is scored."
    )


def test_an_accuracy_that_stays_where_it_was() -> None:
    rng = np.random.default_rng(0)
    flat = (0.5 + rng.normal(0, 0.03, 200)).tolist()
    finding = find("PRF002", loss=(1.3 + rng.normal(0, 0.01, 200)).tolist(), success_rate=flat)
    assert finding.severity == "warning"
    rises = (np.linspace(0.5, 0.7, 200) + rng.normal(0, 0.03, 200)).tolist()
    assert run_check("PRF002", loss="1.3x200", success_rate=rises) is None


@pytest.mark.parametrize(
    ("rows", "level", "margin", "fires"),
    [
        (39, LN2, 0.001, False),
        (40, LN2, 0.001, True),
        (40, LN2 - 0.0101, math.nan, False),
        (40, LN2 - 0.0099, math.nan, True),
        (40, 0.5, 0.001, True),  # another method, whose loss begins elsewhere
        (40, LN2, 0.0201, False),
        (40, LN2, 0.0199, True),
    ],
)
def test_exactly_at_a_threshold(rows: int, level: float, margin: float, fires: bool) -> None:
    found = run_check("PRF002", loss=[level] * rows, reward_margin=[margin] * rows, learning_rate=[5e-7] * rows)
    assert (found is not None) is fires


@pytest.mark.parametrize(
    ("untouched", "columns", "fires"),
    [
        (LN2 - 0.5, {"loss": "0.5x40"}, False),
        (LN2 - 0.49, {"loss": "0.5x40"}, True),
        (0.25, {"loss": [LN2] * 40, "reward_margin": "0.5x40"}, True),
        (0.24, {"loss": [LN2] * 40, "reward_margin": "0.5x40"}, False),
    ],
)
def test_exactly_as_far_as_what_is_untouched(untouched: float, columns: dict[str, Any], fires: bool) -> None:
    found = run_check("PRF002", thresholds={"untouched": untouched}, learning_rate=[5e-7] * 40, **columns)
    assert (found is not None) is fires


@pytest.mark.parametrize(("margin", "fires"), [("0x11 ?x28 0", True), ("0x10 ?x29 0", False)])
def test_not_before_the_twelfth_row_with_a_value(margin: str, fires: bool) -> None:
    assert (run_check("PRF002", reward_margin=margin) is not None) is fires


@pytest.mark.parametrize(("accuracy", "fires"), [(0.5, True), (0.85, False)])
def test_pairs_ranked_better_than_by_guessing_are_learned(accuracy: float, fires: bool) -> None:
    near = [accuracy + 0.01 * (n % 2) for n in range(40)]
    found = run_check("PRF002", loss=[LN2] * 40, reward_margin="0.001x40", success_rate=near, learning_rate="5e-7x40")
    assert (found is not None) is fires


@pytest.mark.parametrize(("times", "fires"), [(1, False), (1.01, True)])
def test_a_noise_that_leaves_room_for_exactly_such_a_gain(times: float, fires: bool) -> None:
    """Half of the range is still available; the same series as a reward shows how large a gain its noise hides."""
    hidden = find("STL001", reward_mean="0.5x40").evidence["shown"]
    found = run_check("PRF002", thresholds={"headroom_share": 2 * hidden * times}, success_rate="0.5x40")
    assert (found is not None) is fires


@pytest.mark.parametrize(("rows", "fires"), [(150, False), (151, True)])
def test_without_a_learning_rate_a_warm_up_is_waited_for(rows: int, fires: bool) -> None:
    assert (run_check("PRF002", loss=[LN2] * rows) is not None) is fires


def test_a_warm_up_is_not_a_stall() -> None:
    rising = [1e-9 * n for n in range(60)]
    assert run_check("PRF002", loss="0.693x60", learning_rate=rising) is None


def test_a_loss_that_falls_slowly_learns() -> None:
    loss = [LN2 - 0.0001 * n for n in range(80)]
    assert run_check("PRF002", loss=loss, learning_rate=[5e-7] * 80) is None


@pytest.mark.parametrize(("margin", "fires"), [(-0.011, True), (-0.01, False)])
def test_a_falling_loss_of_negative_margins_is_not_learning(margin: float, fires: bool) -> None:
    """A public run: the loss fell from 0.73 to 0.71, its margin was below 0, and its accuracy was 0.4."""
    loss = [0.74 - 0.0005 * n for n in range(60)]
    found = run_check("PRF002", loss=loss, reward_margin=[margin] * 60, success_rate="0.4 0.39x59", learning_rate=RATE)
    assert (found is not None) is fires
