"""Faults of generation."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor

from .fault import Fault

P30: dict[str, Any] = {
    "generation_batch_size": 6,
    "num_generations": 2,
    "temperature": 0.3,
    "warmup_steps": 100,
    "beta": 0.005,
    "skip_zero_advantages": True,
    "max_steps": 95,
}
"""The settings of beita6969/colab-grpo's run: three prompts of two responses, and a warm-up whose first step is 0."""


class TrainModeGeneration(Fault):
    """Generates in the mode of the last step: train mode with gradient checkpointing after an update.

    Origin: beita6969/colab-grpo. 37 of 38 updates were followed by a collapse, but none of the 56 skipped steps was.
        The log-probability pass of a skipped step called `eval()`, which prevented the collapse. The first update had a
        learning rate of 0.
    """

    named_by = ("GEN001",)
    fixed_by = "generate-in-eval-mode"
    circumstances: ClassVar = {**P30, "gradient_checkpointing": True}

    def generating(self) -> AbstractContextManager[None]:
        return nullcontext()

    @classmethod
    def begins(cls, max_steps: int) -> int:
        return 2


class StaleRolloutWeights(Fault):
    """Keeps the initial weights in the rollout engine.

    Origin: inference engines that do not receive new weights (issue threads about vLLM's weight synchronisation, see
        GEN002).
    """

    named_by = ("GEN002", "RAT004")
    fixed_by = "sync-rollout-weights"

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        policy, self.model = self.model, self.first()
        try:
            return super().sample(input_ids, attention_mask)
        finally:
            self.model = policy

    def first(self) -> Any:
        """Return the policy at the first rollout."""
        if not hasattr(self, "_first"):
            self._first = deepcopy(self.base).eval()
        return self._first


class LogitClip(Fault):
    """Clips the rollout engine's logits to ±2.8, which limits the largest probability to 1 / (1 + (V - 1) e^-C).

    Origin: the logit clip of BoBaCai/grpo-dual (C = 10 at V = 128,256 limits the probability to 0.1466; here, the clip
        is scaled to the vocabulary of the engine).
    """

    named_by = ("SHP004", "GEN004")
    fixed_by = "drop-logit-clip"
    signature: ClassVar = 0.1466

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        limit = float(torch.tensor((logits.shape[-1] - 1) * self.signature / (1 - self.signature)).log())
        return (logits - logits.amax(-1, keepdim=True) + limit).clamp(min=0.0)


class DoubleTemperature(Fault):
    """Divides the logits by the temperature twice: in custom code and in the sampler.

    Origin: the list of processors of BoBaCai/grpo-dual (catalogue, GEN006).
    """

    named_by = ("GEN006", "GEN004", "RAT004")
    fixed_by = "temperature-once"
    circumstances: ClassVar = {"temperature": 1.5}

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        return logits / self.settings.temperature


class PenaltyOverPrompt(Fault):
    """Counts prompt tokens in presence and frequency penalties.

    Origin: bug 2 of BoBaCai/grpo-dual, where a word that occurred twenty times in the prompt lost 8.6 logits (0.6 + 0.4
        each).
    """

    named_by = ("TOK006", "GEN004")
    fixed_by = "penalise-the-response"
    presence: ClassVar = 0.6
    frequency: ClassVar = 0.4

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        counts = torch.zeros_like(logits).scatter_add_(1, tokens, torch.ones_like(tokens, dtype=logits.dtype))
        counts[:, [self.pad, *self.eos]] = 0
        return logits - self.presence * (counts > 0) - self.frequency * counts


class MinNewTokens(Fault):
    """Suppresses EOS until the response is longer than a correct answer.

    Origin: the EOS suppressor of BoBaCai/grpo-dual, which fired on nine answers in ten.
    """

    named_by = ("LEN004",)
    fixed_by = "lower-min-new-tokens"
    settings_of_fault: ClassVar = {"min_new_tokens": 24}


class Truncation(Fault):
    """Sets the length limit one token below the shortest answer, so that every response is truncated.

    Origin: public runs of kartikmunjal/rlhf-and-reward-modelling-alt of the corpus (every response truncated at 64
    tokens, nothing learned in 200 steps); DAPO (2503.14476). A limit that allows the shortest answers does not stall
    training, because the policy stops writing longer answers.
    """

    named_by = ("LEN003",)
    fixed_by = "raise-response-limit"
    settings_of_fault: ClassVar = {"max_completion_length": 5}


class TopPNotInLoss(Fault):
    """Samples with top_p 0.8 but trains as if from the full distribution.

    Origin: huggingface/trl#4772 and #6789 (top_p, top_k and min_p of the sampler are absent from the
    log-probabilities); on the policy's own samples, the fault has little effect.
    """

    named_by = ("GEN004", "RAT004")
    fixed_by = "sample-from-the-policy"
    settings_of_fault: ClassVar = {"top_p": 0.8}


class PartlySynchronisedWeights(Fault):
    """Never sends the output layer to the rollout engine, which keeps its initial weights.

    Origin: issues NVIDIA-NeMo/RL#2895 (stale expert weights in a captured CUDA graph) and THUDM/slime#1724 (a vision
    encoder that is not loaded).
    """

    named_by = ("GEN002", "RAT004")
    fixed_by = "sync-rollout-weights"

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        head = self.model.get_output_embeddings().weight
        if not hasattr(self, "_head"):
            self._head = self.base.get_output_embeddings().weight.detach().clone()
        trained = head.detach().clone()
        with torch.no_grad():
            head.copy_(self._head)
        try:
            return super().sample(input_ids, attention_mask)
        finally:
            with torch.no_grad():
                head.copy_(trained)
