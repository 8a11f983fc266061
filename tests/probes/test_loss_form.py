"""The form of losses with known answers, written from the formulas of TRL, verl and OpenRLHF."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.probes.loss_form import LossForm, loss_form
from tests.probes.reference import PROMPTS, Reference

Aggregation = Callable[[Tensor, Tensor], Tensor]
AGGREGATIONS: dict[str, Aggregation] = {
    "token mean": lambda x, m: (x * m).sum() / m.sum(),
    "sequence mean": lambda x, m: ((x * m).sum(1) / m.sum(1)).mean(),
    "sequence sum": lambda x, m: (x * m).sum(1).mean(),
    "constant": lambda x, m: (x * m).sum() / (m.size(0) * 512),
}
KLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "k1": lambda new, ref: new - ref,
    "k2": lambda new, ref: 0.5 * (new - ref) ** 2,
    "k3": lambda new, ref: (ref - new).exp() - (ref - new) - 1,
    "reversed k3": lambda new, ref: (new - ref).exp() - (new - ref) - 1,
}


def objective(
    aggregation: str = "token mean",
    ratio: str = "token",
    clip: str = "stop",
    low: float = 0.2,
    high: float = 0.2,
    dual: float | None = None,
    kl: str = "",
    beta: float = 0.0,
    entropy: float = 0.0,
) -> Callable[..., Tensor]:
    """A policy loss of this form."""

    def loss(new: Tensor, old: Tensor, ref: Tensor, advantages: Tensor, mask: Tensor, entropies: Tensor) -> Tensor:
        a, apart = advantages[:, None], new - old
        if ratio == "sequence mean":
            apart = (apart * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
            apart = new - new.detach() + apart.detach()
        r = apart.exp()
        if clip == "cap":
            term = -r.clamp(1 - low, 1 + high).detach() * a * new
        elif ratio == "none":
            term = -a * new
        else:
            term = torch.max(-r * a, -r.clamp(1 - low, 1 + high) * a) if clip == "stop" else -r * a
        if dual is not None:
            term = torch.where(a < 0, torch.min(term, -dual * a), term)
        if kl:
            term = term + beta * KLS[kl](new, ref)
        return AGGREGATIONS[aggregation](term - entropy * entropies, mask)

    return loss


TABLE: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"aggregation": "sequence mean", "kl": "k3", "beta": 0.04}, "GRPO", {"kl": "k3", "beta": 0.04}),  # TRL 0.16
    ({"aggregation": "token mean", "high": 0.28}, "DAPO", {"low": 0.2, "high": 0.28, "kl": "none"}),  # TRL dapo, verl
    ({"aggregation": "constant"}, "GRPO with a constant divisor", {"clip": "stop"}),  # TRL dr_grpo
    ({"dual": 3.0, "kl": "k2", "beta": 0.001}, "GRPO with a mean over tokens", {"dual": 3.0, "kl": "k2"}),  # verl
    (
        {"ratio": "sequence mean", "aggregation": "sequence mean", "low": 3e-4, "high": 4e-4},
        "GSPO",
        {"low": 3e-4, "high": 4e-4},
    ),
    ({"clip": "cap", "low": 1.0, "high": 4.0}, "CISPO", {"high": 4.0}),  # TRL cispo
    ({"ratio": "none"}, "REINFORCE", {"clip": ""}),
    ({"kl": "k1", "beta": 0.01}, "GRPO with a mean over tokens", {"kl": "k1", "beta": 0.01}),  # OpenRLHF, in the loss
    ({"kl": "reversed k3", "beta": 0.1}, "GRPO with a mean over tokens", {"kl": "reversed k3", "beta": 0.1}),
    ({"clip": "none"}, "", {"clip": "none", "ratio": "token"}),
    ({"entropy": 0.01}, "GRPO with a mean over tokens", {"entropy": 0.01}),
    ({"entropy": -0.01, "aggregation": "sequence sum"}, "", {"entropy": -0.01}),
]


@pytest.mark.parametrize(("made", "name", "parts"), TABLE)
def test_names_losses_with_known_answers(made: dict[str, Any], name: str, parts: dict[str, Any]) -> None:
    form = loss_form(objective(**made))
    assert form.name == name, form
    wanted = {
        "aggregation": "token mean",
        "ratio": "token",
        **{k: v for k, v in made.items() if k in ("aggregation", "ratio")},
    }
    for part, value in (wanted | parts).items():
        assert getattr(form, part) == (pytest.approx(value, rel=0.02) if isinstance(value, float) else value), part


def _std(rewards: Tensor, ddof: int) -> Tensor:
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, correction=ddof, keepdim=True) + 1e-4)


ADVANTAGES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[str, str, int | None]]] = {
    "TRL, verl": (lambda r: _std(r, 1), ("group", "std", 1)),
    "numpy": (lambda r: _std(r, 0), ("group", "std", 0)),
    "Dr.GRPO": (lambda r: r - r.mean(1, keepdim=True), ("group", "none", None)),
    "RLOO": (lambda r: (r - r.mean(1, keepdim=True)) * r.size(1) / (r.size(1) - 1), ("group", "leave one out", None)),
    "TRL batch": (lambda r: (r - r.mean(1, keepdim=True)) / r.std(), ("group", "batch", None)),
    "REINFORCE++": (lambda r: (r - r.mean()) / r.std(), ("batch", "batch", None)),
    "rewards": (lambda r: r, ("none", "none", None)),
}


@pytest.mark.parametrize("name", ADVANTAGES)
def test_recognises_baseline_and_normaliser(name: str) -> None:
    function, wanted = ADVANTAGES[name]
    form = loss_form(objective(), advantages=function)
    assert (form.baseline, form.normaliser, form.ddof) == wanted


def test_the_constant_divisor_and_centred_rewards_are_dr_grpo() -> None:
    assert loss_form(objective("constant"), advantages=ADVANTAGES["Dr.GRPO"][0]).name == "Dr.GRPO"


def test_writes_the_loss_as_a_formula() -> None:
    form = loss_form(objective("sequence mean", kl="k3", beta=0.04), advantages=lambda r: _std(r, 1))
    assert form.formula == (
        "-1/N Σ_i 1/|o_i| Σ_t [min(r_t A, clip(r_t, 1 - 0.2, 1 + 0.2) A)] + 0.04 KL_k3(policy, reference), "
        "A = (R - group mean) / group std (ddof 1)"
    )


def test_unknown_parts_are_left_out_of_the_formula() -> None:
    assert LossForm().formula == "-Σ [r A]"


def test_names_what_settings_declare_otherwise() -> None:
    form = loss_form(objective("token mean", kl="k2", beta=0.1))
    assert form.contradictions({"loss_type": "grpo", "loss_agg_mode": "token-mean"}) == [
        "loss_type=grpo declares the aggregation 'sequence mean', but the probe measured 'token mean'"
    ]
    assert form.contradictions({"loss_type": "dapo"}) == []


def test_a_reversed_k3_is_reported_in_any_run() -> None:
    assert loss_form(objective(kl="k3", beta=0.1)).contradictions({}) == []
    assert loss_form(objective(kl="reversed k3", beta=0.1)).contradictions({}) == [
        "KL (coefficient 0.1) is k3 with the difference reversed, d = policy - reference: with d = reference - "
        "policy, exp(d) - d - 1 estimates the KL"
    ]


class Reversed(Reference):
    def divergence(self, logp: Tensor, reference: Tensor) -> Tensor:
        return super().divergence(reference, logp)


class SequenceLevel(Reference):
    """GSPO on a model, without a KL."""

    epsilon = 0.01

    def objective(
        self, logp: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor, _: Any
    ) -> Tensor:
        apart = ((logp - old) * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        ratio = (logp - logp.detach() + apart.detach()).exp()
        return self.averaged(-self.surrogate(ratio, advantages[:, None]), mask)


@pytest.mark.parametrize(
    ("trainer", "name", "epsilon", "kl"),
    [
        (Reference, "GRPO with a mean over tokens", 0.2, "k3"),
        (Reversed, "GRPO with a mean over tokens", 0.2, "reversed k3"),
        (SequenceLevel, "GSPO", 0.01, ""),
    ],
)
def test_measures_a_whole_loss_on_its_model(trainer: type[Reference], name: str, epsilon: float, kl: str) -> None:
    torch.set_num_threads(1)
    made = trainer()
    form = loss_form(
        loss=made.loss,
        render=made.render,
        tokenizer=made.tok,
        model=made.model,
        prompts=PROMPTS,
        settings=made.settings(),
    )
    assert (form.name, form.clip, form.kl) == (name, "stop", kl)
    assert [form.low, form.high] == pytest.approx([epsilon, epsilon], rel=0.02)
    assert form.beta == (pytest.approx(0.02, rel=0.02) if kl else None)
