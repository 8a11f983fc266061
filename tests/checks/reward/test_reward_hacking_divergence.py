from typing import Any

import numpy as np
import pytest

from grpo_doctor.testing import find, run_check

UP = [0.2 + 0.02 * i + 0.01 * (i % 2) for i in range(30)]
DOWN = [0.8 - 0.02 * i + 0.01 * (i % 2) for i in range(30)]
LONG = [0.2 + 0.02 * i + 0.01 * (i % 2) for i in range(40)]
FLAT = [0.30 + 0.01 * (i % 2) for i in range(30)]
SECOND = "0.5x10 0.4x10 0.2x10 0.05x10"


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("eval_score", "the held-out score"),
        ("success_rate", "the success rate"),
        ("valid_rate", "the share of valid responses"),
    ],
)
def test_a_second_metric_that_falls_is_an_error(metric: str, name: str) -> None:
    columns: dict[str, Any] = {metric: DOWN}
    found = find("REW002", reward_mean=UP, **columns)
    assert found.severity == "error"
    assert found.message == (
        f"The reward rose from 0.223 to 0.726, but {name} fell from 0.744 to 0.266. The policy may be exploiting the "
        "reward function."
    )


def test_one_that_has_lost_less_is_a_warning_since_its_own_best() -> None:
    found = find("REW002", reward_mean=LONG, eval_score="0.5x10 0.9x10 0.7x20")
    assert (found.severity, found.onset_step) == ("warning", 20)


def test_a_metric_that_stays_at_0_is_a_warning() -> None:
    found = find("REW002", reward_mean=LONG, eval_score="0.05x40")
    assert found.severity == "warning"
    assert "but the held-out score stays near 0" in found.message
    assert run_check("REW002", reward_mean=LONG, eval_score="0.051x40") is None


def test_without_a_second_metric_hacking_cannot_be_excluded() -> None:
    assert run_check("REW002", reward_mean=UP[:19]) is None
    found = find("REW002", reward_mean=UP[:20])
    assert found.severity == "info"
    assert found.message.endswith("no other metric is recorded. Reward hacking cannot be ruled out.")


def test_the_reward_itself_is_not_a_second_metric() -> None:
    assert find("REW002", reward_mean=UP, success_rate=UP).severity == "info"
    assert find("REW002", reward_mean=[0.0, *LONG[1:]], success_rate=[1e-9, *LONG[1:]]).severity == "info"


def test_a_rise_in_noise_counts_and_noise_at_the_top_does_not_end_it() -> None:
    rng = np.random.default_rng(0)
    noisy = np.linspace(0.3, 0.6, 120) + rng.normal(0, 0.12, 120)
    found = find("REW002", reward_mean=noisy.tolist(), eval_score=[0.5] * 60 + [0.02] * 60)
    assert (found.severity, found.cleared) == ("error", False)


def test_rewards_below_0_may_rise() -> None:
    assert find("REW002", reward_mean=[u - 5 for u in UP], eval_score=DOWN).severity == "error"


def test_a_drift_within_the_noise_of_both_is_not_hacking() -> None:
    """Autocorrelated noise that drifts apart by chance: noise explains both the rise and the fall."""
    fired = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        draws = rng.standard_normal((2, 60))
        for row in range(1, 60):
            draws[:, row] += 0.3 * draws[:, row - 1]
        reward, score = 0.5 + 0.05 * draws
        found = run_check("REW002", reward_mean=reward.tolist(), eval_score=score.tolist())
        fired += found is not None and found.severity != "info"
    assert fired == 0


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"reward_mean": UP, "eval_score": FLAT}, id="level"),
        pytest.param({"reward_mean": UP, "valid_rate": [0.5 + u / 2 for u in UP]}, id="rises too"),
        pytest.param({"reward_mean": FLAT, "eval_score": DOWN}, id="the reward does not rise"),
        pytest.param({"reward_mean": "1x20 11x40 5x20", "eval_score": "0x80"}, id="the reward has fallen again"),
        pytest.param({"reward_mean": LONG, "eval_score": "0.5 ?x39"}, id="one held-out score"),
    ],
)
def test_silent_at_the_end(columns: dict[str, Any]) -> None:
    found = run_check("REW002", **columns)
    assert found is None or found.cleared


@pytest.mark.parametrize(("size", "severity"), [(0.1, None), (1.0, "warning")])
def test_a_reward_that_barely_rose_need_not_show_in_the_metric(size: float, severity: str | None) -> None:
    found = run_check("REW002", reward_mean=[size * (u - 0.2) for u in LONG], eval_score="0.01x40")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("floor", "found"), [(0.25, False), (0.24, True)])
def test_a_reward_that_rose_by_twice_the_floor_is_not_far_above_nothing(floor: float, found: bool) -> None:
    columns: dict[str, Any] = {"reward_mean": "0.25x5 0.75x25", "eval_score": "0x30"}
    assert (run_check("REW002", None, thresholds={"floor": floor}, **columns) is not None) is found


@pytest.mark.parametrize(
    ("parts", "known"),
    [
        pytest.param([{"answer": u, "form": 0.0} for u in LONG], False, id="may be part of the sum"),
        pytest.param([{"answer": u, "form": 0.1} for u in LONG], True, id="the answer alone is the reward"),
        pytest.param([{"answer": u / 2, "form": u / 2} for u in LONG], False, id="every component is rewarded"),
        pytest.param([{"answer": u} for u in LONG], False, id="there is one"),
    ],
)
def test_a_component_next_to_the_reward_is_a_metric_outside_it(parts: list[dict[str, float]], known: bool) -> None:
    assert (run_check("REW002", reward_mean=LONG, reward_components=parts) is None) is known


@pytest.mark.parametrize(("off", "known"), [(1e-6, True), (1.1e-6, False)])
def test_a_component_a_millionth_from_the_reward_is_the_reward(off: float, known: bool) -> None:
    parts = [{"g": off, "f": 0.1}] * 20 + [{"g": 0.5, "f": 0.1}] * 20
    assert (run_check("REW002", reward_mean="0x20 1x20", reward_components=parts) is None) is known


@pytest.mark.parametrize(
    ("scores", "cleared"),
    [
        ("0.3 ?x9 0.4 ?x9 0.5 ?x9 0.6 ?x9", False),  # four scores are no level yet
        ("0.3 ?x7 0.4 ?x7 0.5 ?x7 0.6 ?x7 0.65 ?x7", True),
        ("0.6x25 0.1x15", False),
    ],
)
def test_a_stable_held_out_score_rules_out_overfitting(scores: str, cleared: bool) -> None:
    found = run_check("REW002", reward_mean=LONG, success_rate=SECOND, eval_score=scores)
    assert (found is None or found.cleared) is cleared


def test_it_sends_no_run_back_to_a_checkpoint() -> None:
    assert [remedy.id for remedy in find("REW002", reward_mean=LONG).remedies] == ["hold-out-metric"]
