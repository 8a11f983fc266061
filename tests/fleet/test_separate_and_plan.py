"""The statistics of a fleet: which settings separate, Holm's correction, how many seeds a gain needs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from grpo_doctor.fleet.merge import MergedFleet
from grpo_doctor.fleet.planning import plan, power, seeds_needed
from grpo_doctor.fleet.separating_settings import Tried, holm, separate
from grpo_doctor.fleet.unit import Level, Line
from tests.fleet.sweeps import PLANTED, drawn_lines

pytest.importorskip("duckdb", reason="duckdb is not installed; it is in the extra fleet")
pytest.importorskip("scipy", reason="scipy is not installed; it is in the extra fleet")


def tried(lines: list[Line]) -> Tried:
    from grpo_doctor.fleet.store import Store

    store = Store()
    store.fill(MergedFleet(lines, []))
    return separate(store, "reward_mean")


def test_names_the_deciding_setting_first() -> None:
    found = [tried(drawn_lines(250, np.random.default_rng(draw))).effects for draw in range(4)]
    assert [len(effects) for effects in found] == [10] * 4
    assert [effects[0].setting for effects in found] == [PLANTED] * 4
    named = [[effect.setting for effect in effects if effect.separates] for effects in found]
    assert sum(settings != [PLANTED] for settings in named) <= 1


def test_no_setting_is_named_without_an_effect() -> None:
    rng = np.random.default_rng(5)
    lines = drawn_lines(200, rng)
    for line in lines:
        line.verdict = "failing" if rng.random() < 0.4 else "healthy"
    assert [effect.setting for effect in tried(lines).effects if effect.separates] == []


def line(verdict: str, reward: float = 0.5, **settings: Any) -> Line:
    level = Level(reward, reward, 0.02, 25)
    return Line(source=repr(settings), verdict=verdict, headline="", unit="u", run_type="rl", steps=100, first_step=1,
                last_step=100, onset_step=9, settings=settings, levels={"reward_mean": level})  # fmt: skip


def test_two_settings_that_change_together_are_not_distinguished() -> None:
    lines = [line("failing" if high else "healthy", lr="high" if high else "low", batch=8 if high else 64, seed=s)
             for s in range(12) for high in (True, False)]  # fmt: skip
    (first, second) = tried(lines).effects
    assert (first.separates, first.with_, second.with_) == (True, ["lr"], ["batch"])
    assert first.p == pytest.approx(2 / math.comb(24, 12))


def test_a_dependent_setting_has_no_further_effect() -> None:
    rng = np.random.default_rng(2)
    lines = []
    for _ in range(300):
        high = rng.random() < 0.5
        batch = 8 if rng.random() < (0.85 if high else 0.15) else 64
        lines.append(line("failing" if rng.random() < (0.9 if high else 0.1) else "healthy", lr=int(high), batch=batch))
    first, second = tried(lines).effects
    assert (first.setting, second.setting, second.separates) == ("lr", "batch", True)
    assert second.beyond is not None
    assert second.beyond > 0.05


def test_a_setting_that_cannot_be_tested_names_the_reason() -> None:
    lines = [
        line("failing" if n % 2 else "healthy", name=f"run-{n}", seed=n, few=n if n < 3 else None) for n in range(20)
    ]
    for one in lines:
        one.settings = {k: v for k, v in one.settings.items() if v is not None}
    assert tried(lines).untried == {
        "name": "20 different values, too many to compare",
        "seed": "a random seed",
        "few": "declared by only 3 runs (minimum 6)",
    }
    assert tried([line("failing", lr=n % 2) for n in range(8)]).untried == {"lr": "all runs with it fail"}


def test_holm_is_the_step_down_correction() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


# -- planning ----------------------------------------------------------------------------------------------------


def test_seeds_agree_with_the_tables_of_power() -> None:
    """Cohen 1988, table 2.4.1: two-sided 0.05, power 0.8: d = 0.5 needs 64 of each, 0.8 needs 26, 1.0 needs 17."""
    assert [seeds_needed(1.0, d) for d in (0.5, 0.8, 1.0)] == [64, 26, 17]
    assert power(64, 1.0, 0.5) == pytest.approx(0.801, abs=0.002)
    assert seeds_needed(1.0, 0.001) is None
    assert seeds_needed(0.0, 0.1) == 2


def test_the_plan_measures_the_spread_of_seeds_and_not_of_settings() -> None:
    rng = np.random.default_rng(0)
    lines = [line("healthy", 0.5 + 0.1 * rate + 0.03 * float(rng.standard_normal()), lr=rate, seed=seed)
             for rate in range(8) for seed in range(6)]  # fmt: skip
    made = plan([*lines, line("failing", 0.0, lr=0, seed=9)], "reward_mean", 0.05)
    assert (made.settings, made.runs) == (8, 48)
    assert made.choices[0].spread == pytest.approx(0.03, rel=0.2)
    assert made.choices[0].seeds is not None
    assert 5 <= made.choices[0].seeds <= 9
    assert made.choices[0].cautious is not None
    assert made.choices[0].cautious >= made.choices[0].seeds
    assert made.choices[0].steps == 25
    assert [choice.spread for choice in made.choices] == sorted((c.spread for c in made.choices), reverse=True)
    assert made.words[-1] == "2% of the runs fail: start 2% more runs than the plan needs."


@pytest.mark.parametrize(("failing", "more"), [(24, 50), (48, 100)])
def test_the_plan_replaces_the_runs_that_fail(failing: int, more: int) -> None:
    """With 1.5 times as many runs, of which a third fail, the planned number remains."""
    rng = np.random.default_rng(0)
    lines = [line("healthy", 0.5 + 0.03 * float(rng.standard_normal()), lr=rate, seed=seed)
             for rate in range(8) for seed in range(6)]  # fmt: skip
    made = plan([*lines, *(line("failing", 0.0, lr=0, seed=9 + n) for n in range(failing))], "reward_mean", 0.05)
    assert made.words[-1].endswith(f"of the runs fail: start {more}% more runs than the plan needs.")


def test_without_two_seeds_of_a_setting_no_number_is_made_up() -> None:
    made = plan([line("healthy", lr=rate, seed=0) for rate in range(5)], "reward_mean", 0.05)
    assert made.choices == []
    assert "the number of seeds cannot be computed" in made.words[0]
    assert made.words[1].startswith("Step noise alone requires the following")
