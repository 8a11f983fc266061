from typing import Any

import pytest

from tests.compare.pairs import compared, reward, run


def found(base: dict[str, Any], new: dict[str, Any], gain: float = 0.5, source: str = "run") -> list[str]:
    one = run(base, source=source, reward_mean=reward(0))
    return [f.message for f in compared(one, run(new, reward_mean=reward(1, gain=gain))).findings if f.code == "REW008"]


def test_a_qwen_model_that_gains_wants_a_control() -> None:
    settings = {"model": "Qwen/Qwen2.5-Math-7B"}
    assert found(settings, settings) == [
        "Qwen/Qwen2.5-Math-7B also improves under a random reward: run one control with a random reward to measure "
        "the effect of the actual reward."
    ]


def test_no_better_than_the_control() -> None:
    told = "BASE is a control run (by its name), and NEW is not better beyond noise: the reward may have no effect."
    assert found({"reward_funcs": "random_reward"}, {"reward_funcs": "accuracy"}) == [told]
    assert found({}, {}, source="runs/format-only.jsonl") == [told]


@pytest.mark.parametrize(
    ("base", "new", "gain"),
    [
        ({"model": "meta-llama/Llama-3.1-8B"}, {"model": "meta-llama/Llama-3.1-8B"}, 0.5),
        ({"model": "Qwen/Qwen2.5-Math-7B"}, {"model": "Qwen/Qwen2.5-Math-7B"}, 0.0),
        ({"reward_funcs": "random_reward"}, {"reward_funcs": "accuracy"}, 3.0),
    ],
)
def test_silent(base: dict[str, Any], new: dict[str, Any], gain: float) -> None:
    assert found(base, new, gain) == []
