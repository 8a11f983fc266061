import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import run_check


def row(step: int, tie: bool, words: int) -> list[Sample]:
    lengths = [words, 2 * words, 3 * words, 4 * words]
    rewards = [0.1, 0.2, 0.3, 0.4] if tie else [0.3, 0.1, 0.4, 0.2]
    return [Sample(step=step, response="word " * n, reward=r) for n, r in zip(lengths, rewards, strict=True)]


def found(steps: int, tie: bool, last: int) -> tuple[str, str] | None:
    samples = {n: row(n, tie, 20 if n <= steps // 2 else last) for n in range(1, steps + 1)}
    got = run_check("REW019", samples=samples, reward_mean=[0.25] * steps)
    return (got.severity, got.message) if got else None


def test_the_correlation_and_the_growth_are_reported() -> None:
    assert found(40, True, 40) == (
        "warning",
        "Longer responses score higher. The correlation of reward and length within a step is 1.00, and the mean "
        "length grew from 250 to 500 characters.",
    )


@pytest.mark.parametrize(
    ("steps", "tie", "last", "severity"),
    [
        (40, True, 29, "info"),
        (40, True, 30, "warning"),
        (9, True, 40, None),
        (10, True, 20, "info"),
        (40, False, 40, None),
    ],
)
def test_boundary(steps: int, tie: bool, last: int, severity: str | None) -> None:
    got = found(steps, tie, last)
    assert (got[0] if got else None) == severity
