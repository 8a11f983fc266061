"""Faults of the objective and the optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...probes.entry_points import Batch, Ids
from ..engine import Prepared, Scores
from .fault import Fault


class FlippedEntropy(Fault):
    """Adds the entropy bonus with the wrong sign, so that training lowers entropy.

    Origin: the loss of BoBaCai/grpo-dual (`loss + coef * entropy`). A coefficient of 0.01 has no visible effect; at
    0.5, entropy collapses.
    """

    named_by = ("ENT006", "ENT004")
    fixed_by = "fix-entropy-sign"
    settings_of_fault: ClassVar = {"entropy_coef": 0.5}

    def objective(
        self, logprobs: Tensor, old: Tensor, reference: Tensor | None, a: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        term = self.terms(logprobs, old, reference, a, mask, entropy).entropy
        return super().objective(logprobs, old, reference, a, mask, entropy) + 2 * self.settings.entropy_coef * term


class FlippedEntropyGradient(Fault):
    """Flips the gradient of the entropy term while the logged loss looks correct.

    Origin: the trainer of BoBaCai/grpo-dual, whose logged loss was computed separately from the optimised loss.
    """

    named_by = ("ENT006", "ENT007", "ENT004")
    fixed_by = "fix-entropy-sign"
    settings_of_fault: ClassVar = {"entropy_coef": 0.5}

    def objective(
        self, logprobs: Tensor, old: Tensor, reference: Tensor | None, a: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        term = 2 * self.settings.entropy_coef * self.terms(logprobs, old, reference, a, mask, entropy).entropy
        return super().objective(logprobs, old, reference, a, mask, entropy) + term - term.detach()


class EntropyCoefficientHuge(Fault):
    """Sets the entropy bonus to 1.0, which dominates the reward: the policy becomes uniform noise within 20 steps.

    Origin: the settings of BoBaCai/grpo-dual, which declared a coefficient of 6.0.
    """

    named_by = ("ENT003", "ENT008")
    fixed_by = "drop-entropy-bonus"
    settings_of_fault: ClassVar = {"entropy_coef": 1.0}


class KlDominates(Fault):
    """Sets the KL coefficient to 10: the KL term dominates the gradient, and the policy does not change.

    Origin: runs of BoBaCai/grpo-dual, whose KL term was 92% to 98% of the loss.
    """

    named_by = ("KL002", "STL001")
    fixed_by = "lower-kl-coefficient"
    settings_of_fault: ClassVar = {"beta": 10.0}


class ReferenceMismatch(Fault):
    """Uses a reference that differs from the initial policy, so that KL is not 0 at the first step.

    Origin: a reference loaded from another checkpoint (verl and TRL issue threads in the catalogue, KL006).
    """

    named_by = ("KL006",)
    fixed_by = "same-ids-for-reference"
    noise: ClassVar = 0.03

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        source = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.base.parameters():
                p += self.noise * torch.randn(p.shape, generator=source).to(p)


class KlOnUnformattedPrompt(Fault):
    """Computes log-probabilities after the raw prompt, although responses were generated after the chat template.

    Origin: the reference pass of BoBaCai/grpo-dual, which joined the bare prompt and the response.
    """

    named_by = ("KL006", "RAT004", "GEN005")
    fixed_by = "build-ids-once"

    def mask(self, prompts: Sequence[Ids], responses: Sequence[Ids]) -> Batch:
        special = set(self.tokenizer.all_special_ids)
        return super().mask([[t for t in ids if t not in special] for ids in prompts], responses)


class LrTooHigh(Fault):
    """Sets the learning rate a hundred times too high: the policy is destroyed within a few steps.

    Origin: learning rates for LoRA that are used for full fine-tuning, the most common mistake.
    """

    named_by = ("STL003", "UPD004")
    fixed_by = "lower-learning-rate"
    settings_of_fault: ClassVar = {"learning_rate": 4e-2}


class LrTooLow(Fault):
    """Sets the learning rate a thousand times too low: the policy does not change.

    Origin: learning rates for full fine-tuning that are used for LoRA; a scheduler that decays to 0 too early.
    """

    named_by = ("STL003", "STL001")
    settings_of_fault: ClassVar = {"learning_rate": 4e-7}


class OverwrittenAccumulation(Fault):
    """Overwrites the gradient in every micro-batch, so that only the last micro-batch has an effect.

    Origin: `zero_grad` inside the accumulation loop (catalogue, GRD006).
    """

    named_by = ("GRD006",)
    fixed_by = "accumulate-by-adding"
    settings_of_fault: ClassVar = {"gradient_accumulation_steps": 8}

    def micro_loss(self, prepared: Prepared, rows: slice, tokens: int | None = None) -> tuple[Tensor, Tensor, Scores]:
        self.optimizer.zero_grad()
        return super().micro_loss(prepared, rows, tokens)


class NanAtStep(Fault):
    """Makes the loss NaN once, halfway through the run: no weight is finite afterwards, and only a rollback helps.

    Origin: verl#721 (all NaN from step 59).
    """

    named_by = ("GRD001",)

    def objective(
        self, logprobs: Tensor, old: Tensor, reference: Tensor | None, a: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        loss = super().objective(logprobs, old, reference, a, mask, entropy)
        return loss * float("nan") if self.step_number == self.begins(self.settings.max_steps) else loss

    @classmethod
    def begins(cls, max_steps: int) -> int:
        return max(1, min(30, max_steps // 2))


class FlippedKl(Fault):
    """Rewards the KL instead of penalising it: the policy moves away from its reference.

    Origin: mll-lab-nu/RAGEN#58 and qiancheng0/ToolRL#52.
    """

    named_by = ("KL004", "KL001")
    circumstances: ClassVar = {"beta": 0.2}

    def objective(
        self, logprobs: Tensor, old: Tensor, reference: Tensor | None, a: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        kl = self.terms(logprobs, old, reference, a, mask, entropy).kl
        return super().objective(logprobs, old, reference, a, mask, entropy) - 2 * self.settings.beta * kl


class UnscaledAccumulation(Fault):
    """Adds the losses of eight micro-batches without dividing: the gradient is eight times too large.

    Origin: huggingface/trl#2617. Gradient clipping and Adam remove most of the effect.
    """

    named_by = ("GRD006",)
    fixed_by = "accumulate-by-adding"
    circumstances: ClassVar = {"gradient_accumulation_steps": 8}

    def share(self, prepared: Prepared, rows: slice) -> float:
        return 1.0


class MeanOfMicroBatchMeans(Fault):
    """Averages each micro-batch over its own tokens, so that tokens in short micro-batches have more weight.

    Origin: huggingface/trl#5890, THUDM/slime#365.
    """

    named_by = ("GRD006",)
    fixed_by = "accumulate-by-adding"
    circumstances: ClassVar = {"gradient_accumulation_steps": 8}

    def share(self, prepared: Prepared, rows: slice) -> float:
        return len(prepared.mask[rows]) / len(prepared.mask)


class FrozenPolicy(Fault):
    """Gives the optimizer parameters that are not those of the policy, so that the policy does not change.

    Origin: huggingface/trl#6700 and #3926 (adapters that are loaded frozen), verl-project/verl#4514.
    """

    named_by = ("STL004", "UPD002", "STL003")
    fixed_by = "optimizer-after-wrapping"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        copies = [torch.nn.Parameter(p.detach().clone()) for p in self.parameters]
        self.optimizer = torch.optim.AdamW(copies, lr=self.settings.learning_rate, weight_decay=0.0)
