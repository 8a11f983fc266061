from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def severity(normaliser: str | None = None, **columns: Any) -> str | None:
    found = run_check("ADV006", {"normaliser": normaliser} if normaliser else {}, **columns)
    return found.severity if found else None


def test_rewards_as_advantages() -> None:
    found = run_check(
        "ADV006",
        {"normaliser": "group"},
        advantage_mean="0.4x3",
        advantage_std="0.49x3",
        reward_mean="0.4x3",
        reward_std="0.49x3",
    )
    assert found is not None
    assert (found.severity, found.onset_step, found.detected_step) == ("error", 1, 3)
    assert found.message == (
        "The advantages have a mean of 0.4 with a standard deviation of 0.49, the same as the rewards."
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"advantage_mean": "0.94x3", "advantage_std": "0.94x3"}, None),  # a token mean may come so far
        ({"advantage_mean": "1.36x3", "advantage_std": "0.94x3"}, "warning"),
        ({"advantage_mean": "1.36x2", "advantage_std": "0.94x2"}, None),
        ({"advantage_mean": "0.2x3", "advantage_min": "0x3", "advantage_max": "1x3"}, "warning"),
        ({"advantage_mean": "0x3", "advantage_min": "0x3", "advantage_max": "0.01x3"}, None),
        ({"advantage_mean": "0x3", "advantage_min": "-0.01x3", "advantage_max": "0x3"}, None),
        ({"advantage_mean": "0x3", "advantage_min": "0x3", "advantage_max": "0x3"}, None),  # every group is dead
        ({"advantage_mean": "-0.5x3", "advantage_min": "-1x3", "advantage_max": "0x3"}, "warning"),
        ({"advantage_mean": "0.0002x3", "advantage_min": "-1.9x3", "advantage_max": "2.47x3"}, None),
        ({"advantage_mean": "0x3", "advantage_std": "0.4x3", "reward_mean": "0x3", "reward_std": "0.4x3"}, None),
        ({"advantage_mean": "0.4x3", "advantage_std": "0.49x3", "reward_mean": "0.41x3", "reward_std": "0.49x3"}, None),
    ],
)
def test_boundary(columns: dict[str, Any], expected: str | None) -> None:
    assert severity(**columns) == expected


@pytest.mark.parametrize(
    ("advantages", "rewards", "expected"),
    [
        ((0.75, 1), (1, 1), "warning"),  # means that differ by exactly `same`
        ((0.5, 0.75), (0.5, 1), "warning"),  # spreads that do
        ((0.1, 1), (0.1, 1), None),  # a mean of a tenth of the spread: centred or not makes no difference
        ((0.005, 0), (0.005, 0), None),  # rewards that are all equal
    ],
)
def test_how_alike_rewards_and_advantages_must_be(
    advantages: tuple[float, float], rewards: tuple[float, float], expected: str | None
) -> None:
    names = ("advantage_mean", "advantage_std", "reward_mean", "reward_std")
    columns: dict[str, Any] = {name: [x] * 3 for name, x in zip(names, advantages + rewards, strict=True)}
    found = run_check("ADV006", thresholds={"same": 0.25}, **columns)
    assert (found.severity if found else None) == expected


@pytest.mark.parametrize(("group_size", "why"), [(1, "each group has one response"), (2, "all have the same sign")])
def test_a_group_of_one_response_has_no_baseline(group_size: int, why: str) -> None:
    columns = {"advantage_mean": "0.2x3", "advantage_min": "0.1x3", "advantage_max": "0.3x3"}
    assert why in find("ADV006", {"group_size": group_size}, **columns).message
