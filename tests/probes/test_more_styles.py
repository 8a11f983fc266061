"""Row by row with RLOO; flat rows of turns with the losses of DAPO, GSPO and CISPO; PPO with a critic that learns."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from tests.probes.open_notes import open_notes
from tests.probes.styles import Left, Packed, Scores
from tests.probes.test_styles import agree_with_one_row
from tests.probes.test_turns import ByHand

TWO = ("rollout", "loss")


class Quotient(Left):
    """Divides probabilities instead of exponentiating differences."""

    def ratio(self, new: Tensor, old: Tensor) -> Tensor:
        return new.exp() / old.exp()


class Halves(Left):
    """The loss splits its batch into two parts, each weighted by its share of the tokens."""

    weighed = True

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        total, size = torch.tensor(0.0), max(1, len(prompts) // 2)
        for n in range(0, len(prompts), size):
            part = prompts[n : n + size], responses[n : n + size]
            share = self.share(part, (prompts, responses)) if self.weighed else len(part[0]) / len(prompts)
            total = total + share * super().loss(*part, advantages[n : n + size])
        return total


class Rows(Left):
    """Each sample in a separate forward pass, without padding; RLOO, whose loss has no ratio and no clip."""

    kl_coef = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(old=False, **options)

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        rows = [self.alone(model, p, r) for p, r in zip(prompts, responses, strict=True)]
        parts = [*zip(*rows, strict=True), [torch.ones(len(logprobs)) for logprobs, _ in rows]]
        return Scores(*(torch.nn.utils.rnn.pad_sequence(list(part), batch_first=True) for part in parts))

    def alone(self, model: Any, prompt: list[int], response: list[int]) -> tuple[Tensor, Tensor]:
        """(R,) log-probabilities and entropies of one sample."""
        ids = torch.tensor([[*prompt, *response]])
        values = self.gathered(self.logits(model, ids)[:, :-1], ids[:, 1:])
        first, last = self.places(len(prompt), len(response))
        return values[0][0, first:last], values[1][0, first:last]

    def places(self, prompt: int, response: int) -> tuple[int, int]:
        return prompt - 1, prompt + response - 1

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        gain = (new.logprobs * new.mask).sum(1) * advantages[:, 0]
        return -gain.mean() + self.entropy_term(new.entropy, new.mask)

    def advantages(self, rewards: Tensor) -> Tensor:
        return (rewards - rewards.mean(1, keepdim=True)) * rewards.shape[1] / (rewards.shape[1] - 1)

    def share(self, part: tuple[Any, Any], whole: tuple[Any, Any]) -> float:
        return len(part[0]) / len(whole[0])


class Flat(Packed, ByHand):
    """Conversations concatenated in one row, with their boundaries; a custom sampling loop; DAPO's clip and mean."""

    high = 0.28

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        found = super().scores(model, prompts, responses)
        mask = found.mask.clone()
        ends = itertools.accumulate(len(p) + len(r) for p, r in zip(prompts, responses, strict=True))
        for end, response in zip(ends, responses, strict=True):
            mask[0, end - 1 - len(response) : end - 1] = torch.tensor(self.spoken(response))
        self.bounds = [len(p) + len(r) for p, r in zip(prompts, responses, strict=True)]
        return found._replace(mask=mask)

    def surrogate(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        return torch.min(ratio * advantages, ratio.clamp(1 - self.epsilon, 1 + self.high) * advantages)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"epsilon_high": self.high}

    def parts(self, table: Tensor) -> tuple[Tensor, ...]:
        """Return the part of a table (1, T - 1) that belongs to each conversation."""
        return torch.split(torch.nn.functional.pad(table, (1, 0))[0], self.bounds)


