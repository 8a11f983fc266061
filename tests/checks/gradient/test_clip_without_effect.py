"""GRD007: clipping that does not affect the gradients that the optimizer gets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from tests.probes.styles import Left


class After(Left):
    """Clips after the optimizer step."""

    def step(self, prompts: Any, responses: Any, advantages: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(self.loss(prompts, responses, advantages))
        self.optimizer.step()
        torch.nn.utils.clip_grad_norm_(self.optimised(), 1.0)


class Unclipped(Left):
    def step(self, prompts: Any, responses: Any, advantages: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(self.loss(prompts, responses, advantages))
        self.optimizer.step()


def probed(trainer: Left, **declared: Any) -> Diagnosis:
    torch.set_num_threads(1)
    trainer.declared = declared
    return run_probes(trainer.adapter("rollout", "loss", "step"), catalogue=load().select(["GRD007"]))


def test_a_clip_after_the_step_is_named_with_its_norm() -> None:
    found = probed(After()).finding("GRD007")
    assert found is not None
    assert found.severity == "error"
    assert found.message.startswith("The optimizer receives a gradient of norm ")
    assert found.message.endswith(", but the declared clipping limit is 1.")


def test_a_declared_bound_counts_where_no_clip_is_seen() -> None:
    assert probed(Unclipped(), max_grad_norm=0.5).finding("GRD007") is not None


@pytest.mark.parametrize("bound", [{}, {"max_grad_norm": 1.0}])
def test_a_clip_that_acts_is_not_flagged(bound: dict[str, float]) -> None:
    diagnosis = probed(Left(), **bound)
    assert (diagnosis.findings, diagnosis.coverage.passed_codes) == ([], ["GRD007"])


def test_without_any_bound_nothing_is_judged() -> None:
    diagnosis = probed(Unclipped())
    assert (diagnosis.findings, diagnosis.coverage.ran) == ([], 0)
