"""The probe GRD006: micro-batches add up to the whole batch, of equal and of unequal length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Finding
from grpo_doctor.probes import run_probes
from tests.probes.broken_styles import STYLES, finding
from tests.probes.styles import Left, Packed, Shifted, Turns


def said(trainer: Left) -> Finding | None:
    return run_probes(trainer.adapter(), catalogue=load().select(["GRD006"])).finding("GRD006")


@pytest.mark.parametrize("style", [Left, Shifted, Packed, Turns])
def test_a_mean_over_the_tokens_of_the_whole_batch_is_the_same_in_micro_batches(style: type[Left]) -> None:
    assert said(style()) is None


@pytest.mark.parametrize("style", STYLES)
def test_a_mean_over_the_tokens_of_each_micro_batch_is_not(style: str) -> None:
    found = finding("micro-batches are divided by their own tokens", style)
    assert found is not None
    assert found.severity == "warning"
    assert found.message == (
        "With responses of unequal length, micro-batches give a different gradient than the full batch (cosine "
        f"{found.evidence['cosine']:.3f}, {found.evidence['ratio']:.2f} times the norm). The loss of every micro-batch is "
        "divided by its own token count."
    )


def test_unless_it_is_declared() -> None:
    trainer = Left()
    trainer.share = lambda part, whole: len(part[0]) / len(whole[0])  # type: ignore[method-assign]
    trainer.declared = {"loss_type": "bnpo"}
    assert said(trainer) is None


def test_gradients_that_are_never_divided_are_a_warning() -> None:
    """The gradient is four times as large in the right direction: Adam compensates for this, SGD and clipping do
    not."""
    trainer = Left()
    trainer.share = lambda part, whole: 1.0  # type: ignore[method-assign]
    found = said(trainer)
    assert found is not None
    assert (found.severity, round(found.evidence["ratio"])) == ("warning", 4)


class Learns(Left):
    """Its step also trains another model, such as a critic, so its advantages depend on the previous steps."""

    seen = 0.0

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        moved = advantages - self.seen
        self.seen += 0.3
        super().step(prompts, responses, moved)


class LearnsAndNeverZeroes(Learns):
    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        moved = advantages - self.seen
        self.seen += 0.3
        torch.autograd.backward(self.loss(prompts, responses, moved))
        self.optimizer.step()


def test_a_critic_that_learns_between_two_steps_is_not_a_gradient_that_was_kept() -> None:
    assert said(Learns()) is None
    found = said(LearnsAndNeverZeroes())
    assert found is not None
    assert found.severity == "critical"
    assert found.message.startswith("The gradient of a step still contains the previous step's gradient (cosine")
