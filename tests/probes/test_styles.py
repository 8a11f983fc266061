"""Correct trainers in four styles are not flagged, and a synchronised sampler is restored."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from grpo_doctor.probes import run_probes
from tests.probes.open_notes import open_notes
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left, Packed, Shifted, Turns, plain_logprobs

ALL, TWO = (), ("rollout", "loss")
RIGHT: list[tuple[type[Left], dict[str, Any], tuple[str, ...]]] = [
    (Left, {"sampler": "synced"}, ALL),
    (Left, {"arch": "gpt2", "precision": "autocast", "maximize": True, "truncated": "left out", "called": "forward"}, TWO),
    (Left, {"precision": "bf16", "pad": "eos", "returns": "text", "old": False, "called": "head"}, TWO),
    (Left, {
        "lora": "plain", "tokenizer": "bytes", "precision": "autocast", "multiple": 8, "called": "tuple",
        "sampler": "copy", "bos": True}, TWO),
    (Left, {
        "lora": "inner", "returns": "text with end", "clamped": True, "pad": "none", "train": False,
        "attended_end": False}, TWO),
    (Left, {"lora": "merged", "called": "wrapper", "temperature": 0.7, "tokenizer": "pieces", "checkpointing": True}, TWO),
    (Shifted, {"called": "tuple", "precision": "autocast", "sampler": "synced"}, ALL),
    (Packed, {"called": "head", "returns": "text", "lora": "plain", "precision": "autocast"}, TWO),
    (Turns, {"lora": "plain", "precision": "autocast"}, TWO),
]  # fmt: skip
"""Options that have nothing to do with each other go into one trainer: a probe may misread none of them."""


@pytest.mark.parametrize(
    ("kind", "options", "names"), RIGHT, ids=[f"{kind.__name__}-{options}" for kind, options, _ in RIGHT]
)
def test_a_correct_trainer_is_healthy_without_open_notes(
    kind: type[Left], options: dict[str, Any], names: tuple[str, ...]
) -> None:
    torch.set_num_threads(1)
    trainer = kind(**options)
    if options.get("called") != "wrapper":
        agree_with_one_row(trainer, exact="precision" not in options)
    before = copy.deepcopy(trainer.sampler.state_dict())
    diagnosis = run_probes(trainer.adapter(*names))
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])
    assert all(torch.equal(before[name], value) for name, value in trainer.sampler.state_dict().items())


def agree_with_one_row(trainer: Left, exact: bool) -> None:
    """The trainer's log-probabilities are those of each sample alone, without padding."""
    prompts = [trainer.render(p) for p in PROMPTS]
    end = trainer.tok.eos_token_id
    responses = [[5, 6, 7, end], [8, 9, end], [10, 11, 12, 13, 14, end]]
    with torch.no_grad():
        found, _, mask = trainer.scores(trainer.model, prompts, responses)
    alone = torch.cat([plain_logprobs(trainer, p, r) for p, r in zip(prompts, responses, strict=True)])
    assert float((found[mask > 0] - alone).abs().max()) < (1e-4 if exact else 0.3)
