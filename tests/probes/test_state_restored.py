"""Probes restore everything: every probe on trainers of three styles, compared before and after by separate code."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import Adapter
from grpo_doctor.probes.composite import completed
from grpo_doctor.probes.known_forwards import SAMPLED
from grpo_doctor.probes.runner import examine
from grpo_doctor.probes.state_guard import Snapshot
from tests.probes.reference import ANSWERS, PROMPTS, Reference
from tests.probes.styles import Left, Packed, Turns

PROBES = {code for code, check in load().checks.items() if check.probe is not None}
WITHOUT_SEAMS = {"TOK007", "DAT003", "GEN008", "STL005"}
"""Probes that look at objects and call nothing."""
GRADED = [(prompt, "12", "<answer>12</answer>", "<answer>13</answer>") for prompt in PROMPTS]


def reward(prompts: Any, responses: Any, answers: Any) -> list[float]:
    return [float(r == f"<answer>{a}</answer>") for r, a in zip(responses, answers, strict=True)]


class Penalised(Reference):
    """All fine entry points, including those of the supervised stage and of the logits."""

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        seen = tokens[:, prompt_length:]
        return logits - 0.5 * torch.zeros_like(logits).scatter(1, seen, 1.0)

    def update(self, prompts: Any, verify: Any) -> None:
        rows = [p for p in prompts for _ in range(2)]
        responses = self.rollout(rows)
        rewards = torch.tensor([verify(p, r) for p, r in zip(rows, responses, strict=True)])
        self.step(rows, responses, self.advantages(rewards.view(-1, 2)).flatten())

    def whole(self) -> Adapter:
        adapter = self.adapter(penalize=self.penalize, sync=lambda: None, update=self.update)
        adapter.supervised = list(zip(PROMPTS[::-1], ANSWERS, strict=True))
        adapter.processors = {"penalty": lambda tokens, logits: logits * 1.1}
        adapter.settings |= {"temperature": 0.8, "normaliser": "group"}
        self.temperature = 0.8
        return adapter


class Marked(Turns):
    def env_mask(self, prompts: Any) -> Any:
        return [(row, self.spoken(row)) for row in self.rollout(prompts)]

    def whole(self) -> Adapter:
        adapter = self.adapter("rollout", "loss", "env_mask", "step")
        adapter.seams["reward"], adapter.graded = reward, GRADED
        return adapter


TRAINERS: dict[str, Callable[[], Any]] = {
    "left, a copy generates": lambda: Left(sampler="synced", entropy=0.05),
    "packed, LoRA, checkpointing": lambda: Packed(lora="plain", checkpointing=True),
    "turns, with masks": Marked,
    "fine seams": Penalised,
}


def modules(trainer: Any) -> list[Any]:
    """The policy, the reference and the sampler's own copy."""
    named = (trainer.model, trainer.reference, getattr(trainer, "sampler", None))
    return list(dict.fromkeys(m for m in named if m is not None))


def state(trainer: Any, adapter: Adapter) -> dict[str, Any]:
    """Return everything that a probe might change, as comparable values."""
    found: dict[str, Any] = {}
    for n, model in enumerate(modules(trainer)):
        tensors = [*model.named_parameters(), *model.named_buffers()]
        found |= {f"tensor {n} {name}": t.detach().clone() for name, t in tensors}
        found |= {f"gradient {n} {name}": copy.deepcopy(p.grad) for name, p in model.named_parameters()}
        found[f"trained {n}"] = [p.requires_grad for p in model.parameters()]
        found[f"modes {n}"] = [m.training for m in model.modules()]
        found[f"hooks {n}"] = [
            {name: len(value) for name, value in vars(m).items() if name.endswith("_hooks")} for m in model.modules()
        ]
        found[f"attributes {n}"] = [sorted(vars(m)) for m in model.modules()]
        found[f"methods {n}"] = [(type(m).forward, getattr(type(m), "generate", None)) for m in model.modules()]
        found[f"configs {n}"] = [m.to_dict() for m in (model.config, getattr(model, "generation_config", None)) if m]
    found["optimizer"] = copy.deepcopy(trainer.optimizer.state_dict())
    found["optimizer's step"] = "step" in vars(trainer.optimizer)
    found["random"] = [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()]  # type: ignore[index]
    found["tokenizer"] = [
        getattr(trainer.tok, n) for n in ("padding_side", "truncation_side", "pad_token", "eos_token")
    ]
    found["settings"] = copy.deepcopy(adapter.settings)
    return found