class Sequences(Flat):
    """GSPO: one ratio per conversation, from the mean over its tokens."""

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        rows = zip(*map(self.parts, (new.logprobs, old, reference, advantages, new.mask)), strict=True)
        return torch.stack([self.of_one(*row) for row in rows]).mean()

    def share(self, part: tuple[Any, Any], whole: tuple[Any, Any]) -> float:
        return len(part[0]) / len(whole[0])

    def of_one(self, new: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        ratio = (((new - old) * mask).sum() / mask.sum()).exp()
        divergence = (self.divergence(new, reference) * mask).sum() / mask.sum()
        return self.kl_coef * divergence - self.surrogate(ratio, advantages[-1])


class Weighted(Flat):
    """CISPO: the clipped ratio is a weight without gradient."""

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        weight = self.ratio(new.logprobs, old).detach().clamp(max=1 + self.high)
        per_token = self.kl_coef * self.divergence(new.logprobs, reference) - weight * advantages * new.logprobs
        return self.averaged(per_token, new.mask)


class Critic(Left):
    """PPO: a value head on the hidden states, trained in the same loss; an advantage for every token by GAE."""

    kl_coef = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        torch.manual_seed(1)
        self.head = torch.nn.Linear(32, 1)
        self.optimizer.add_param_group({"params": list(self.head.parameters())})

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        ids, real, trained = self.batch(prompts, responses)
        position = (real.cumsum(-1) - 1).clamp(min=0)
        out = model(input_ids=ids, attention_mask=real, position_ids=position, output_hidden_states=True)
        self.values = self.head(out.hidden_states[-1][:, :-1].detach())[..., 0]
        return Scores(*self.gathered(out.logits[:, :-1], ids[:, 1:]), trained[:, 1:])

    def gains(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return (N, T - 1) advantages by GAE, from scores (N,) at the last tokens."""
        values, gain, out = self.values.detach() * mask, torch.zeros(len(mask)), []
        after = torch.nn.functional.pad(mask, (0, 1))
        following = torch.nn.functional.pad(values, (0, 1))
        for t in reversed(range(mask.shape[1])):
            last = mask[:, t] * (after[:, t + 1] == 0)
            gain = (last * scores + following[:, t + 1] - values[:, t] + 0.95 * gain) * mask[:, t]
            out.append(gain)
        return torch.stack(out[::-1], 1)

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        mask = new.mask.float()
        gains = self.gains(advantages[:, 0], mask)
        learnt = (self.values - (gains + self.values.detach())).square()
        return self.averaged(0.5 * learnt - self.surrogate(self.ratio(new.logprobs, old), gains), mask)


class CutFirst(Left):
    """Removes the last token of every sample before it pads on the right, so that padding replaces it; sorts the rows
    by length, and divides the logits by the temperature in place."""

    def __init__(self, **options: Any) -> None:
        super().__init__(temperature=0.7, **options)

    def taught(self, prompt: int, response: int) -> list[int]:
        """Return which of the tokens after the first are trained."""
        return [0] * (prompt - 1) + [1] * response

    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        pairs = sorted(zip(prompts, responses, range(len(prompts)), strict=True), key=lambda row: len(row[0] + row[1]))
        whole = [[*p, *r] for p, r, _ in pairs]
        ids, labels, mask, real = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, filler)
            for rows, filler in (
                ([row[:-1] for row in whole], self.pad),
                ([row[1:] for row in whole], self.pad),
                ([self.taught(len(p), len(r)) for p, r, _ in pairs], 0),
                ([[1] * (len(row) - 1) for row in whole], 0),
            )
        )
        logits = self.logits(model, ids, attention_mask=real)
        logits /= self.temperature
        table = logits.log_softmax(-1)
        values = table.gather(-1, labels[..., None]).squeeze(-1), -(table.exp() * table).sum(-1), mask
        back = torch.tensor([n for _, _, n in pairs]).argsort()
        return Scores(*(value[back] for value in values))


# right ------------------------------------------------------------------------------------------------------------


def probed(trainer: Left, *codes: str, seams: tuple[str, ...] = TWO, named: bool = True) -> Diagnosis:
    torch.set_num_threads(1)
    adapter = trainer.adapter(*seams)
    if not named:
        adapter.reference = None
    return run_probes(adapter, catalogue=load().select(codes))


def told(diagnosis: Diagnosis) -> list[str]:
    return [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"]


@pytest.mark.parametrize(("kind", "seams"), [(Rows, ()), (Critic, ()), (CutFirst, TWO)])
def test_a_correct_trainer_is_healthy_without_open_notes(kind: type[Left], seams: tuple[str, ...]) -> None:
    trainer = kind()
    agree_with_one_row(trainer, exact=True)
    diagnosis = probed(trainer, seams=seams)
    assert (told(diagnosis), diagnosis.verdict, open_notes(diagnosis)) == ([], "healthy", [])


@pytest.mark.parametrize("kind", [Flat, Sequences, Weighted, Halves])
def test_two_functions_of_a_right_trainer_are_not_flagged(kind: type[Left]) -> None:
    codes = ["PAD002", "PAD004", "RAT007", "KL006"]
    codes += {Halves: ["GRD006"], Flat: ["GEN005", "KL004", "PAD001", "TOK004"]}.get(kind, [])
    diagnosis = probed(kind(), *codes)
    assert (told(diagnosis), open_notes(diagnosis), sorted(diagnosis.coverage.passed_codes)) == ([], [], sorted(codes))


def test_a_quotient_of_probabilities_is_reported_as_what_it_risks() -> None:
    (finding,) = probed(Quotient(), "GRD001", "RAT007", "PAD002", "KL004").findings
    assert finding.code == "GRD001"
    assert "(ratio 1)" in finding.message


def test_judges_the_penalty_by_passes_without_gradient_if_no_reference_is_named() -> None:
    assert probed(Flat(), "KL004", named=False).coverage.passed_codes == ["KL004"]
    assert [f.code for f in probed(TowardsIt(), "KL004", named=False).findings] == ["KL004"]


# wrong ------------------------------------------------------------------------------------------------------------


class TowardsIt(Flat):
    kl_coef = -0.02


class OneLate(Rows):
    """Loses the first token of a response that has two or more."""

    def places(self, prompt: int, response: int) -> tuple[int, int]:
        return prompt - (response < 2), prompt + response - 1


class PromptsToo(Rows):
    def places(self, prompt: int, response: int) -> tuple[int, int]:
        return prompt - 3, prompt + response - 1


class Repelled(Rows):
    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        return super().objective(new, old, reference, -advantages)


class Uneven(Halves):
    weighed = False


class ToolsTrained(Flat):
    def spoken(self, response: list[int]) -> list[int]:
        return [1] * len(response)


class Seen(Flat):
    """Each conversation sees the previous ones, and positions continue."""

    def logits(self, model: Any, ids: Tensor, **more: Any) -> Tensor:
        return super().logits(model, ids)


class MaxForMin(Flat):
    def surrogate(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        return torch.max(ratio * advantages, ratio.clamp(1 - self.epsilon, 1 + self.high) * advantages)


class OldForNew(Sequences):
    def of_one(self, new: Tensor, old: Tensor, *rest: Tensor) -> Tensor:
        return super().of_one(old, new, *rest)


class NothingButWeights(Weighted):
    """The weight keeps its gradient, and the log-probability has none."""

    def objective(self, new: Scores, old: Tensor, reference: Tensor, advantages: Tensor) -> Tensor:
        weight = self.ratio(old, new.logprobs).clamp(max=1 + self.high)
        return -self.averaged(weight * advantages, new.mask)


class GoesOn(Flat):
    stops = False


class Reversed(Critic):
    def gains(self, scores: Tensor, mask: Tensor) -> Tensor:
        return super().gains(-scores, mask)


class LosesTheEnd(CutFirst):
    def scores(self, model: Any, prompts: Any, responses: Any) -> Scores:
        end = self.tok.eos_token_id
        return super().scores(model, prompts, [r[:-1] if r[-1] == end and len(r) > 1 else r for r in responses])


class LeavesOutTheLast(CutFirst):
    """Looks the same from outside: the model does not get the last token either."""

    def taught(self, prompt: int, response: int) -> list[int]:
        return [0] * (prompt - 1) + [1] * (response - 1) + [0]


class Everything(Critic):
    """The mean also covers prompts and padding."""

    def averaged(self, per_token: Tensor, mask: Tensor) -> Tensor:
        return per_token.mean()


WRONG = [
    (OneLate, "PAD002"), (PromptsToo, "PAD002"), (Repelled, "RAT007"), (Uneven, "GRD006"), (ToolsTrained, "PAD002"),
    (Seen, "PAD004"), (MaxForMin, "RAT007"), (OldForNew, "RAT007"), (NothingButWeights, "RAT007"), (GoesOn, "TOK004"),
    (Reversed, "RAT007"), (Everything, "PAD002"), (LosesTheEnd, "GEN005"), (LeavesOutTheLast, "GEN005"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "code"), WRONG)
def test_a_wrong_one_is_named_by_the_right_code(kind: type[Left], code: str) -> None:
    assert code in {f.code for f in probed(kind(), code).findings}
