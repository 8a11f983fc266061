"""Correct trainers in four styles are not flagged, and wrong ones in the same styles get the expected code."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import run_probes
from tests.probes.open_notes import open_notes
from tests.probes.reference import PROMPTS
from tests.probes.styles import Left, Packed, Shifted, Turns, plain_logprobs

TWO = ("rollout", "loss")
RIGHT: list[tuple[type[Left], dict[str, Any]]] = [
    (Left, {}),
    (Left, {"arch": "gpt2", "precision": "autocast"}),
    (Left, {"precision": "bf16", "pad": "eos"}),
    (Left, {"lora": "plain", "tokenizer": "bytes"}),
    (Left, {"lora": "plain", "precision": "autocast", "multiple": 8}),
    (Left, {"lora": "plain", "sampler": "copy", "bos": True}),
    (Left, {"lora": "inner", "returns": "text with end", "clamped": True}),
    (Left, {"lora": "merged", "attended_end": False}),
    (Left, {"called": "forward", "pad": "none", "train": False}),
    (Left, {"called": "tuple", "truncated": "left out"}),
    (Left, {"called": "head", "maximize": True}),
    (Left, {"called": "wrapper", "temperature": 0.7}),
    (Left, {"returns": "text", "old": False}),
    (Left, {"tokenizer": "pieces", "checkpointing": True}),
    (Shifted, {}),
    (Shifted, {"called": "tuple", "lora": "plain", "precision": "autocast"}),
    (Shifted, {"called": "head"}),
    (Packed, {}),
    (Packed, {"lora": "plain", "precision": "autocast"}),
    (Packed, {"called": "head", "returns": "text"}),
    (Turns, {}),
    (Turns, {"lora": "plain", "precision": "autocast"}),
]
"""Options that have nothing to do with each other go into one trainer: a probe may misread none of them."""


def probed(trainer: Left, *seams: str) -> Diagnosis:
    torch.set_num_threads(1)
    return run_probes(trainer.adapter(*seams))


@pytest.mark.parametrize(("kind", "options"), RIGHT, ids=[f"{kind.__name__}-{options}" for kind, options in RIGHT])
def test_a_correct_trainer_is_healthy_without_open_notes(kind: type[Left], options: dict[str, Any]) -> None:
    trainer = kind(**options)
    if options.get("called") != "wrapper":
        agree_with_one_row(trainer, exact="precision" not in options)
    diagnosis = probed(trainer, *TWO)
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])


def agree_with_one_row(trainer: Left, exact: bool) -> None:
    """The trainer's log-probabilities are those of each sample alone, without padding."""
    prompts = [trainer.render(p) for p in PROMPTS]
    end = trainer.tok.eos_token_id
    responses = [[5, 6, 7, end], [8, 9, end], [10, 11, 12, 13, 14, end]]
    with torch.no_grad():
        found, _, mask = trainer.scores(trainer.model, prompts, responses)
    alone = torch.cat([plain_logprobs(trainer, p, r) for p, r in zip(prompts, responses, strict=True)])
    assert float((found[mask > 0] - alone).abs().max()) < (1e-4 if exact else 0.3)


@pytest.mark.parametrize("kind", [Left, Shifted])
def test_all_its_entry_points_are_right_too_and_a_synchronised_sampler_is_restored(kind: type[Left]) -> None:
    trainer = kind(sampler="synced")
    before = copy.deepcopy(trainer.sampler.state_dict())
    diagnosis = probed(trainer)
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert all(torch.equal(before[name], value) for name, value in trainer.sampler.state_dict().items())
