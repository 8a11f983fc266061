"""The probe PAD004 on generation without an attention mask: transformers infers one, unless pad is an end token."""

from __future__ import annotations

from typing import Any

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import run_probes
from tests.probes.styles import Left


class WithoutMask(Left):
    def padded(self, rows: list[list[int]]) -> tuple[Any, Any]:
        return super().padded(rows)[0], None


def test_padding_that_transformers_recognises_is_not_flagged() -> None:
    adapter = WithoutMask().adapter("rollout", "loss")
    assert run_probes(adapter, catalogue=load().select(["PAD004"])).findings == []


def test_padding_with_an_end_token_is_taken_for_text() -> None:
    adapter = WithoutMask(pad="eos").adapter("rollout", "loss")
    (found,) = run_probes(adapter, catalogue=load().select(["PAD004"])).findings
    assert (found.severity, found.message) == (
        "critical",
        "`generate` receives a wrong attention mask for 2 of 3 prompts.",
    )
