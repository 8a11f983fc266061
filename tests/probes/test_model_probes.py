"""Results of the deeper probes on a model, a processor, pairs and an adapter."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Finding
from grpo_doctor.probes import Adapter, run_probes
from tests.probes.reference import PROMPTS, Reference

PAIRS = [(prompt, "done") for prompt in PROMPTS]


def found(adapter: Adapter, code: str) -> Finding | None:
    """Return the finding of one probe; fail if it could not judge."""
    diagnosis = run_probes(adapter, catalogue=load().select([code]))
    assert diagnosis.coverage.ran == 1, (diagnosis.coverage.skipped, diagnosis.notes)
    return diagnosis.finding(code)


def with_head(factor: float) -> Any:
    """The reference trainer with scaled logits."""
    trainer = Reference()
    with torch.no_grad():
        trainer.model.lm_head.weight.mul_(factor)
    return trainer


def test_a_policy_that_is_certain_before_rl_is_distinguished_from_its_base_model() -> None:
    sharp, base = with_head(100.0), Reference().model
    adapter = sharp.adapter()
    adapter.base = base
    finding = found(adapter, "SHP001")
    assert finding is not None
    assert finding.severity == "warning"
    assert finding.evidence["own_gap"] > 7
    assert "(base model: gap " in finding.message


def test_a_policy_of_ordinary_sharpness_is_not_flagged() -> None:
    assert found(Reference().adapter(), "SHP001") is None


def only_best(tokens: Tensor, logits: Tensor) -> Tensor:
    return torch.full_like(logits, -1e9).scatter(1, logits.argmax(1, keepdim=True), 0.0)


def unchanged(tokens: Tensor, logits: Tensor) -> Tensor:
    return logits


def test_the_processor_that_takes_the_entropy_is_named() -> None:
    adapter = Reference().adapter()
    adapter.processors = {"unchanged": unchanged, "only_best": only_best}
    finding = found(adapter, "GEN008")
    assert finding is not None
    assert finding.message.startswith("The logits processor only_best lowers the first token's entropy from ")
    assert finding.evidence["left"] == 0
    adapter.processors = {"unchanged": unchanged}
    assert found(adapter, "GEN008") is None


@pytest.mark.parametrize(("sign", "fires"), [(1.0, False), (-1.0, True)])
def test_an_end_that_was_never_taught_is_seen_at_the_end_of_the_answers(sign: float, fires: bool) -> None:
    trainer = Reference()

    def towards_the_end(module: Any, args: Any, output: Any) -> Any:
        output.logits[..., trainer.tok.eos_token_id] += sign * 50
        return output

    trainer.model.register_forward_hook(towards_the_end)
    adapter = trainer.adapter()
    adapter.supervised = PAIRS
    finding = found(adapter, "TOK007")
    assert (finding is not None) is fires
    if finding is not None:
        assert finding.evidence["median"] < 1e-6
        assert finding.message.endswith("(median of 3).")


@pytest.mark.parametrize(("taught", "message"), [(3, "100% of the RL prompts"), (2, None), (0, None)])
def test_prompts_that_were_answered_in_supervision(taught: int, message: str | None) -> None:
    adapter = Reference().adapter("render")
    adapter.supervised = [*PAIRS[:taught], ([{"role": "user", "content": "another"}], "done")]
    finding = found(adapter, "DAT003")
    assert (finding.message[: len(message)] if finding and message else finding) == message


@pytest.mark.parametrize(("trains", "fires"), [("lora_B", False), ("lora_A", True)])
def test_lora_whose_b_is_never_stepped_adds_nothing(trains: str, fires: bool) -> None:
    peft = pytest.importorskip("peft")
    trainer = Reference()
    trainer.model = peft.get_peft_model(
        copy.deepcopy(trainer.model), peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    own = [p for name, p in trainer.model.named_parameters() if trains in name]
    trainer.optimizer = torch.optim.AdamW(own, lr=1e-2)
    finding = found(trainer.adapter(), "STL005")
    assert (finding is not None) is fires
    if finding is not None:
        assert finding.message == "All 2 lora_B matrices are still zero after two updates."
