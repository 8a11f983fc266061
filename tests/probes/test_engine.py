"""The project's engine passes every probe, and each of its faults is reported by its own probe."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.faults import faulty_engine
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import WorkflowTask
from grpo_doctor.engine.tiny import make_model, make_tokenizer
from grpo_doctor.probes import Adapter, engine_adapter, run_probes
from tests.probes.open_notes import open_notes
from tests.quick import quick

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
BATCH = {"generation_batch_size": 8, "num_generations": 4, "max_completion_length": 16}


@functools.cache
def adapting(**changes: Any) -> Callable[[type[Engine]], Adapter]:
    """Return a function that makes the adapter of a tiny engine of some kind, with random weights and these
    settings."""

    def adapted(kind: type[Engine]) -> Adapter:
        torch.set_num_threads(1)
        model: Any = quick(make_model(seed=3, **{**SMALL, "num_key_value_heads": 2, "initializer_range": 0.3}))
        engine = kind(settings_of({**BATCH, **changes}, "test"), model.eval(), make_tokenizer(), WorkflowTask(32))
        prompts = [
            [{"role": "user", "content": text}] for text in ("math easy", "code hard with a few words more", "qa")
        ]
        return engine_adapter(engine, prompts)

    return adapted


def probed(*faults: str, codes: Sequence[str] = (), **changes: Any) -> Diagnosis:
    """The diagnosis of a tiny engine with some faults, by these probes or by all."""
    kind, of_fault = faulty_engine(faults)
    return run_probes(adapting(**of_fault, **changes)(kind), catalogue=load().select(codes))


@pytest.mark.parametrize(
    "changes",
    [
        {"entropy_coef": 0.0, "beta": 0.0, "temperature": 1.5, "scale_rewards": "none"},
        {"entropy_coef": 0.05, "gradient_accumulation_steps": 4, "loss_type": "grpo", "gradient_checkpointing": True},
    ],
    ids=str,
)
def test_the_engine_passes_every_probe(changes: dict[str, Any]) -> None:
    diagnosis = probed(**changes)
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])
    assert diagnosis.coverage.ran >= 20


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("rank-advantages", "ADV005"),
        ("global-norm-uncentred", "ADV006"),
        ("flipped-entropy", "ENT006"),
        ("flipped-entropy-gradient", "ENT006"),
        ("reference-mismatch", "KL006"),
        ("kl-on-unformatted-prompt", "KL006"),
        ("overwritten-accumulation", "GRD006"),
        ("train-mode-generation", "GEN001"),
        ("stale-rollout-weights", "GEN002"),
        ("double-temperature", "GEN006"),
        ("penalty-over-prompt", "TOK006"),
        ("left-pad-extraction", "PAD001"),
        ("mask-assumes-right-padding", "PAD002"),
        ("mask-by-token-identity", "PAD003"),
        ("template-mismatch", "TOK001"),
        ("flipped-kl", "KL004"),
        ("advantages-of-another-group", "ADV006"),
        ("attention-mask-ignored", "PAD004"),
        ("tool-tokens-in-loss", "PAD002"),
        ("frozen-policy", "STL004"),
        ("top-p-not-in-loss", "GEN004"),
        ("fallback-rewarded", "REW012"),
    ],
)
def test_each_fault_is_named_by_its_own_probe(fault: str, code: str) -> None:
    diagnosis = probed(fault, codes=[code], **({} if "entropy" in fault else {"entropy_coef": 0.05}))
    assert diagnosis.cause == code, diagnosis.coverage.skipped


def test_micro_batches_that_are_not_divided_are_a_warning() -> None:
    diagnosis = probed("unscaled-accumulation", codes=["GRD006"], entropy_coef=0.05)
    told = [(f.code, f.severity) for f in diagnosis.findings if f.severity != "info"]
    assert (diagnosis.verdict, told) == ("suspect", [("GRD006", "warning")])


def test_micro_batches_that_count_alike_are_a_warning() -> None:
    (found,) = probed("mean-of-micro-batch-means", codes=["GRD006"], entropy_coef=0.05).findings
    assert found.severity == "warning"
    assert found.message.startswith(
        "With responses of unequal length, micro-batches give a different gradient than the full batch (cosine 0.8"
    )


def test_a_clip_that_the_loss_does_not_know_is_gen004() -> None:
    assert probed("logit-clip", codes=["GEN004"]).cause == "GEN004"