def effects(trainer: Any) -> list[Tensor]:
    """Effects of hooks that transformers installs on their first use."""
    ids = torch.tensor([[5, 6, 7, 8]])
    out: list[Tensor] = []
    for model in modules(trainer):
        training = [m.training for m in model.modules()]
        with torch.no_grad():
            found = model.eval()(input_ids=ids, output_hidden_states=True, output_attentions=True)
        for module, mode in zip(model.modules(), training, strict=True):
            module.training = mode
        out += [found.logits, *found.hidden_states, *found.attentions]
    return out


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def made(name: str) -> Any:
    torch.manual_seed(0)
    trainer = TRAINERS[name]()
    for model in modules(trainer):
        getattr(model, "get_base_model", lambda m=model: m)().set_attn_implementation("eager")
    return trainer


def adapted(trainer: Any) -> Adapter:
    adapter: Adapter = trainer.whole() if hasattr(trainer, "whole") else trainer.adapter()
    return adapter


@pytest.mark.parametrize("name", TRAINERS)
def test_nothing_is_left_changed_by_any_probe(name: str) -> None:
    torch.set_num_threads(1)
    trainer, wanted = made(name), effects(made(name))
    adapter, weights = adapted(trainer), copy.deepcopy(trainer.model.state_dict())
    trainer.step(PROMPTS, [[5, 6], [7, 8, 9], [10, 11]], torch.tensor([1.0, -0.5, -0.5]))  # an optimizer that is in use
    trainer.model.load_state_dict(weights)
    before = state(trainer, adapter)
    assert sum(bool(result.called) for result in examine(adapter, load(), {})) > 20
    after = state(trainer, adapter)
    assert [key for key in before if not same(before[key], after.get(key))] == []
    assert same(effects(trainer), wanted)


@pytest.mark.parametrize("code", sorted(PROBES - WITHOUT_SEAMS))
def test_every_probe_that_calls_an_entry_point_is_among_them(code: str) -> None:
    wanted = load().checks[code].probe_arguments
    assert any(
        all(name in seams or getattr(adapter, name, None) is not None for name, must in wanted.items() if must)
        for adapter, seams in adapters()
    )


@functools.cache
def adapters() -> list[tuple[Adapter, dict[str, Any]]]:
    return [(adapter, completed(adapter)) for name in TRAINERS for adapter in [adapted(made(name))]]


def test_parameters_that_the_optimizer_trains_outside_the_model_are_restored() -> None:
    model, critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
    before = critic.weight.detach().clone()
    snapshot = Snapshot(Adapter(model=model, optimizer=optimizer))
    torch.autograd.backward(critic(torch.ones(1, 2)).sum())
    optimizer.step()
    assert not torch.equal(critic.weight, before)
    snapshot.restore()
    assert torch.equal(critic.weight, before)
    assert critic.weight.grad is None


class WithCritic:
    """A trainer whose critic, its optimizer and its schedule are nowhere in the adapter."""

    def __init__(self) -> None:
        self.model, self.critics = torch.nn.Linear(2, 2), {"value": torch.nn.Linear(2, 1)}
        self.optimizer = torch.optim.Adam(self.critics["value"].parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)

    def loss(self, prompts: Any, responses: Any, advantages: Any) -> Tensor:
        value: Tensor = self.critics["value"](torch.ones(1, 2)).sum()
        torch.autograd.backward(value)
        self.optimizer.step()
        self.schedule.step()
        return value


def test_objects_that_only_the_entry_points_use_are_restored_too() -> None:
    trainer = WithCritic()
    kept = copy.deepcopy([trainer.critics["value"].state_dict(), trainer.optimizer.state_dict()])
    wrapped = functools.partial(lambda own, *given: own(*given), trainer.loss)
    snapshot = Snapshot(Adapter(model=trainer.model, seams={"loss": wrapped}))
    trainer.loss(None, None, None)
    assert (trainer.schedule.last_epoch, trainer.optimizer.param_groups[0]["lr"]) == (1, pytest.approx(0.01))
    snapshot.restore()
    assert snapshot.whole
    assert same(kept, [trainer.critics["value"].state_dict(), trainer.optimizer.state_dict()])
    assert (trainer.schedule.last_epoch, trainer.schedule.get_last_lr()) == (0, [0.1])
    assert trainer.critics["value"].weight.grad is None


def test_a_value_that_changes_without_a_new_version_is_restored_at_the_latest_when_everything_is_compared() -> None:
    model = torch.nn.Linear(2, SAMPLED)  # every second value is outside the sample
    snapshot, weight = Snapshot(Adapter(model=model)), model.weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight.view(-1)[1] += 1
    snapshot.restore(whole=False)
    assert torch.equal(weight, before)
    weight.data.view(-1)[0] += 1
    snapshot.restore(whole=False)
    assert torch.equal(weight, before)
    weight.data.view(-1)[1] += 1
    snapshot.restore(whole=False)
    assert not torch.equal(weight, before)
    snapshot.restore()
    assert torch.equal(weight, before)
