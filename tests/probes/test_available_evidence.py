"""Evidence from entry points without further calls, and correct trainers that such evidence must not flag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from grpo_doctor.probes.sampling_filters import measured_temperature
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left, Scores

TWO = ("rollout", "loss")


def probed(trainer: Left, *codes: str, seams: tuple[str, ...] = TWO, **settings: Any) -> Diagnosis:
    torch.set_num_threads(1)
    adapter = trainer.adapter(*seams)
    adapter.settings |= settings
    return run_probes(adapter, catalogue=load().select(codes))


def told(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in diagnosis.findings if f.severity != "info"]


# wrong ------------------------------------------------------------------------------------------------------------


class Warmer(Left):
    """Samples at 0.9 times the declared temperature."""

    def generation(self) -> dict[str, Any]:
        return super().generation() | {"temperature": 0.7 * self.temperature}


class ForgetsTheKl(Left):
    def divergence(self, new: Tensor, reference: Tensor) -> Tensor:
        return super().divergence(new, reference).detach()


class OldOfReference(Left):
    def old_scores(self, prompts: Any, responses: Any) -> Tensor | None:
        return self.reference_scores(prompts, responses)


class LastPartAlone(Left):
    """A step in two parts; the gradient of the first one is lost."""

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        half = len(prompts) // 2
        for part in (slice(0, half), slice(half, None)):
            self.optimizer.zero_grad()
            torch.autograd.backward(self.loss(prompts[part], responses[part], advantages[part]))
        self.optimizer.step()


class SortsPrompts(Left):
    """Sorts the samples by prompt length, but not their advantages."""

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        order = sorted(range(len(prompts)), key=lambda n: len(self.render(prompts[n])))
        return super().loss([prompts[n] for n in order], [responses[n] for n in order], advantages)


WRONG = [
    (Warmer, {}, "GEN007", TWO),
    (Warmer, {"temperature": 0.6}, "GEN007", TWO),
    (ForgetsTheKl, {}, "KL004", TWO),
    (OldOfReference, {}, "RAT003", TWO),
    (OldOfReference, {"lora": "plain"}, "RAT003", TWO),
    (LastPartAlone, {}, "ENT007", (*TWO, "step")),
    (SortsPrompts, {}, "RAT007", TWO),
]


@pytest.mark.parametrize(("kind", "options", "code", "seams"), WRONG)
def test_evidence_in_hand_is_used(kind: type[Left], options: dict[str, Any], code: str, seams: tuple[str, ...]) -> None:
    (found,) = told(probed(kind(**options), code, seams=seams))
    assert (found[0], found[1] in ("error", "critical")) == (code, True)


# right ------------------------------------------------------------------------------------------------------------


class InParts(Left):
    """A step in two parts that add up."""

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        half = len(prompts) // 2
        self.optimizer.zero_grad()
        for part in (slice(0, half), slice(half, None)):
            torch.autograd.backward(self.loss(prompts[part], responses[part], advantages[part]) / 2)
        self.optimizer.step()


class InReward(Left):
    """The penalty is in the reward."""

    kl_coef = 0.02

    def divergence(self, new: Tensor, reference: Tensor) -> Tensor:
        return torch.zeros_like(new)


class Uncertain(Left):
    """Only the tokens with the highest entropy get a policy gradient."""

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        least = new.entropy[new.mask > 0].quantile(0.8)
        return super().objective(new._replace(mask=new.mask * (new.entropy >= least)), old, reference, advantages)


class Trained(Left):
    """RL continues from a policy that differs from the reference, without a penalty."""

    kl_coef = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with torch.no_grad():
            for parameter in self.reference.parameters():
                parameter.mul_(1.1)


class Compared(Left):
    """Also scores the batch with a half-precision sampler, to log the difference."""

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        rows = [self.render(p) for p in prompts]
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            self.logged = self.scores(self.model, rows, responses).logprobs.mean()
        return super().loss(prompts, responses, advantages)


class Valued(Left):
    """A value head on the same layers, with its own loss."""

    def __init__(self, **options: Any) -> None:
        super().__init__(entropy=0.05, **options)
        torch.manual_seed(1)
        self.model.value_head = torch.nn.Linear(32, 1)

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        ids, real, _ = self.batch([self.render(p) for p in prompts], responses)
        model: Any = self.model
        states = model.model(input_ids=ids, attention_mask=real).last_hidden_state
        learnt: Tensor = (model.value_head(states)[..., 0] - 1).square().mean()
        return super().loss(prompts, responses, advantages) + learnt


class Raises(Valued):
    def entropy_term(self, entropy: Tensor, mask: Tensor) -> Tensor:
        return -super().entropy_term(entropy, mask)


RIGHT: list[tuple[Callable[[], Left], str, tuple[str, ...], dict[str, Any]]] = [
    (InParts, "ENT007", (*TWO, "step"), {}),
    (InReward, "KL004", TWO, {"use_kl_in_reward": True}),
    (Uncertain, "PAD002", TWO, {"top_entropy_quantile": 0.2}),
    (Trained, "KL006", TWO, {}),
    (lambda: Compared(lora="plain"), "KL006", TWO, {}),
    (lambda: Left(precision="bf16"), "KL006", TWO, {}),
    (lambda: Left(temperature=0.7), "KL006", TWO, {}),
    (Valued, "ENT006", TWO, {}),
    (lambda: Left(temperature=0.7), "GEN007", TWO, {}),
    (lambda: Left(lora="plain"), "GEN002", TWO, {}),
]


@pytest.mark.parametrize(("make", "code", "seams", "settings"), RIGHT)
def test_a_right_trainer_is_not_flagged(
    make: Callable[[], Left], code: str, seams: tuple[str, ...], settings: dict[str, Any]
) -> None:
    assert told(probed(make(), code, seams=seams, **settings)) == []


def test_the_entropy_of_a_model_with_a_value_head_is_still_judged() -> None:
    assert told(probed(Raises(), "ENT006")) == [("ENT006", "critical")]


def test_dropout_in_the_loss_is_a_warning_with_its_reason() -> None:
    trainer = Left(arch="gpt2")
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.2
    (found,) = probed(trainer, "RAT003").findings
    assert (found.severity, "dropout is on in the forward pass of the loss" in found.message) == ("warning", True)


def test_a_measured_temperature_has_an_error() -> None:
    trainer = Left(temperature=0.6)

    model: Any = trainer.model

    def sample(ids: Tensor, real: Tensor) -> Tensor:
        out = model.generate(input_ids=ids, attention_mask=real, pad_token_id=trainer.pad, **trainer.generation())
        assert isinstance(out, Tensor)
        return out

    rows = [trainer.render(PROMPTS[0])]
    value, error = measured_temperature(sample, trainer.model, trainer.tok, rows, 0.6)
    assert abs(value - 0.6) < 0.01
    assert error < 0.01
