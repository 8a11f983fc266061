from collections.abc import Callable
from typing import Any

import pytest

from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.trainer import Trainer
from grpo_doctor.run import run_of
from tests.compare.pairs import compared, reward, run
from tests.engine.conftest import make_engine

__all__ = ["make_engine"]


def found(before: dict[str, Any], after: dict[str, Any], **other: Any) -> list[tuple[str, str]]:
    columns: dict[str, Any] = {"reward_mean": reward(0), "advantage_std": reward(1), "kl": reward(2)}
    told = compared(run(before, **columns), run(after, **(columns | other)))
    return [(f.severity, f.message) for f in told.findings if f.code == "REC003"]


def test_every_metric_equal_is_an_error() -> None:
    ((severity, message),) = found({"beta": 0.1}, {"beta": 0.12})
    assert severity == "error"
    assert message == (
        "All 3 metrics that vary are identical to the last digit at all 60 shared steps, although a setting changed: "
        "kl_coef 0.1 → 0.12. The setting has no effect, or nothing is trained."
    )


def test_metrics_of_the_responses_alone_are_a_warning() -> None:
    ((severity, message),) = found({"beta": 0.1}, {"beta": 0.12}, kl=reward(3))
    assert severity == "warning"
    assert message.startswith("advantage_std, reward_mean are identical to the last digit at all 60 shared steps")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({"beta": 0.1}, {"beta": 0.1}),
        ({"beta": 0.1}, {}),
        ({"max_steps": 60, "save_steps": 5, "run_name": "a"}, {"max_steps": 90, "save_steps": 9, "run_name": "b"}),
    ],
)
def test_silent_where_nothing_was_changed_that_acts(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert found(before, after) == []


def test_silent_where_the_runs_go_apart() -> None:
    other = {name: [*reward(seed)[:59], 0.0] for seed, name in enumerate(("reward_mean", "advantage_std", "kl"))}
    assert found({"beta": 0.1}, {"beta": 0.2}, **other) == []


def test_two_steps_are_a_chance() -> None:
    one, other = (run({"beta": b}, reward_mean=[0.1, 0.2], kl=[1.0, 2.0]) for b in (0.1, 0.2))
    assert compared(one, other).findings == []


def test_a_learning_rate_that_is_declared_and_not_used(make_engine: Callable[..., Engine]) -> None:
    sides = []
    for rate in (4e-4, 8e-4):
        engine = make_engine(easy=True, learning_rate=4e-4, max_steps=4)
        settings = engine.settings.declared() | {"learning_rate": rate}
        sides.append(run_of([record for record, _ in Trainer(engine).run()], settings=settings))
    told = {f.code: f.severity for f in compared(*sides).findings}
    assert told["REC003"] == "error"


def test_a_learning_rate_that_differs_in_its_last_digits_is_the_same(make_engine: Callable[..., Engine]) -> None:
    sides = []
    for rate in (4e-4, 4e-4 * (1 + 1e-12)):
        engine = make_engine(easy=True, learning_rate=rate, max_steps=4)
        sides.append(run_of([record for record, _ in Trainer(engine).run()], settings=engine.settings.declared()))
    assert "REC003" not in {f.code for f in compared(*sides).findings}
