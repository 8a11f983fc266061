"""Shared rows of two runs: steps, tokens, repeated rows, and logs of different intervals."""

import numpy as np

from grpo_doctor.compare.align import align, timeline
from grpo_doctor.record import StepRecord
from grpo_doctor.run import run_of
from tests.compare.pairs import run


def test_shared_steps_alone_are_compared() -> None:
    found = align([run(reward_mean=range(10))], [run(first=4, reward_mean=range(20))], "reward_mean")
    assert found is not None
    assert found.x.tolist() == [4, 5, 6, 7, 8, 9, 10]
    assert found.difference().tolist() == [-3] * 7


def test_nothing_shared_is_none() -> None:
    assert align([run(reward_mean=range(10))], [run(first=11, reward_mean=range(10))], "reward_mean") is None
    assert align([run(reward_mean=range(10))], [run(loss=range(10))], "reward_mean") is None


def test_a_log_of_every_step_is_averaged_for_one_of_every_fifth() -> None:
    rare = run_of([StepRecord(step=step, reward_mean=1.0) for step in (5, 10, 15)])
    found = align([run(reward_mean=range(1, 16))], [rare], "reward_mean")
    assert found is not None
    assert found.x.tolist() == [5, 10, 15]
    assert found.base.tolist() == [[3, 8, 13]]


def test_the_last_value_of_a_repeated_step_counts() -> None:
    steps = [1, 2, 3, 4, 3, 4, 5]
    resumed = run_of([StepRecord(step=step, reward_mean=float(row)) for row, step in enumerate(steps)])
    assert resumed.steps[timeline(resumed)].tolist() == [1, 2, 3, 4, 5]
    found = align([resumed], [resumed], "reward_mean")
    assert found is not None
    assert found.base.tolist() == [[0, 1, 4, 5, 6]]


def test_runs_are_aligned_by_tokens_where_asked() -> None:
    small = run(reward_mean=np.arange(8), tokens_seen=np.arange(100, 900, 100))
    large = run(reward_mean=np.arange(4), tokens_seen=np.arange(200, 1000, 200))
    found = align([small], [large], "reward_mean", "tokens")
    assert found is not None
    assert found.x.tolist() == [200, 400, 600, 800]
    assert found.base.tolist() == [[0.5, 2.5, 4.5, 6.5]]
    assert align([small], [run(reward_mean=range(4))], "reward_mean", "tokens") is None
