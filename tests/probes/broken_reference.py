"""Wrong variants of the reference trainer, each with one fault, and correct variants that are only written
differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grpo_doctor.probes import Batch
from tests.probes.reference import Reference

# -- extraction ----------------------------------------------------------------------------------------------------


class CountAsPosition(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        counts = (input_ids != self.tok.pad_token_id).sum(1).tolist()
        return [row[n:] for row, n in zip(tokens.tolist(), counts, strict=True)]


class ExtractionDropsFirst(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return [row[1:] for row in super().extract(tokens, input_ids, attention_mask)]


class ExtractionDropsLast(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return tokens[:, input_ids.shape[1] : -1]


class ExtractionOfFirstRowOnly(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        rows = super().extract(tokens, input_ids, attention_mask)
        return [rows[0]] * len(rows)


class TextCutAtSpecial(Reference):
    """Searches the text for the last header: a decoded response, but searched from the wrong end."""

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return [self.tok.decode(row, skip_special_tokens=True) for row in tokens.tolist()]


class ExtractionBeginsInPrompt(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return tokens[:, input_ids.shape[1] - 1 :]


# -- mask ----------------------------------------------------------------------------------------------------------


class AssumesRightPadding(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        mask = torch.zeros_like(batch.mask)
        for n, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            valid = len(prompt) + len(response)
            mask[n, valid - len(response) - 1 : valid - 1] = 1
        return batch._replace(mask=mask)


def _shifted(start: int, end: int) -> type[Reference]:
    class Shifted(Reference):
        def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
            total = ids.shape[1]
            mask = torch.zeros(len(ids), total - 1)
            for n, length in enumerate(lengths):
                mask[n, total - 1 - length + start : total - 1 + end] = 1
            return mask

    return Shifted


StartsOneLate, StartsOneEarly, EndsOneEarly = _shifted(1, 0), _shifted(-1, 0), _shifted(0, -1)


class ShiftedForLongest(Reference):
    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        mask = super().response_mask(ids, lengths)
        padded = (ids == self.tok.pad_token_id).any(1)
        for n in range(len(mask)):
            if not padded[n]:
                mask[n] = mask[n].roll(-1)
        return mask


class EosMissing(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        return batch._replace(mask=batch.mask * (batch.input_ids[:, 1:] != self.tok.eos_token_id))


class LastMissingWhenCut(Reference):
    """Assumes that the last token is an EOS and drops it, in rows that were truncated at the limit."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        for n, response in enumerate(responses):
            batch.mask[n, -1] = float(response[-1] == self.tok.eos_token_id)
        return batch


