"""The task with tools: what its tools return, who wrote which token, and the effect of each fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from grpo_doctor.config import ConfigError
from grpo_doctor.engine.engine import Engine, call_of
from grpo_doctor.engine.faults import faulty_engine
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import WorkflowTask
from grpo_doctor.engine.tiny import COURSES, make_model, make_tokenizer
from grpo_doctor.engine.tools import REFUSED, ToolTask, demonstration, make_example, places, price
from grpo_doctor.engine.trainer import Trainer
from grpo_doctor.probes import engine_adapter
from grpo_doctor.rollouts import rollouts_of

from .conftest import BATCH, SMALL

Make = Callable[..., Engine]
WORDS = "<search> tin 3 </search> <observation> 14 </observation> <answer> 14 </answer>".split()


@pytest.fixture
def make_engine() -> Make:
    """``make_engine("fault", setting=value)``: an engine with random weights on the task with tools."""

    def make(*faults: str, **changes: Any) -> Engine:
        torch.set_num_threads(1)
        kind, of_fault = faulty_engine(faults)
        model: Any = make_model(seed=3, **{**SMALL, "num_key_value_heads": 2, "initializer_range": 0.3})
        settings = settings_of({**of_fault, **BATCH, "max_completion_length": 24, **changes}, "test")
        return kind(settings, model.train(False), make_tokenizer(COURSES["tools"].words), ToolTask(32))

    return make


def scripted(engine: Engine, text: str) -> None:
    """Make the policy write a text, whatever its prompt, and then stop."""
    ids = [*engine.tokenizer.convert_tokens_to_ids(text.split()), engine.eos[0]]
    penalize = engine.penalize

    def write(tokens: torch.Tensor, logits: torch.Tensor, prompt_length: int) -> torch.Tensor:
        said = [sum(engine.written(row)) for row in tokens[:, prompt_length:].tolist()]
        wanted = torch.tensor([ids[min(n, len(ids) - 1)] for n in said])
        return penalize(tokens, torch.full_like(logits, -50.0).scatter_(1, wanted[:, None], 50.0), prompt_length)

    engine.penalize = write  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("search tin 3", [str(price("tin", 3))]),
        ("search tin 11", REFUSED),  # no such shop
        ("search tin", REFUSED),
        ("python 7 plus 5", ["12"]),
        ("python 7 5", REFUSED),
        ("python", REFUSED),
    ],
)
def test_a_tool_answers_a_call_and_refuses_one_that_lacks_an_argument(call: str, answer: list[str]) -> None:
    assert ToolTask(0).reply(call.split()) == answer


def test_a_tool_result_ends_with_its_last_word() -> None:
    assert places(WORDS) == [0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0]
    assert places(WORDS[:4])[-1] == 1
    assert places(WORDS[:6])[-1] == 3
    assert call_of(WORDS[:4]) == ["search", "tin", "3"]
    assert call_of(["</python>"]) == ["python"]


def test_demonstrations_without_a_mistake_are_right() -> None:
    rng, task = random.Random(0), ToolTask(0)
    for _ in range(50):
        example = make_example(rng)
        text = " ".join(demonstration(rng, example, careful=1.0, direct=0.0))
        assert task.score([example] * 2, [text, text], [True, False])[0].reward == 1.0
        assert task.score([example], [text], [False])[0].reward == 0.0


def test_a_tool_result_in_the_response_is_not_trained(make_engine: Make) -> None:
    engine = make_engine()
    scripted(engine, "<search> tin 3 </search> <answer> 14 </answer>")
    record, samples = Trainer(engine).step()
    (row,) = rollouts_of({"prompt": "p", "response": " ".join(WORDS).replace("14", str(price("tin", 3)), 1)})
    assert row.calls is not None and samples[0].calls is not None  # noqa: PT018
    assert samples[0].calls[0] == row.calls[0]
    assert (samples[0].finish, samples[0].response) == ("stop", row.response)
    assert (record.tool_calls_per_response, record.tool_failure_rate, record.truncated_rate) == (1.0, 0.0, 0.0)
    assert (record.prompt_tokens_in_mask, record.response_tokens_outside_mask) == (0, 0)
    assert record.rollout_mismatch_kl is not None


def test_a_response_without_a_call_has_no_calls_and_not_unknown_ones(make_engine: Make) -> None:
    engine = make_engine()
    scripted(engine, "<answer> 14 </answer>")
    assert Trainer(engine).step()[0].tool_calls_per_response == 0


@pytest.mark.parametrize(
    ("fault", "field", "value"),
    [
        ("tool-arguments-dropped", "tool_failure_rate", 1.0),
        ("timeouts-scored-zero", "reward_min", 0.0),
        ("observations-in-loss", "prompt_tokens_in_mask", 8 * 3),
        ("calls-stop-paying", "reward_max", 0.0),
        ("long-answers-missed", "right_unrewarded_rate", 1.0),
    ],
)
def test_records_show_the_fault(make_engine: Make, fault: str, field: str, value: float) -> None:
    found = {}
    for faults in ((), (fault,)):
        engine = make_engine(*faults, max_steps=1)
        for example in engine.task.examples:
            example.columns["answer"] = "14"
        scripted(engine, "<search> tin 3 </search> <answer> 14 </answer>")
        found[faults] = getattr(Trainer(engine).step()[0], field)
    assert found[(fault,)] == value
    assert found[()] != value


def test_a_sampler_that_repeats_prefers_what_followed_before(make_engine: Make) -> None:
    tokens = torch.tensor([[7, 8, 9, 8]])
    logits = make_engine("loop-prone-sampler").penalize(tokens, torch.zeros(1, 96), 0)
    assert int(logits.argmax()) == 9
    assert not make_engine().penalize(tokens, torch.zeros(1, 96), 0).any()


def test_a_probed_sampler_has_no_answers_of_tools(make_engine: Make) -> None:
    engine = make_engine()
    tokens = torch.tensor([engine.tokenizer.convert_tokens_to_ids(WORDS[:4])])
    assert engine.next_logits(tokens, torch.zeros(1, 96), 0).isinf().sum() == 95
    engine_adapter(engine, [])
    assert not engine.next_logits(tokens, torch.zeros(1, 96), 0).isinf().any()


def test_a_model_without_the_words_of_the_calls_is_refused() -> None:
    model: Any = make_model(seed=3, **{**SMALL, "num_key_value_heads": 2})
    with pytest.raises(ConfigError, match="--task tools: choose --model embedded"):
        Engine(settings_of(BATCH, "test"), model, make_tokenizer(), ToolTask(2))


def test_every_token_of_a_task_without_tools_is_the_policys() -> None:
    model: Any = make_model(seed=3, **{**SMALL, "num_key_value_heads": 2})
    engine = Engine(settings_of(BATCH, "test"), model, make_tokenizer(), WorkflowTask(2))
    assert engine.written([4, 5, 6]) == [True] * 3
