"""Faults of the advantage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from ..losses import EPSILON
from ..task import Example, Score
from .fault import Fault


class TwoSampleGroups(Fault):
    """Two responses a prompt: with the group's standard deviation every advantage is a sign, ±0.707.

    Origin: beita6969/colab-grpo (K = 2). Slower, not sick: alone it does not collapse, so it is a note.
    """

    named_by = ("ADV001",)
    mended_by = "raise-group-size"
    settings_of_fault: ClassVar = {"num_generations": 2, "generation_batch_size": 16}


class RankAdvantages(Fault):
    """Advantages from ranks with ties broken by index: equal rewards get advantages between -1 and 1.

    Origin: BoBaCai/grpo-dual's trainer ranked by argsort. With a group of equal rewards the update is pure noise.
    """

    named_by = ("ADV005",)
    mended_by = "rank-ties-by-average"

    def advantages(self, rewards: Tensor) -> Tensor:
        ranks = rewards.argsort(dim=1, stable=True).argsort(dim=1).float()
        return 2 * ranks / (rewards.shape[1] - 1) - 1


class StdFloor(Fault):
    """Rewards that differ by less than a floor under the standard deviation: advantages of 0.004, a stall under KL.

    Origin: BoBaCai/grpo-dual (Lever-Plus, Adv Std 0.0062 against a floor of 0.1). Without a KL term Adam cancels the
    scale and the run learns.
    """

    named_by = ("ADV004", "KL002")
    mended_by = "lower-std-floor"
    scale: ClassVar = 0.002
    floor: ClassVar = 0.1

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        return [score._replace(reward=score.reward * self.scale) for score in scores]

    def advantages(self, rewards: Tensor) -> Tensor:
        centred = rewards - rewards.mean(1, keepdim=True)
        return centred / rewards.std(1, keepdim=True).clamp(min=self.floor)


class GlobalNormUncentred(Fault):
    """Advantages are rewards by the standard deviation of the batch, centred on nothing.

    Origin: Search-R1#88 and loops by hand that divide and forget to subtract. All groups with a positive reward are
    pushed up, equal ones too.
    """

    named_by = ("ADV006", "ADV007")
    mended_by = "centre-per-group"

    def advantages(self, rewards: Tensor) -> Tensor:
        return rewards / (rewards.std() + EPSILON)


class AdvantagesOfAnotherGroup(Fault):
    """Every response is trained on the advantage of its neighbour in the next group.

    Origin: tenstorrent/tt-metal#46412 (the advantages of another slice of the batch); a shuffle between reward and
    loss does the same.
    """

    named_by = ("ADV006",)

    def advantages(self, rewards: Tensor) -> Tensor:
        return super().advantages(rewards).roll(1, 0)
