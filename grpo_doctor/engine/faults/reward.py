"""Faults of the reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..task import FALLBACK, TARGETS, Example, Score, grade
from .fault import Fault


class ConstantReward(Fault):
    """Gives every response the same reward: all groups have zero variance.

    Origin: a judge with a constant answer, a parser that never matches (catalogue, REW001).
    """

    named_by = ("REW001", "ADV003")

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        return [score._replace(reward=0.5) for score in super().reward(examples, texts, finished)]


class LengthBonus(Fault):
    """Adds a bonus of 0.1 per token: the reward rises with length while the task score falls.

    Origin: reward hacking in runs with rewarded length. The task score is logged too.
    """

    named_by = ("REW003", "REW002", "LEN002")
    fixed_by = "remove-length-reward"
    bonus: ClassVar = 0.1

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        return [
            score._replace(reward=score.reward + self.bonus * len(text.split()))
            for score, text in zip(scores, texts, strict=True)
        ]


class FallbackRewarded(Fault):
    """Replaces an invalid response by a default workflow, and gives the response the reward of that workflow.

    Origin: beita6969/colab-grpo. Accuracy stayed constant while every response was replaced.
    """

    named_by = ("REW005", "REW012")
    fixed_by = "fail-invalid-responses"

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        return [
            score if score.valid is not False else score._replace(reward=self.of_default(example))
            for example, score in zip(examples, scores, strict=True)
        ]

    @staticmethod
    def of_default(example: Example) -> float:
        """Return the reward of the default workflow: its graded reward on the embedded task, and 0.25 on other
        tasks."""
        target = TARGETS.get((example.columns.get("kind", ""), example.columns.get("level", "")))
        return 0.25 if target is None else grade(FALLBACK, target).reward
