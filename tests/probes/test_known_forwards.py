"""Forward passes run once under a probe, unless their result may differ; engines sample as requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import ScriptedSampler, run_probes
from grpo_doctor.probes.intercept import watched
from grpo_doctor.probes.known_forwards import KnownForwards
from tests.probes.reference import Reference, make_model, make_tokenizer

IDS = torch.tensor([[5, 6, 7, 8]])


class Counted:
    """A model whose forward passes are counted, inside `KnownForwards`."""

    def __init__(self) -> None:
        self.model, self.made = make_model(make_tokenizer()), 0
        self.model.lm_head.register_forward_hook(self._count)

    def _count(self, *ignored: Any) -> None:
        self.made += 1

    def logits(self, **more: Any) -> Any:
        with watched(self.model) as seen:
            output = self.model(input_ids=IDS, **more)
            torch.autograd.backward(output.loss if "labels" in more else output.logits.square().sum())
        return seen[0].logits


@pytest.fixture
def counted() -> Iterator[Counted]:
    made = Counted()
    with KnownForwards([made.model]).used():
        yield made


def test_an_equal_forward_is_made_once_and_its_gradient_ends_at_the_logits(counted: Counted) -> None:
    one, other = counted.logits(), counted.logits()
    assert counted.made == 1
    assert torch.equal(one, other)
    assert torch.equal(one.grad, other.grad)
    assert bool(one.grad.any())
    assert not any(bool(p.grad.any()) for p in counted.model.parameters())


@pytest.mark.parametrize("change", [lambda p: p.data.add_(1.0), lambda p: torch.nn.init.zeros_(p)])
def test_other_weights_are_another_forward(counted: Counted, change: Any) -> None:
    counted.logits()
    change(counted.model.lm_head.weight)
    counted.logits()
    assert counted.made == 2


def test_a_forward_that_draws_is_made_each_time(counted: Counted) -> None:
    counted.model.train()
    counted.model.model.layers[0].self_attn.attention_dropout = 0.5
    assert not torch.equal(counted.logits(), counted.logits())


def test_a_loss_inside_the_forward_keeps_its_gradient(counted: Counted) -> None:
    assert bool(counted.logits(labels=IDS).grad.any())


class Engine(Reference):
    """Samples with an engine that has its own temperature."""

    asked = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.llm = ScriptedSampler(self.tok, self.model)

    def rollout(self, prompts: Any) -> Any:
        requests = self.llm.chat([list(p) for p in prompts], {"temperature": self.asked, "n": 1})
        return [request.outputs[0].token_ids for request in requests]


def test_compares_the_temperature_of_the_engine_with_that_of_the_loss() -> None:
    class Hot(Engine):
        asked = 0.6

    only = load().select(["GEN004"])
    assert run_probes(Engine().adapter("rollout", "loss"), catalogue=only).coverage.passed_codes == ["GEN004"]
    found = run_probes(Hot().adapter("rollout", "loss"), catalogue=only).finding("GEN004")
    assert found is not None
    assert found.severity == "error"
