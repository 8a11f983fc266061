from collections.abc import Sequence

import pytest

from grpo_doctor.series.reward_components import kind
from grpo_doctor.testing import find, run_check, series

RISING = [0.2 + 0.02 * i for i in range(30)]


def parts(**levels: float) -> list[dict[str, float]]:
    return [{name: level * reward for name, level in levels.items()} for reward in RISING]


def beside(level: float) -> list[dict[str, float]]:
    """A component that rises with the reward, and one that alternates between 0 and this level."""
    return [{"compiles": reward, "f": level * (i % 2)} for i, reward in enumerate(RISING)]


def test_a_component_that_stays_at_nothing_while_the_reward_rises() -> None:
    found = find("REW011", reward_mean=RISING, reward_components=beside(0.01))
    assert (found.severity, found.detected_step) == ("warning", 8)
    assert run_check("REW011", reward_mean=RISING[:7], reward_components=beside(0.01)[:7]) is None
    assert found.message == "The reward rose to 0.72, but its component f is almost always at its minimum."


@pytest.mark.parametrize("share", [0.09, 0.11])
def test_a_component_of_a_tenth_of_its_share_of_the_reward_counts(share: float) -> None:
    found = run_check("REW011", reward_mean=RISING, reward_components=beside(share * 0.72 / 2))
    assert (found is not None) == (share < 0.1)


@pytest.mark.parametrize(("share", "fires"), [(0.5, True), (0.49, False)])
def test_a_component_at_the_limit_counts_as_never_rewarded(share: float, fires: bool) -> None:
    stuck = [{"compiles": 1.0, "f": 0.25}] * 30
    found = run_check(
        "REW011", thresholds={"never_paid_share": share}, reward_mean="0.5x10 1x20", reward_components=stuck
    )
    assert (found is not None) is fires


@pytest.mark.parametrize(
    ("rows", "task", "severity"),
    [(19, 0.0, None), (20, 0.0, "info"), (20, 0.1, None), (39, 0.0, "info"), (40, 0.0, "warning")],
)
def test_only_formatting_components_have_been_above_0(rows: int, task: float, severity: str | None) -> None:
    """The name of the task's component means neither formatting nor correctness, as in countdown and Lean trainers."""
    found = run_check(
        "REW011",
        reward_mean=f"0.1x{rows}",
        reward_components=[{"format_reward": 0.1, "equation_reward": 0.0}] * (rows - 1)
        + [{"format_reward": 0.1, "equation_reward": task}],
    )
    told = "The reward is 0.1, and only its formatting components have ever been above 0."
    assert (found and (found.severity, found.message)) == (severity and (severity, told))


def test_a_penalised_wrong_answer_is_not_a_reward() -> None:
    stuck = [{"language": reward + 2, "check_answer": -2.0} for reward in RISING]
    found = find("REW011", reward_mean=RISING, reward_components=stuck)
    told = "The reward rose to 0.72, but its component check_answer is almost always at its minimum."
    assert found.message == told
    rising = [{"language": 1.0, "check_answer": reward - 1} for reward in RISING]
    assert run_check("REW011", reward_mean=RISING, reward_components=rising) is None


@pytest.mark.parametrize(("paid", "fires"), [((4, 11, 17, 33), True), (range(0, 45, 6), False), (range(25, 45), False)])
def test_a_component_that_is_rarely_rewarded_counts_as_stuck(paid: Sequence[int], fires: bool) -> None:
    """At its minimum on 85% of the rows; a component above it on a sixth of the rows, or recently, does not count as
    stuck."""
    rising = [0.2 + 0.02 * i for i in range(45)]
    rows = [{"layout": reward, "correct": float(i in paid)} for i, reward in enumerate(rising)]
    found = run_check("REW011", reward_mean=rising, reward_components=rows)
    assert (found is not None and not found.cleared) is fires


@pytest.mark.parametrize("name", ["soft_format_reward", "repetition_penalty", "int_reward_func", "length"])
def test_formatting_and_penalties_are_ignored(name: str) -> None:
    assert run_check("REW011", reward_mean=RISING, reward_components=parts(correctness=1.0, **{name: 0.0})) is None


@pytest.mark.parametrize(
    ("name", "levels", "fires"),
    [
        ("distance", (-0.02, -0.03), False),
        ("distance", (-0.03, -0.03), True),
        ("distance", (-0.03, 0.0), True),
        ("correctness", (-0.02, -0.03), True),
    ],
)
def test_a_component_below_0_on_every_row_is_a_cost(name: str, levels: tuple[float, float], fires: bool) -> None:
    rows = [{"landing": reward, name: levels[i % 2]} for i, reward in enumerate(RISING)]
    assert (run_check("REW011", reward_mean=RISING, reward_components=rows) is not None) is fires


@pytest.mark.parametrize(
    ("part", "fires"),
    [
        ("rises", False),  # on a small scale it has gained too
        ("0.02 0.06x29", False),  # at the ceiling of a small scale
        ("-0.05x3 0x27", False),  # a penalty at its best
        ("0x27 -0.03x3", True),
        ("0x30", False),  # never expected, or always 0: the name does not show which
    ],
)
def test_the_top_of_its_own_range_is_not_a_minimum(part: str, fires: bool) -> None:
    values = [0.05 * reward for reward in RISING] if part == "rises" else series(part)
    rows = [{"landing": reward, "guard": value} for reward, value in zip(RISING, values, strict=True)]
    found = run_check("REW011", reward_mean=RISING, reward_components=rows)
    assert (found is not None and not found.cleared) is fires


def test_a_kl_penalty_is_a_cost() -> None:
    assert [kind(name) for name in ("objective/non_score_reward", "kl_penalty", "KL_reward")] == ["cost"] * 3
    assert [kind(name) for name in ("exactMatch", "xmlcount_reward_func", "guard")] == ["success", "form", ""]


def test_silent_if_the_reward_has_not_risen() -> None:
    assert run_check("REW011", reward_mean="0.3x30", reward_components=[{"a": 0.3, "f": 0.0}] * 30) is None
