import pytest

from grpo_doctor.run import Run
from tests.compare.pairs import compared, run


def collapsing(rate: float, updates: int, after: int, steps: int = 60) -> Run:
    """A run with this many updates, one on every third step; the first ``after`` of them are followed by a collapse."""
    applied = [step % 3 == 0 and step // 3 < updates for step in range(steps)]
    invalid = [1.0 if step % 3 == 1 and step // 3 < after else 0.0 for step in range(steps)]
    return run({"learning_rate": rate}, update_applied=applied, fallback_rate=invalid, reward_mean=[0.1] * steps)


def found(base: Run, new: Run) -> list[str]:
    return [f.message for f in compared(base, new).findings if f.code == "UPD005"]


def test_message() -> None:
    assert found(collapsing(2e-5, 10, 10), collapsing(2e-6, 20, 19)) == [
        "The rollout collapsed after 10 of 10 updates at learning rate 2e-05 and after 19 of 20 at 2e-06. The step "
        "size is not the cause."
    ]


@pytest.mark.parametrize(
    ("base", "new"),
    [
        (collapsing(2e-5, 10, 10), collapsing(4.1e-6, 20, 19)),  # not five times
        (collapsing(2e-5, 20, 20), collapsing(2e-6, 20, 17)),  # less often at the smaller rate
        (collapsing(2e-5, 20, 0), collapsing(2e-6, 20, 0)),  # no collapse
        (collapsing(2e-5, 1, 1), collapsing(2e-6, 20, 20)),  # one update says nothing
    ],
)
def test_silent(base: Run, new: Run) -> None:
    assert found(base, new) == []
