from typing import Any

from grpo_doctor.testing import run_check

FLAT = "0.3 0.31 0.29 0.3 "


def test_boundary_and_message() -> None:
    assert run_check("ENT002", entropy_mean="1.0x5 0.3x34", reward_mean=FLAT * 9 + "0.3x3") is None
    found = run_check("ENT002", entropy_mean="1.0x5 0.3x35", reward_mean=FLAT * 10)
    assert found is not None
    assert (found.onset_step, found.detected_step) == (36, 40)
    assert found.message == "Entropy fell by 70% (from 1 to 0.3 nats), and the reward has not increased."
    assert run_check("ENT002", entropy_mean="1.0x5 0.301x35", reward_mean=FLAT * 10) is None


def test_an_entropy_fall_with_a_reward_gain_or_a_solved_task_is_not_flagged() -> None:
    rise = " ".join(str(round(0.1 + 0.015 * i + 0.02 * (i % 2), 3)) for i in range(44))
    assert run_check("ENT002", entropy_mean="1.0x5 0.1x39", reward_mean=rise) is None
    assert run_check("ENT002", entropy_mean="1.0x5 0.1x39", reward_mean="0.95 0.96 " * 22) is None
    assert run_check("ENT002", entropy_mean="1.0x5 0x39", reward_mean=FLAT * 11, truncated_rate="0x5 1x39") is None


def test_exactly_at_the_threshold() -> None:
    columns: dict[str, Any] = {"entropy_mean": "1.0x5 0.25x35", "reward_mean": FLAT * 10}
    assert run_check("ENT002", thresholds={"gone": 0.75}, **columns) is not None
    assert run_check("ENT002", thresholds={"gone": 0.76}, **columns) is None


def test_an_entropy_of_zero_is_spent_and_one_below_is_not_a_measurement() -> None:
    assert run_check("ENT002", entropy_mean="1.0x5 0x35", reward_mean=FLAT * 10) is not None
    assert run_check("ENT002", entropy_mean="1.0x5 -0.1x35", reward_mean=FLAT * 10) is None


def test_an_entropy_of_zero_from_the_first_row_on_is_not_computed() -> None:
    assert run_check("ENT002", entropy_mean="0x40", reward_mean=FLAT * 10) is None
