"""KL004 and KL005 on an `objective` without other entry points, as in a file of loss functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes

Divergence = Callable[[Tensor], Tensor]


def probed(divergence: Divergence, by_sample: bool) -> Diagnosis:
    """``divergence`` is a function of the reference's log-probabilities minus the policy's."""

    def objective(new: Tensor, old: Tensor, ref: Tensor, advantages: Tensor, mask: Tensor, entropy: Tensor) -> Tensor:
        ratio, a = (new - old).exp(), advantages[:, None]
        per_token = 0.05 * divergence(ref - new) - torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a)
        if by_sample:
            return ((per_token * mask).sum(1) / mask.sum(1)).mean()
        return (per_token * mask).sum() / mask.sum()

    adapter = Adapter(seams={"objective": objective}, settings={"kl_coef": 0.05, "epsilon": 0.2})
    return run_probes(adapter, catalogue=load().select(["KL004", "KL005", "RAT007"]))


@pytest.mark.parametrize("by_sample", [False, True])
@pytest.mark.parametrize(
    ("divergence", "codes", "passed"),
    [
        (lambda d: d.exp() - d - 1, [], {"KL004", "KL005", "RAT007"}),
        (lambda d: d**2 / 2, [], {"KL004", "KL005", "RAT007"}),
        (lambda d: (-d).exp() + d - 1, [], {"KL004", "KL005", "RAT007"}),
        (lambda d: -(d.exp() - d - 1), ["KL004"], {"KL005", "RAT007"}),
        (lambda d: -(d**2), ["KL004"], {"KL005", "RAT007"}),
        (lambda d: -d, ["KL005"], {"RAT007"}),
        (lambda d: d, ["KL005"], {"RAT007"}),
        (lambda d: 0 * d, [], {"RAT007"}),
    ],
    ids=["k3", "k2", "k3 of the other way", "minus k3", "minus k2", "k1", "minus k1", "none"],
)
def test_the_penalty_of_an_objective(
    divergence: Divergence, codes: list[str], passed: set[str], by_sample: bool
) -> None:
    diagnosis = probed(divergence, by_sample)
    assert [f.code for f in diagnosis.findings] == codes
    assert set(diagnosis.coverage.passed_codes) == passed
    assert diagnosis.notes == []


@pytest.mark.parametrize(("sign", "words"), [(-1, "is k1: its"), (1, "is ref - new (k1 with the wrong sign): its")])
def test_the_sign_of_k1_is_reported(sign: int, words: str) -> None:
    (found,) = probed(lambda d: sign * d, False).findings
    assert words in found.message
