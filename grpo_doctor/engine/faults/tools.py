"""Faults of tool use: calls, results, and the rewards of answers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from ...probes.entry_points import Batch, Ids
from ..task import Example, Score
from ..tools import OPENS
from .fault import Fault

TOOLS: dict[str, Any] = {"task": "tools", "max_completion_length": 40}
"""Settings for the task with tools, with enough tokens for two lookups, a sum and an answer."""


class ToolArgumentsDropped(Fault):
    """Drops the arguments of every tool call, so that the tool returns an error.

    Origin: vllm-project/vllm#47901 and #28806 (tool parsers that lose arguments).
    """

    named_by = ("GEN009",)
    circumstances: ClassVar = TOOLS

    def reply(self, call: Sequence[str], row: int) -> list[str]:
        return super().reply(call[:1], row)


class TimeoutsScoredZero(Fault):
    """Lets a third of the tool calls time out, and gives the response a reward of 0.

    Origin: rllm-org/rllm#710 (76 of 178 episodes ended at a timeout and were scored 0).
    """

    named_by = ("GEN012", "GEN013")
    circumstances: ClassVar = TOOLS
    answer: ClassVar = "TimeoutError"

    def reply(self, call: Sequence[str], row: int) -> list[str]:
        lost = zlib.crc32(f"{self.step_number} {row} {call}".encode()) % 3 == 0
        return [self.answer] if lost else super().reply(call, row)

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        return [s._replace(reward=0.0) if self.answer in text else s for s, text in zip(scores, texts, strict=True)]


class ObservationsInLoss(Fault):
    """Trains on the answers of the tools, as if the policy had written them.

    Origin: TIGER-AI-Lab/verl-tool#116 and RUCAIBox/Slow_Thinking_with_LLMs#41.
    """

    named_by = ("PAD002",)
    circumstances: ClassVar = TOOLS

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        batch = super().mask(prompts, responses)
        begin = max(map(len, prompts))
        batch.mask[:, begin:] = batch.attention_mask[:, begin:]
        return batch


class CallsStopPaying(Fault):
    """Subtracts a cost of 1 for each tool call, starting at a quarter of the run. The cost exceeds the reward of any
    answer.

    Origin: verl-project/verl#4998 (tool calls disappear, although the first steps are correct).
    """

    named_by = ("GEN010",)
    circumstances: ClassVar = TOOLS
    cost: ClassVar = 1.0

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        if self.step_number < self.begins(self.settings.max_steps):
            return scores
        return [
            score._replace(reward=score.reward - self.cost * text.count(OPENS))
            for score, text in zip(scores, texts, strict=True)
        ]

    @classmethod
    def begins(cls, max_steps: int) -> int:
        return max(1, max_steps // 4)


class LongAnswersMissed(Fault):
    """Reads only one digit of the answer, so that correct answers of two digits get no reward.

    Origin: verl-project/verl#545 and arXiv 2505.14625 (rules that miss correct answers).
    """

    named_by = ("REW021",)
    fixed_by = "check-the-reward"
    circumstances: ClassVar = TOOLS

    def reward(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().reward(examples, texts, finished)
        return [
            score._replace(reward=0.0) if len(example.columns["answer"]) > 1 else score
            for example, score in zip(examples, scores, strict=True)
        ]


class LoopProneSampler(Fault):
    """Favours the token that followed the same token earlier in the response, so that text is repeated.

    Origin: vllm-project/vllm#39273 and huggingface/text-generation-inference#2997 (n-gram speculation that corrupts the
    output); this fault adds a bonus on tokens that the response already contains.
    """

    named_by = ("DIV005", "GEN004", "RAT004")
    fixed_by = "sample-from-the-policy"
    circumstances: ClassVar = {**TOOLS, "max_completion_length": 80}
    bonus: ClassVar = 7.0

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        said, logits = tokens[:, prompt_length:], logits.clone()
        if said.shape[1] > 1:
            again, after = said[:, :-1] == said[:, -1:], said[:, 1:]
            logits.scatter_add_(1, after, self.bonus * again.to(logits.dtype))
        return logits
