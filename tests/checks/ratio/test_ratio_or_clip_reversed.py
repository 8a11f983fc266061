"""The probe RAT007 on an objective alone: which surrogates are correct, and the exact message for the others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import Adapter, run_probes
from tests.probes.styles import Left

LOW, HIGH = 0.2, 0.28
Surrogate = Callable[[Tensor, Tensor], Tensor]


def bounded(ratio: Tensor) -> Tensor:
    return ratio.clamp(1 - LOW, 1 + HIGH)


def found(surrogate: Surrogate, **settings: float) -> list[tuple[str, str]]:
    """Return severity and message of RAT007 on a token-mean objective with this surrogate."""

    def objective(
        new: Tensor, old: Tensor, reference: Tensor, advantages: Tensor, mask: Tensor, entropy: Tensor
    ) -> Tensor:
        k1 = 0.1 * (new - reference)
        return ((k1 - surrogate((new - old).exp(), advantages[:, None])) * mask).sum() / mask.sum()

    adapter = Adapter(seams={"objective": objective}, settings={"epsilon": LOW, "epsilon_high": HIGH, **settings})
    diagnosis = run_probes(adapter, catalogue=load().select(["RAT007"]))
    assert (diagnosis.notes, diagnosis.coverage.skipped) == ([], [])
    return [(f.severity, f.message) for f in diagnosis.findings]


@pytest.mark.parametrize(
    "surrogate",
    [
        lambda r, a: torch.min(r * a, bounded(r) * a),
        lambda r, a: -torch.max(-r * a, -bounded(r) * a),
        lambda r, a: torch.where(a > 0, r.clamp(max=1 + HIGH), r.clamp(min=1 - LOW)) * a,
        lambda r, a: torch.where(a < 0, torch.max(torch.min(r * a, bounded(r) * a), 3 * a), bounded(r).minimum(r) * a),
        lambda r, a: r * a,
        lambda r, a: r.clamp(max=5).detach() * r.log() * a,
        lambda r, a: torch.sigmoid(r - 1) * 4 * a,
        lambda r, a: torch.min(r * (a - a.mean()), bounded(r) * (a - a.mean())),
    ],
    ids=["ppo", "max-of-negatives", "where", "dual-clip", "no-clip", "cispo", "sapo", "whitened-inside"],
)
def test_right_ones_pass(surrogate: Surrogate) -> None:
    assert found(surrogate) == []


BACK = (
    "The clip acts on the wrong side. In {} of 2 cases, updates back towards the old policy are blocked (A > 0 at a "
    "ratio of 0.61, A < 0 at 1.65)."
)


@pytest.mark.parametrize(
    ("surrogate", "severity", "message"),
    [
        (lambda r, a: torch.max(r * a, bounded(r) * a), "error", BACK.format(2)),
        (lambda r, a: bounded(r) * a, "error", BACK.format(2)),
        (lambda r, a: torch.where(a > 0, torch.min(r, bounded(r)), torch.min(r, bounded(r))) * a, "error",
        BACK.format(1)),
        (lambda r, a: torch.min(a / r, bounded(1 / r) * a), "critical", "The loss moves 4 of 4 samples against the sign "
        "of their advantage."),
        (lambda r, a: -torch.min(-r * a, -bounded(r) * a), "error", BACK.format(2)),
        (lambda r, a: r * a.abs(), "critical", "The loss moves 2 of 4 samples against the sign of their advantage."),
        (lambda r, a: r * a.flip(0), "critical", "The loss moves 4 of 4 samples against the sign of their advantage."),
        (
            lambda r, a: torch.min(r * a, r.clamp(-LOW, LOW) * a), "error",
            "2 of 4 samples have no gradient at a ratio of 1, where no clip should apply.",
        ),
        (
            lambda r, a: torch.min(r * a, r.clamp(LOW, 1 + HIGH) * a), "error",
            "The clip does not act at the declared bounds: a gradient at a ratio of 0.75.",
        ),
        (
            lambda r, a: torch.min(r * a, r.clamp(1 - LOW, 1 + LOW / 2) * a), "error",
            "The clip does not act at the declared bounds: no gradient at a ratio of 1.22.",
        ),
    ],
    ids=["max", "clip-alone", "min-before-sign", "old-over-new", "min-of-losses", "abs", "shuffled", "around-0",
    "low-open", "narrow"],
)  # fmt: skip
def test_reversed_ones_fire(surrogate: Surrogate, severity: str, message: str) -> None:
    assert found(surrogate) == [(severity, message)]


def test_the_bound_is_judged_to_a_fifth_of_what_is_declared() -> None:
    def ppo(width: float) -> Surrogate:
        return lambda r, a: torch.min(r * a, r.clamp(1 - width, 1 + width) * a)

    declared = {"epsilon": 0.2, "epsilon_high": 0.2}
    assert found(ppo(0.17), **declared) == found(ppo(0.24), **declared) == []
    assert found(ppo(0.15), **declared)[0][1].endswith(
        "no gradient at a ratio of 1.16, no gradient at a ratio of 0.84."
    )
    assert found(ppo(0.26), **declared)[0][1].endswith("a gradient at a ratio of 1.25, a gradient at a ratio of 0.75.")


class Logged(Left):
    """Divides by its own log-probabilities, and scores the samples once more for a log."""

    def loss(self, prompts: Any, responses: Any, advantages: Tensor) -> Tensor:
        with torch.no_grad():
            self.scores(self.model, [self.render(p) for p in prompts], responses)
        return super().loss(prompts, responses, advantages)


def test_a_forward_that_serves_a_log_alone_is_not_an_error() -> None:
    diagnosis = run_probes(Logged(old=False).adapter("rollout", "loss"), catalogue=load().select(["RAT007"]))
    (found,) = diagnosis.findings
    assert (found.severity, found.message) == (
        "warning",
        "The loss does not use the log-probabilities of the policy's no-gradient pass. If that pass computes the old "
        "log-probabilities, the ratio is always 1 and the clip never applies.",
    )
    assert run_probes(Logged().adapter("rollout", "loss"), catalogue=load().select(["RAT007"])).findings == []
    adapter = Logged(old=False).adapter("rollout", "loss")
    del adapter.settings["epsilon"]  # REINFORCE: there is no clip
    (found,) = run_probes(adapter, catalogue=load().select(["RAT007"])).findings
    assert found.severity == "info"
