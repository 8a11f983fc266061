"""Trainers whose loss whitens its advantages without an epsilon: equal advantages, or a single one, give nothing, NaN,
or a division by 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from tests.probes.broken_styles import given
from tests.probes.open_notes import open_notes
from tests.probes.styles import Left, Shifted


def probed(trainer: Left, *codes: str) -> Diagnosis:
    torch.set_num_threads(1)
    catalogue = load().select(codes) if codes else load()
    return run_probes(trainer.adapter("rollout", "loss"), catalogue=catalogue)


class Whitens(Left):
    """A tensor divided by its standard deviation: NaN for equal advantages, and for a single one."""

    def whitened(self, advantages: Tensor) -> Tensor:
        return (advantages - advantages.mean()) / advantages.std()

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        return super().loss(prompts, responses, self.whitened(advantages))


class InNumbers(Whitens):
    """Python numbers divided by their standard deviation: ZeroDivisionError."""

    def whitened(self, advantages: Tensor) -> Tensor:
        values = advantages.tolist()
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
        return torch.tensor([(v - mean) / deviation for v in values])


class WithEpsilon(Whitens):
    def whitened(self, advantages: Tensor) -> Tensor:
        return (advantages - advantages.mean()) / (advantages.std() + 1e-6)


@pytest.mark.parametrize(("kind", "entropy"), [(Whitens, 0.05), (InNumbers, 0.0), (WithEpsilon, 0.0)])
def test_a_right_trainer_that_whitens_is_not_flagged(kind: type[Whitens], entropy: float) -> None:
    expected = {"PAD002", "PAD004", "RAT003", "RAT007", "STL004", "KL003", "KL004", "KL006", "GEN004"}
    expected |= {"ENT006", "ENT011"} if entropy else set()
    diagnosis = probed(kind(entropy=entropy), *expected, "GRD", "GEN005")
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])
    assert expected <= set(diagnosis.coverage.passed_codes)


BROKEN: list[tuple[str, str, dict[str, Any]]] = [
    ("sign lost", "RAT007", {"whitened": lambda s, a: -Whitens.whitened(s, a)}),
    ("clip alone", "RAT007", {"surrogate": lambda s, ratio, a: ratio.clamp(0.8, 1.2) * a}),
    ("KL of the wrong sign", "KL004", {"divergence": lambda s, new, ref: -Left.divergence(s, new, ref)}),
    ("mask one late", "PAD002", {"scores": lambda s, *x: (f := Left.scores(s, *x))._replace(mask=f.mask.roll(1, 1))}),
    ("entropy of the wrong sign", "ENT006", {"entropy_term": lambda s, e, m: -Left.entropy_term(s, e, m)}),
    ("entropy detached", "ENT011", {"entropy_term": lambda s, e, m: Left.entropy_term(s, e.detach(), m)}),
]


@pytest.mark.parametrize(("code", "methods"), [pytest.param(c, m, id=n) for n, c, m in BROKEN])
@pytest.mark.parametrize("kind", [Whitens, InNumbers])
def test_a_wrong_trainer_that_whitens_is_named(kind: type[Whitens], code: str, methods: dict[str, Any]) -> None:
    trainer = type("Faulty", (kind,), methods)(entropy=0.05 if code.startswith("ENT") else 0.0)
    assert [f.code for f in probed(trainer, code).findings] == [code]


@pytest.mark.parametrize("kind", [Whitens, InNumbers, WithEpsilon])
def test_finds_padding_counted_as_text_without_an_advantage_of_one_sample(kind: type[Whitens]) -> None:
    logits = given(attention_mask=lambda m: None)["logits"]
    own = {
        "logits": lambda s, model, ids, **more: logits(s, lambda *a, **k: Left.logits(s, *a, **k), model, ids, **more)
    }
    assert [f.code for f in probed(type("Faulty", (kind,), own)(), "PAD004").findings] == ["PAD004"]


# -- the penalty to the reference of a trainer that takes padding for text, or weighs by the sample -------------------


class ReadsPadding(Left):
    """Scores prompts of unequal length without their attention mask, with much padding."""

    def logits(self, model: Any, ids: Tensor, **more: Any) -> Tensor:
        return super().logits(model, ids)


class AwayFromReference(ReadsPadding):
    def divergence(self, new: Tensor, reference: Tensor) -> Tensor:
        return -super().divergence(new, reference)


def test_a_penalty_is_judged_on_samples_without_padding() -> None:
    assert probed(ReadsPadding(arch="gpt2"), "KL004").findings == []
    assert [f.code for f in probed(AwayFromReference(arch="gpt2"), "KL004").findings] == ["KL004"]


class MeanOfMeans(Left):
    def averaged(self, per_token: Tensor, mask: Tensor) -> Tensor:
        return ((per_token * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


class K1(MeanOfMeans):
    def divergence(self, new: Tensor, reference: Tensor) -> Tensor:
        return new - reference


class MinusK1(MeanOfMeans):
    def divergence(self, new: Tensor, reference: Tensor) -> Tensor:
        return reference - new


@pytest.mark.parametrize(
    ("kind", "words"), [(MeanOfMeans, ""), (K1, "is k1: its"), (MinusK1, "is ref - new (k1 with the wrong sign): its")]
)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_k1_is_recognised_with_any_token_weights(kind: type[Left], words: str, temperature: float) -> None:
    found = probed(kind(temperature=temperature), "KL005").findings
    assert len(found) == bool(words)
    assert all(words in f.message for f in found)


# -- an optimizer that maximises, with a step of the trainer's own ---------------------------------------------------


class Descends(Left):
    def backward(self, prompts: Any, responses: Any, advantages: Tensor, micro_batches: int = 1) -> None:
        torch.autograd.backward(-self.loss(prompts, responses, advantages))


@pytest.mark.parametrize(("kind", "fires"), [(Left, False), (Shifted, False), (Descends, True)])
@pytest.mark.parametrize("maximize", [True, False])
def test_a_step_is_compared_with_what_its_optimizer_maximises(kind: type[Left], fires: bool, maximize: bool) -> None:
    adapter = kind(maximize=maximize).adapter("rollout", "loss", "step")
    found = run_probes(adapter, catalogue=load().select(["ENT007"])).findings
    assert [f.code for f in found] == ["ENT007"] * fires
