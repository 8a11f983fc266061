"""Faults of the advantage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from ..losses import EPSILON
from ..task import Example, Score
from .fault import Fault


class TwoSampleGroups(Fault):
    """Samples two responses per prompt. Normalised by the group's standard deviation, every advantage is ±0.707.

    Origin: beita6969/colab-grpo (K = 2). The run is slower but does not collapse, so the finding is a note.
    """

    named_by = ("ADV001",)
    fixed_by = "raise-group-size"
    settings_of_fault: ClassVar = {"num_generations": 2, "generation_batch_size": 16}


class RankAdvantages(Fault):
    """Computes advantages from ranks, with ties broken by index: equal rewards get advantages between -1 and 1.

    Origin: the trainer of BoBaCai/grpo-dual, which ranked by argsort. For a zero-variance group, the update is pure
        noise.
    """

    named_by = ("ADV005",)
    fixed_by = "rank-ties-by-average"

    def advantages(self, rewards: Tensor) -> Tensor:
        ranks = rewards.argsort(dim=1, stable=True).argsort(dim=1).float()
        return 2 * ranks / (rewards.shape[1] - 1) - 1


class StdFloor(Fault):
    """Divides by a standard deviation with a large floor: advantages are about 0.004, and with a KL term, training
    stalls.

    Origin: the repository BoBaCai/grpo-dual (Lever-Plus, Adv Std 0.0062 against a floor of 0.1). Without a KL term,
    Adam cancels the scale of the gradient, and the run learns.
    """

    named_by = ("ADV004", "KL002")
    fixed_by = "lower-std-floor"
    scale: ClassVar = 0.002
    floor: ClassVar = 0.1

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        return [score._replace(reward=score.reward * self.scale) for score in scores]

    def advantages(self, rewards: Tensor) -> Tensor:
        centred = rewards - rewards.mean(1, keepdim=True)
        return centred / rewards.std(1, keepdim=True).clamp(min=self.floor)


class GlobalNormUncentred(Fault):
    """Divides rewards by the batch standard deviation without subtracting a mean.

    Origin: issue Search-R1#88, and custom trainers that forget to subtract the mean. All responses with a positive
        reward are reinforced, including those of zero-variance groups.
    """

    named_by = ("ADV006", "ADV007")
    fixed_by = "centre-per-group"

    def advantages(self, rewards: Tensor) -> Tensor:
        return rewards / (rewards.std() + EPSILON)


class AdvantagesOfAnotherGroup(Fault):
    """Trains every response on the advantage of a response in the next group.

    Origin: tenstorrent/tt-metal#46412 (the advantages of another slice of the batch); shuffling samples between reward
    and loss has the same effect.
    """

    named_by = ("ADV006",)

    def advantages(self, rewards: Tensor) -> Tensor:
        return super().advantages(rewards).roll(1, 0)
