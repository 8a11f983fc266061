"""ADV017: every response is trained with the advantage of its own reward, in the group of its own prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from tests.probes.reference import PROMPTS, Reference

SIZE = 3


class Grouped(Reference):
    """Samples three responses to each prompt, scores them, and trains on advantages of its groups."""

    size = SIZE

    def asked(self, prompts: list[Any]) -> list[Any]:
        """The prompt for which each response is scored."""
        return [p for p in prompts for _ in range(self.size)]

    def centred(self, rewards: Tensor) -> Tensor:
        return torch.as_tensor(self.advantages(rewards.view(-1, self.size))).flatten()

    def update(self, prompts: list[Any], verify: Callable[[Any, Any], float]) -> None:
        rows = [p for p in prompts for _ in range(self.size)]
        responses = self.rollout(rows)
        rewards = torch.tensor([verify(p, r) for p, r in zip(self.asked(prompts), responses, strict=True)])
        self.step(rows, responses, self.centred(rewards))


class OfTheBatch(Grouped):
    def centred(self, rewards: Tensor) -> Tensor:
        return (rewards - rewards.mean()) / rewards.std()


class LeaveOneOut(Grouped):
    def centred(self, rewards: Tensor) -> Tensor:
        table = rewards.view(-1, self.size)
        return (table - (table.sum(1, keepdim=True) - table) / (self.size - 1)).flatten()


class TiledScores(Grouped):
    def asked(self, prompts: list[Any]) -> list[Any]:
        return list(prompts) * self.size


class NeighboursOfOtherPrompts(Grouped):
    def centred(self, rewards: Tensor) -> Tensor:
        return torch.as_tensor(self.advantages(rewards.view(self.size, -1))).T.flatten()


class Rolled(Grouped):
    def centred(self, rewards: Tensor) -> Tensor:
        return super().centred(rewards).roll(1)


class TwoPromptsInAGroup(Grouped):
    def centred(self, rewards: Tensor) -> Tensor:
        return torch.cat([self.advantages(part[None]).flatten() for part in torch.split(rewards, 2 * self.size)])


def probed(trainer: Grouped) -> Diagnosis:
    adapter = trainer.adapter("rollout", "update")
    adapter.prompts = [*PROMPTS, [{"role": "user", "content": "one more"}]]
    return run_probes(adapter, catalogue=load().select(["ADV017"]))


@pytest.mark.parametrize("kind", [Grouped, OfTheBatch, LeaveOneOut])
def test_own_rewards_pass_whatever_the_baseline(kind: type[Grouped]) -> None:
    diagnosis = probed(kind())
    assert (diagnosis.findings, diagnosis.coverage.passed_codes) == ([], ["ADV017"])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TiledScores, "8 of 12 responses are scored for a prompt other than the one they were sampled for."),
        (
            NeighboursOfOtherPrompts,
            "pairs of responses to one prompt, the response with the lower reward becomes more likely",
        ),
        (Rolled, "pairs of responses to one prompt, the response with the lower reward becomes more likely"),
        (TwoPromptsInAGroup, "The advantages are centred over groups that mix responses to different prompts."),
    ],
)
def test_rewards_of_other_samples_are_an_error(kind: type[Grouped], message: str) -> None:
    found = probed(kind()).finding("ADV017")
    assert found is not None
    assert found.severity == "critical"
    assert message in found.message


def test_as_many_responses_as_prompts_show_the_axes_of_a_table() -> None:
    class Square(NeighboursOfOtherPrompts):
        size = 4

    assert probed(Square()).finding("ADV017") is not None


def test_one_response_per_prompt_is_not_judged() -> None:
    class Single(OfTheBatch):
        size = 1

    (skipped,) = probed(Single()).coverage.skipped
    assert skipped["needs"] == ["update samples 4 responses to 4 prompts"]