class ShiftedForLongestPrompt(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        longest = max(range(len(prompts)), key=lambda n: len(prompts[n]))
        batch.mask[longest] = batch.mask[longest].roll(-1)
        return batch


class PromptTrained(Reference):
    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        return torch.ones(len(ids), ids.shape[1] - 1)


class TrainsPadding(Reference):
    """Right-padded responses, and a mask up to the width of the batch."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = RightPaddedResponses.mask(self, prompts, responses)  # type: ignore[arg-type]
        start = max(map(len, prompts))
        mask = torch.zeros_like(batch.input_ids)
        mask[:, start:] = 1
        return batch._replace(mask=mask)


class SingleTokenDropped(Reference):
    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        mask = super().response_mask(ids, lengths)
        for n, length in enumerate(lengths):
            if length == 1:
                mask[n] = 0
        return mask


class ByIdentity(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        return batch._replace(mask=batch.mask * (batch.input_ids[:, 1:] != self.tok.pad_token_id))


class TrailingPadStripped(Reference):
    """Takes the last id that is not pad as the end of the response, so its EOS is removed with the padding."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        mask = batch.mask.clone()
        for n, row in enumerate(batch.input_ids.tolist()):
            end = len(row)
            while row[end - 1] == self.tok.pad_token_id:
                end -= 1
            mask[n, end - 1 :] = 0
        return batch._replace(mask=mask)


# -- log-probabilities ----------------------------------------------------------------------------------------------


class NoAttentionMask(Reference):
    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        return super().scores(model, ids, torch.ones_like(real))


class SomeRowsUnmasked(Reference):
    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        real = real.clone()
        real[0] = 1
        return super().scores(model, ids, real)


class Unshifted(Reference):
    """Scores token t with the logits at t, which depend on it."""

    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        table = model(input_ids=ids, attention_mask=real, position_ids=position).logits[:, 1:].log_softmax(-1)
        return table.gather(-1, ids[:, 1:, None]).squeeze(-1), -(table.exp() * table).sum(-1)


class LabelsUnshifted(Unshifted):
    """Scores token t with the logits that predict t + 1."""

    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        table = model(input_ids=ids, attention_mask=real, position_ids=position).logits[:, :-1].log_softmax(-1)
        return table.gather(-1, ids[:, :-1, None]).squeeze(-1), -(table.exp() * table).sum(-1)


class ColdInLossOnly(Reference):
    """Scores at temperature 0.7 and samples at 1."""

    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        table = (model(input_ids=ids, attention_mask=real, position_ids=position).logits[:, :-1] / 0.7).log_softmax(-1)
        return table.gather(-1, ids[:, 1:, None]).squeeze(-1), -(table.exp() * table).sum(-1)


class ReferenceIsThePolicy(Reference):
    """The adapter stays on, or one module is both policy and reference."""

    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        with torch.no_grad():
            return self.scores(self.model, input_ids, attention_mask)[0]


class RewardsDivergence(Reference):
    kl_coef = -0.02


class RawPromptInLoss(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        special = set(self.tok.all_special_ids)
        return super().mask([[i for i in p if i not in special] for p in prompts], responses)


class RawPromptInReference(Reference):
    def reference_logprobs(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        ids = input_ids.clone()
        ids[ids == self.tok.convert_tokens_to_ids("<|start|>")] = 5
        return super().reference_logprobs(ids, attention_mask)


class OtherReference(Reference):
    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            for p in self.reference.parameters():
                p += 0.01 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0))


class PromptLosesFirstToken(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        return super().mask([p[1:] for p in prompts], responses)


class TrainsFallback(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        return super().mask(prompts, [[*r[:-1], 7, r[-1]] if len(r) > 2 else r for r in responses])


class LosesEos(Reference):
    """Decodes without special tokens and encodes again: EOS never reaches the loss."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        texts = [self.tok.decode(r, skip_special_tokens=True) for r in responses]
        rows = [self.tok.encode(t, add_special_tokens=False) for t in texts]
        return super().mask(prompts, [r or [5] for r in rows])


class Retokenises(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        rows = [self.tok.encode(self.tok.decode(r), add_special_tokens=False) for r in responses]
        return super().mask(prompts, rows)


class Dropout(Reference):
    def scores(self, model: Any, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        logp, entropy = super().scores(model, ids, real)
        return (logp * (1 + 0.2 * torch.rand_like(logp)), entropy) if model.training else (logp, entropy)


# -- templates -----------------------------------------------------------------------------------------------------


class SftPlain(Reference):
    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        text = "\n\n".join([*(m["content"] for m in prompt), answer])
        return [*self.tok.encode(text, add_special_tokens=False), self.tok.eos_token_id]


class OneNewline(Reference):
    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        ids = super().render_sft(prompt, answer)
        newline = self.tok.convert_tokens_to_ids("\n")
        at = len(self.render(prompt)) - 1
        assert ids[at] == newline
        return ids[:at] + ids[at + 1 :]


class NewlineBeforeAnswer(Reference):
    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        ids = self.render(prompt)
        newline = self.tok.convert_tokens_to_ids("\n")
        return [*ids[:-1], newline, *super().render_sft(prompt, answer)[len(ids) - 1 :]]


class NewlineLostInLoss(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        return super().mask([p[:-1] for p in prompts], responses)


class SystemTurnLost(Reference):
    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        return super().render_sft([m for m in prompt if m["role"] != "system"], answer)


class DoubleBos(Reference):
    def render(self, prompt: Any) -> list[int]:
        return [self.tok.bos_token_id, self.tok.bos_token_id, *super().render(prompt)]


class LabelsByPad(Reference):
    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        ids, labels = super().collate_sft(prompts, answers)
        return ids, labels.masked_fill(ids == self.tok.pad_token_id, -100)


class LabelsLoseEos(Reference):
    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        ids, labels = super().collate_sft(prompts, answers)
        return ids, labels.masked_fill(ids == self.tok.eos_token_id, -100)


class LabelsOnPrompt(Reference):
    """One token too many of the answer is dropped."""

    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        ids, labels = super().collate_sft(prompts, answers)
        for n, prompt in enumerate(prompts):
            labels[n, len(self.render(prompt))] = -100
        return ids, labels


class GoesOnAfterTurn(Reference):
    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        self.model.generation_config.eos_token_id = self.tok.bos_token_id
        return super().sample(input_ids, attention_mask)


# -- sampler -------------------------------------------------------------------------------------------------------


def _penalised(seen: Callable[[Tensor, int], Tensor]) -> type[Reference]:
    class Penalised(Reference):
        def processors(self, prompt_length: int) -> list[Callable[[Tensor, Tensor], Tensor]]:
            return [lambda tokens, logits: self.penalize(tokens, logits, prompt_length)]

        def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
            logits = logits.clone()
            for n, row in enumerate(seen(tokens, prompt_length)):
                for i in row.unique().tolist():
                    logits[n, i] -= 0.3
            return logits

    return Penalised


PenaltyOverAll = _penalised(lambda tokens, width: tokens)
PenaltyOverLastPromptToken = _penalised(lambda tokens, width: tokens[:, width - 1 :])
PenaltyOverLastPromptTokenOnly = _penalised(lambda tokens, width: tokens[:, width - 1 : width])
PenaltyOverPromptOnly = _penalised(lambda tokens, width: tokens[:, :width])
PenaltyOverResponse = _penalised(lambda tokens, width: tokens[:, width:])


class HuggingFacePenalty(Reference):
    def generation(self) -> dict[str, Any]:
        return super().generation() | {"repetition_penalty": 1.3}


class TopK(Reference):
    def generation(self) -> dict[str, Any]:
        return super().generation() | {"top_k": 5}


class TopP(Reference):
    def generation(self) -> dict[str, Any]:
        return super().generation() | {"top_p": 0.9}


class Hot(Reference):
    temperature = 1.5


class LossAtOne(Reference):
    """Samples at temperature 1.5 and scores at 1."""

    def generation(self) -> dict[str, Any]:
        return super().generation() | {"temperature": 1.5}


class Twice(Hot):
    def processors(self, prompt_length: int) -> list[Callable[[Tensor, Tensor], Tensor]]:
        return [lambda tokens, logits: logits / self.temperature]


class TwiceCold(Twice):
    temperature = 0.5


class Greedy(Hot):
    def generation(self) -> dict[str, Any]:
        return {"do_sample": False, "max_new_tokens": 16}


class TemperatureLost(Hot):
    def generation(self) -> dict[str, Any]:
        return super().generation() | {"temperature": 1.0}


class TrainMode(Reference):
    def __init__(self) -> None:
        super().__init__()
        self.model.gradient_checkpointing_enable()

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.model.generate(
            input_ids=input_ids, attention_mask=attention_mask, pad_token_id=self.tok.pad_token_id, **self.generation()
        )


class ForcesTrainMode(TrainMode):
    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        self.model.train()
        return super().sample(input_ids, attention_mask)


class Stale(Reference):
    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        policy, self.model = self.model, self.reference
        try:
            return super().sample(input_ids, attention_mask)
        finally:
            self.model = policy


# -- advantages ----------------------------------------------------------------------------------------------------


class IndexRanks(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        ranks = rewards.argsort(dim=1, stable=True).argsort(1).float()
        return 2 * ranks / max(rewards.shape[1] - 1, 1) - 1


class Uncentred(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return rewards / (rewards.std() + 1e-4)


class OwnGroups(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return rewards.clone()


class WrongGroups(Reference):
    """Treats interleaved groups as consecutive ones."""

    def advantages(self, rewards: Tensor) -> Any:
        groups, size = rewards.shape
        mixed = rewards.t().reshape(groups, size)
        return super().advantages(mixed).reshape(size, groups).t()


class BatchCentred(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


class Backwards(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return -super().advantages(rewards)


class VarianceForStd(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.var(1, keepdim=True) + 1e-4)


class NoEpsilon(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True, correction=0)


class NanForOne(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


# -- objective -----------------------------------------------------------------------------------------------------


class FlippedEntropy(Reference):
    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        return -super().entropy_term(entropy, logp, mask, advantages)


class FlippedForPositive(Reference):
    """The entropy sign is wrong only in the branch of samples with a positive advantage."""

    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        sign = torch.where(advantages > 0, -1.0, 1.0)[:, None]
        return -self.entropy_coef * (sign * entropy * mask).sum() / mask.sum()


class FlippedForLong(Reference):
    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        sign = torch.where(mask.sum(1) > 4, -1.0, 1.0)[:, None]
        return -self.entropy_coef * (sign * entropy * mask).sum() / mask.sum()


class FlippedInSurgery(Reference):
    """The logged loss is correct; the gradient that is written into p.grad is not."""

    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        parameters = list(self.model.parameters())
        coefficient, self.entropy_coef = self.entropy_coef, 0.0
        rest = torch.autograd.grad(self.loss(prompts, responses, advantages), parameters)
        self.entropy_coef = coefficient
        whole = torch.autograd.grad(self.loss(prompts, responses, advantages), parameters)
        for p, a, b in zip(parameters, whole, rest, strict=True):
            p.grad = b - (a - b)


class EntropyOnPrompt(Reference):
    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        return super().entropy_term(entropy, logp, 1 - mask, advantages)


class EntropyEverywhere(Reference):
    """The mean also covers prompt and padding."""

    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        return -self.entropy_coef * entropy.mean()


class Surrogate(Reference):
    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        return self.entropy_coef * (logp * mask).sum() / mask.sum()


class LogsAnotherLoss(Reference):
    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        super().backward(prompts, responses, advantages.clamp(min=0), micro_batches)


class Overwrites(Reference):
    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = slice(start, start + size)
            self.model.zero_grad()
            torch.autograd.backward(self.loss(prompts[part], responses[part], advantages[part]) / micro_batches)


class NeverDivides(Reference):
    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = slice(start, start + size)
            torch.autograd.backward(self.loss(prompts[part], responses[part], advantages[part]))


class DividesTwice(Reference):
    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        super().backward(prompts, responses, advantages, micro_batches)
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad /= micro_batches


# -- update --------------------------------------------------------------------------------------------------------


class OptimizerOfACopy(Reference):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.AdamW(self.reference.requires_grad_(True).parameters(), lr=1e-3)


class HeadForgotten(Reference):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.AdamW(self.model.model.parameters(), lr=1e-3)


class ForgetsToStep(Reference):
    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        self.backward(prompts, responses, advantages)


class Frozen(Reference):
    def __init__(self) -> None:
        super().__init__()
        self.model.requires_grad_(False)


# -- right, and written differently ---------------------------------------------------------------------------------


class RightPadded(Reference):
    """All rows are left-aligned."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
        width = max(map(len, rows))
        ids = torch.tensor([r + [self.tok.pad_token_id] * (width - len(r)) for r in rows])
        real = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows])
        mask = torch.zeros(len(rows), width - 1)
        for n, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            mask[n, len(prompt) - 1 : len(prompt) + len(response) - 1] = 1
        return Batch(ids, real, mask)


class RightPaddedResponses(Reference):
    """Prompts padded on the left, responses on the right, and a mask as wide as the responses: TRL's layout."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        p, r = max(map(len, prompts)), max(map(len, responses))
        pad = self.tok.pad_token_id
        pairs = list(zip(prompts, responses, strict=True))
        ids = torch.tensor([[pad] * (p - len(a)) + a + b + [pad] * (r - len(b)) for a, b in pairs])
        real = torch.tensor([[0] * (p - len(a)) + [1] * (len(a) + len(b)) + [0] * (r - len(b)) for a, b in pairs])
        return Batch(ids, real, real[:, p:])


class BoolMask(Reference):
    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        return super().response_mask(ids, lengths).bool()


class IntMaskOverTokens(Reference):
    def response_mask(self, ids: Tensor, lengths: list[int]) -> Any:
        mask = super().response_mask(ids, lengths).int()
        return torch.nn.functional.pad(mask, (1, 0))

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        return super().loss(prompts, responses, advantages)


class NestedIds(Reference):
    def render(self, prompt: Any) -> Any:
        return [super().render(prompt)]

    def mask(self, prompts: Any, responses: Any) -> Any:
        return tuple(super().mask(prompts, responses))

    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        return Flat.collate_sft(self, prompts, answers)  # type: ignore[arg-type]

    def render_sft(self, prompt: Any, answer: str) -> Any:
        return torch.tensor([Flat.render_sft(self, prompt, answer)])  # type: ignore[arg-type]

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        plain = Reference.render
        object.__setattr__(self, "render", lambda prompt: plain(self, prompt))
        try:
            return super().loss(prompts, responses, advantages)
        finally:
            object.__delattr__(self, "render")


class Flat(Reference):
    """Extraction gives one flat list of ids."""

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return [i for row in super().extract(tokens, input_ids, attention_mask) for i in row]

    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        ids = Reference.render(self, prompt)
        return [*ids, *self.tok.encode(answer, add_special_tokens=False), self.tok.eos_token_id]

    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        plain = Reference()
        return plain.collate_sft(prompts, answers)


class TensorExtraction(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return tokens[:, input_ids.shape[1] :]


class TextExtraction(Reference):
    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.tok.batch_decode(tokens[:, input_ids.shape[1] :], skip_special_tokens=True)


class PopulationStd(Reference):
    ddof = 0


class CentredOnly(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return rewards - rewards.mean(1, keepdim=True)


class BatchStd(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(correction=0) + 1e-4)


class NumpyAdvantages(Reference):
    def advantages(self, rewards: Tensor) -> Any:
        return super().advantages(rewards).numpy().flatten()


class EntropyLossAdded(Reference):
    """The term is defined as a loss, -H, and added."""

    def entropy_term(self, entropy: Tensor, logp: Tensor, mask: Tensor, advantages: Tensor) -> Tensor:
        entropy_loss = -(entropy * mask).sum() / mask.sum()
        return self.entropy_coef * entropy_loss


class RightSurgery(Reference):
    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        parameters = list(self.model.parameters())
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = slice(start, start + size)
            loss = self.loss(prompts[part], responses[part], advantages[part])
            loss = loss * self.share(responses[part], responses)
            for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                p.grad = g if p.grad is None else p.grad + g


class EvalModeSampler(TrainMode):
    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return Reference.sample(self, input_ids, attention_mask)


class WithoutCache(TrainMode):
    """Train mode with checkpointing, but without a cache: slow and correct."""

    def generation(self) -> dict[str, Any]:
        return super().generation() | {"use_cache": False}


class PaddingEverywhere(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        pad = (8, 0)
        ids = torch.nn.functional.pad(batch.input_ids, pad, value=self.tok.pad_token_id)
        return Batch(ids, torch.nn.functional.pad(batch.attention_mask, pad), torch.nn.functional.pad(batch.mask, pad))
