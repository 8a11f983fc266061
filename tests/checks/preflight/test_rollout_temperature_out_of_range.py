import pytest

from tests.preflight.as_judged import find, run_check


@pytest.mark.parametrize(
    ("temperature", "severity"),
    [
        ("0.6x9", None),
        ("0.59x9", "info"),
        ("0.4x9", "info"),
        ("0.39x9", "warning"),
        ("1.5x9", None),
        ("1.51x9", "warning"),
        ("0.6x5 0.5x9", "info"),
        ("0.6x5 0.49x9", "error"),
        ("0.3 0.25x9", "warning"),  # as cold from the start, but for 0.05
        ("0.3 0.24x9", "error"),
    ],
)
def test_levels(temperature: str, severity: str | None) -> None:
    found = run_check("CFG004", temperature=temperature)
    assert (found and found.severity) == severity


def test_its_message() -> None:
    assert find("CFG004", temperature="0.30 0.2 0.16").message == (
        "Rollouts are sampled at temperature 0.16 (initially 0.3)."
    )
    assert find("CFG004", temperature="0.0001x9").message == "Rollouts are sampled at temperature 0.0001."


@pytest.mark.parametrize(
    ("temperature", "grouped", "severity"),
    [("0x9", 1, None), ("0x9", 0, "warning"), ("0x9", None, "warning"), ("0.1x9", 1, "warning")],
)
def test_greedy_rollouts_of_groups_are_recognised_by_another_check(
    temperature: str, grouped: int | None, severity: str | None
) -> None:
    found = run_check("CFG004", {"group_baseline": grouped}, temperature=temperature)
    assert (found and found.severity) == severity


@pytest.mark.parametrize(("actions", "severity"), [(1, "info"), (None, "warning")])
def test_models_with_action_tokens_are_sampled_at_high_temperature(actions: int | None, severity: str) -> None:
    found = run_check("CFG004", {"of_actions": actions, "framework": "verl"}, temperature="1.6x9")
    assert found is not None
    assert found.severity == severity
