"""A second set of wrong and correct variants, each one line different from the reference trainer.

Most provide only the composite entry points, as custom trainers do: a probe then has only the gradient.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes
from tests.probes.open_notes import open_notes
from tests.probes.reference import Reference

COMPOSITE = ("rollout", "loss")


def twin(**methods: Callable[..., Any]) -> type[Reference]:
    """The reference with other methods; each takes the original trainer first."""
    return type("Twin", (Reference,), methods)


@functools.cache
def adapting(*seams: str, pad_is_eos: bool = False) -> Callable[[type[Reference]], Adapter]:
    """Return a function that makes the adapter with these entry points, or with all, of a kind of trainer."""

    def adapted(kind: type[Reference]) -> Adapter:
        torch.set_num_threads(1)
        trainer = kind(pad_is_eos)
        more = {"penalize": trainer.penalize} if hasattr(trainer, "penalize") and not seams else {}
        return trainer.adapter(*seams, **more)

    return adapted


def probed(kind: type[Reference], *seams: str) -> Diagnosis:
    return run_probes(adapting(*seams)(kind))


def bounded(s: Reference, ratio: Tensor) -> Tensor:
    return ratio.clamp(1 - s.epsilon, 1 + s.epsilon)


class LastLost(Reference):
    """Drops the last token, in long responses only."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        for n, response in enumerate(responses):
            batch.mask[n, -1] *= len(response) < 6
        return batch


class BosBetween(Reference):
    def mask(self, prompts: Any, responses: Any) -> Any:
        return super().mask([[*p, self.tok.bos_token_id] for p in prompts], responses)


class PenaltyOverEarlier(Reference):
    """The penalty also covers the previous completions."""

    def penalize(self, tokens: Tensor, logits: Tensor, prompt_length: int) -> Tensor:
        seen = self.__dict__.setdefault("seen", torch.zeros(logits.shape[-1]))
        out: Tensor = logits - 0.5 * seen
        seen[tokens[:, prompt_length:].flatten()] = 1.0
        return out


class KlOverPrompt(Reference):
    def objective(self, logp: Any, old: Any, reference: Any, advantages: Any, mask: Any, entropy: Any) -> Tensor:
        policy = -self.surrogate((logp - old).exp(), advantages[:, None])
        kl = self.kl_coef * self.divergence(logp, reference).mean()
        return self.averaged(policy, mask) + kl + self.entropy_term(entropy, logp, mask, advantages)


class Maximises(Reference):
    def __init__(self, pad_is_eos: bool = False) -> None:
        super().__init__(pad_is_eos)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, maximize=True)


class NoHeader(Reference):
    """RL renders without the generation header, and the supervised stage with it."""

    def render(self, prompt: Any) -> list[int]:
        return list(self.tok.apply_chat_template(prompt, tokenize=True, add_generation_prompt=False)["input_ids"])

    def render_sft(self, prompt: Any, answer: str) -> list[int]:
        whole = [*Reference.render(self, prompt), *self.tok.encode(answer, add_special_tokens=False)]
        return [*whole, self.tok.eos_token_id]


class PadLabelled(Reference):
    def collate_sft(self, prompts: Any, answers: Any) -> tuple[Tensor, Tensor]:
        ids, labels = super().collate_sft(prompts, answers)
        return ids, torch.where(ids == self.tok.pad_token_id, ids, labels)


def objective_with(change: Callable[[Tensor], Tensor]) -> type[Reference]:
    """The objective gets advantages other than the given ones."""
    return twin(objective=lambda s, p, o, r, a, k, e: Reference.objective(s, p, o, r, change(a), k, e))


def entropy_sign(sign: Callable[[Tensor], Tensor]) -> type[Reference]:
    return twin(entropy_term=lambda s, e, p, k, a: -s.entropy_coef * (sign(a)[:, None] * e * k).sum() / k.sum())


def advantages(function: Callable[[Reference, Tensor], Any]) -> type[Reference]:
    return twin(advantages=function)


right = Reference.advantages

BROKEN: list[tuple[str, str, type[Reference], tuple[str, ...]]] = [
    ("longest only in the batch", "PAD001", twin(extract=lambda s, t, i, r: [x[int(r[0].sum()) :] for x in t.tolist()]), COMPOSITE),
    ("last token of a long response", "PAD002", LastLost, ()),
    ("loss ignores the mask", "PAD002", twin(averaged=lambda s, x, k: x.mean()), ()),
    ("loss shifts the mask", "PAD002", twin(averaged=lambda s, x, k: Reference.averaged(s, x, k.roll(1, 1))), ()),
    ("KL over the prompt", "PAD002", KlOverPrompt, ()),
    ("log-probabilities rolled", "PAD002", twin(scores=lambda s, m, i, r: tuple(x.roll(1, 1) for x in Reference.scores(s, m, i, r))), COMPOSITE),
    ("BOS before the response", "KL006", BosBetween, COMPOSITE),
    ("penalty over the completion before", "TOK006", PenaltyOverEarlier, ()),
    ("first sample only", "RAT007", twin(averaged=lambda s, x, k: (x * k).sum(1)[0]), COMPOSITE),
    ("optimizer maximises", "STL004", Maximises, ()),
    ("generation header missing", "TOK001", NoHeader, ()),
    ("padding labelled", "TOK003", PadLabelled, ()),
    ("absolute values", "ADV006", advantages(lambda s, r: right(s, r).abs()), ("advantages",)),
    ("last group lost", "ADV006", advantages(lambda s, r: torch.cat([right(s, r)[:-1], 0 * r[-1:]])), ("advantages",)),
    ("deviation over the groups", "ADV007", advantages(lambda s, r: (r - r.mean(1, keepdim=True)) / (r.std(0, keepdim=True, correction=0) + 1e-4)), ("advantages",)),
    ("ties through a tiny epsilon", "ADV005", advantages(lambda s, r: (r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True, correction=0) + 1e-12)), ("advantages",)),
    ("entropy flipped for negatives", "ENT006", entropy_sign(lambda a: torch.where(a < 0, -1.0, 1.0)), COMPOSITE),
    ("entropy flipped in dead batches", "ENT006", entropy_sign(lambda a: torch.where(a == 0, -1.0, 1.0)), ()),
    ("entropy shifted by one", "ENT006", twin(entropy_term=lambda s, e, p, k, a: Reference.entropy_term(s, e.roll(1, 1), p, k, a)), ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "kind", "seams"), BROKEN, ids=[f"{c}-{n}" for n, c, *_ in BROKEN])
