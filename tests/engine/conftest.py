"""A tiny engine with random weights: fast, and independent of the warm-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from grpo_doctor.engine.engine import Engine
from grpo_doctor.engine.faults import faulty_engine
from grpo_doctor.engine.settings import settings_of
from grpo_doctor.engine.task import Example, Score, WorkflowTask
from grpo_doctor.engine.tiny import make_model, make_tokenizer
from tests.quick import quick

SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
BATCH = {"generation_batch_size": 8, "num_generations": 4, "max_completion_length": 8}


class Easy(WorkflowTask):
    """A reward that even random weights get: the variety of the words."""

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = super().score(examples, texts, finished)
        return [
            s._replace(reward=len(set(text.split())) / 10 + len(text) / 100)
            for s, text in zip(scores, texts, strict=True)
        ]


def _norm(self: Any, x: Any) -> Any:
    return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.fixture
def make_engine() -> Callable[..., Engine]:
    """``make_engine("fault", setting=value)``: a batch of two prompts; ``easy`` gives rewards that differ."""

    def make(*faults: str, dtype: torch.dtype = torch.float32, easy: bool = False, **changes: Any) -> Engine:
        torch.set_num_threads(1)
        kind, of_fault = faulty_engine(faults)
        model: Any = make_model(seed=3, **{**SMALL, "num_key_value_heads": 2, "initializer_range": 0.3})
        model.to(dtype)
        if dtype is torch.float32:
            quick(model)
        else:
            for module in model.modules():
                if isinstance(module, LlamaRMSNorm):  # its own forward works in float32, whatever the model is
                    module.forward = MethodType(_norm, module)  # type: ignore[method-assign]
        settings = settings_of({**of_fault, **BATCH, **changes}, "test")
        return kind(settings, model.train(False), make_tokenizer(), (Easy if easy else WorkflowTask)(32))

    return make
