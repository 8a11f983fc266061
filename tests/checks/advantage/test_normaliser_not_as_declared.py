"""ADV014: advantages are normalised over the scope that is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes


def centred(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean(1, keepdim=True)


def by_group(rewards: Tensor) -> Tensor:
    return centred(rewards) / (rewards.std(1, keepdim=True) + 1e-4)


def by_batch(rewards: Tensor) -> Tensor:
    return centred(rewards) / (rewards.std() + 1e-4)


def probed(advantages: Callable[[Tensor], Tensor], **settings: Any) -> Diagnosis:
    adapter = Adapter(seams={"advantages": advantages}, settings=settings)
    return run_probes(adapter, catalogue=load().select(["ADV014"]))


@pytest.mark.parametrize(
    ("advantages", "settings"),
    [
        (by_group, {"normaliser": "group"}),
        (by_group, {"scale_rewards": True}),
        (by_batch, {"scale_rewards": "batch"}),
        (centred, {"scale_rewards": False}),
    ],
)
def test_the_declared_scope_is_not_flagged(advantages: Any, settings: dict[str, Any]) -> None:
    diagnosis = probed(advantages, **settings)
    assert (diagnosis.findings, diagnosis.coverage.passed_codes) == ([], ["ADV014"])


@pytest.mark.parametrize(
    ("advantages", "declared", "message"),
    [
        (by_batch, "group", "The declared advantage normaliser is group, but a group's advantages change by"),
        (by_batch, "none", "The declared advantage normaliser is none, but a group's advantages change by"),
        (by_group, "batch", "The declared advantage normaliser is batch, but a group's advantages change by 0%"),
    ],
)
def test_another_scope_is_named(advantages: Any, declared: str, message: str) -> None:
    found = probed(advantages, normaliser=declared).finding("ADV014")
    assert found is not None
    assert found.severity == "error"
    assert found.message.startswith(message)


def test_without_a_declaration_nothing_is_judged() -> None:
    assert probed(by_batch).coverage.ran == 0