def test_a_wrong_variant_is_flagged_by_its_probe(
    name: str, code: str, kind: type[Reference], seams: tuple[str, ...]
) -> None:
    diagnosis = run_probes(adapting(*seams)(kind), catalogue=load().select([code]))
    assert (diagnosis.cause, diagnosis.verdict) == (code, "failing"), diagnosis.coverage.skipped


def test_a_large_epsilon_in_the_normalisation_is_a_warning() -> None:
    def normalised(_: Reference, r: Tensor) -> Tensor:
        return (r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True, correction=0) + 1e-8)

    diagnosis = probed(advantages(normalised), "advantages")
    assert [(f.code, f.severity) for f in diagnosis.findings[:1]] == [("ADV005", "warning")]
    assert diagnosis.verdict == "suspect"
    assert "and epsilon is too small" in diagnosis.findings[0].message


class WarmsUp(Reference):
    """A learning rate that rises from 0; gradients are zeroed after the step, not before it."""

    def __init__(self, pad_is_eos: bool = False) -> None:
        super().__init__(pad_is_eos)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: step / 10)

    def step(self, prompts: Any, responses: Any, advantages: Tensor) -> None:
        self.backward(prompts, responses, advantages)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()


class Mapped(WarmsUp):
    """`mask` returns a mapping of lists, with an attention mask of booleans."""

    def mask(self, prompts: Any, responses: Any) -> Any:
        batch = super().mask(prompts, responses)
        return {
            name: value.tolist() for name, value in batch._replace(attention_mask=batch[1].bool())._asdict().items()
        }

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        plain = copy.copy(self)
        plain.__class__ = Reference  # type: ignore[assignment]
        return plain.loss(prompts, responses, advantages)


RIGHT: list[tuple[str, type[Reference], tuple[str, ...]]] = [
    ("objective alone", Reference, ("objective",)),
    ("old detached, max of the negatives, k2, constant divisor, entropy summed, tuples", twin(
        old_logprobs=lambda s, i, r, p: p.detach(), divergence=lambda s, p, r: 0.5 * (p - r) ** 2,
        surrogate=lambda s, r, a: -torch.max(-r * a, -bounded(s, r) * a),
        averaged=lambda s, x, k: (x * k).sum() / (len(x) * 64),
        entropy_term=lambda s, e, p, k, a: -s.entropy_coef * (e * k).sum(),
        extract=lambda s, t, i, r: tuple(map(tuple, Reference.extract(s, t, i, r)))), COMPOSITE),
    ("no clip, no KL, no entropy, selected tokens", twin(
        surrogate=lambda s, r, a: r * a, averaged=lambda s, x, k: x[k > 0].mean(), kl_coef=0.0,  # type: ignore[arg-type]
        entropy_coef=0.0), COMPOSITE),  # type: ignore[arg-type]
    ("mean over each sequence, k1 in the loss", twin(
        averaged=lambda s, x, k: ((x * k).sum(1) / k.sum(1)).mean(), share=lambda s, part, whole: len(part) / len(whole),
        entropy_term=lambda s, e, p, k, a: -s.entropy_coef * s.averaged(e, k), divergence=lambda s, p, r: p - r), ()),
    ("warm-up, zeroes after the step, mapping of lists", Mapped, ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "seams"), RIGHT, ids=[name for name, *_ in RIGHT])
def test_a_right_variant_is_not_flagged(name: str, kind: type[Reference], seams: tuple[str, ...]) -> None:
    diagnosis = probed(kind, *seams)
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])


RIGHT_ADVANTAGES: dict[str, Callable[[Reference, Tensor], Any]] = {
    "leave one out": lambda s, r: r - (r.sum(1, keepdim=True) - r) / max(r.shape[1] - 1, 1),
    "lists": lambda s, r: right(s, r).tolist(),
    "half precision": lambda s, r: right(s, r).bfloat16(),
}


@pytest.mark.parametrize("name", RIGHT_ADVANTAGES)
def test_right_advantages_are_not_flagged(name: str) -> None:
    diagnosis = probed(advantages(RIGHT_ADVANTAGES[name]), "advantages")
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert {"ADV005", "ADV006"} <= {*diagnosis.coverage.passed_codes}
