"""The quick forward of `tests.quick` is the library's, to the bit."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from tests.probes.reference import make_model, make_tokenizer
from tests.quick import QuickLlama, quick

torch.manual_seed(0)
IDS = torch.randint(0, 100, (3, 12))
PADDED = torch.tensor([[0] * 4 + [1] * 8, [1] * 12, [1] * 9 + [0] * 3])
PAIRS = torch.zeros(1, 1, 12, 12).masked_fill(~torch.ones(12, 12).tril().bool(), torch.finfo(torch.float32).min)
POSITIONS = (PADDED.cumsum(-1) - 1).clamp(min=0)
GIVEN: dict[str, dict[str, Any]] = {
    "ids alone": {},
    "mask": {"attention_mask": PADDED},
    "mask and positions": {"attention_mask": PADDED, "position_ids": POSITIONS},
    "the last places": {"attention_mask": PADDED, "logits_to_keep": 5},
    "pairs": {"attention_mask": PAIRS, "position_ids": POSITIONS},
}


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any]:
    """The quick model, and the library's with the same weights."""
    model = make_model(make_tokenizer())
    assert type(model) is QuickLlama
    library: Any = copy.deepcopy(model)
    library.__class__ = LlamaForCausalLM
    return model, library


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "autocast"])
@pytest.mark.parametrize("name", GIVEN)
def test_logits_and_gradients(both: tuple[Any, Any], name: str, precision: str) -> None:
    found = []
    for model in both:
        one = copy.deepcopy(model).bfloat16() if precision == "bfloat16" else model
        given = {n: v.to(one.dtype) if v is PAIRS else v for n, v in GIVEN[name].items()}
        with torch.autocast("cpu", dtype=torch.bfloat16) if precision == "autocast" else nullcontext():
            logits = one(input_ids=IDS, **given).logits
        table = logits.float().log_softmax(-1)
        torch.autograd.backward(table[PADDED[:, -table.shape[1] :] > 0].square().mean())
        found.append([logits, *(p.grad for p in one.parameters())])
        one.zero_grad()
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("cached", [True, False])
def test_generation(both: tuple[Any, Any], cached: bool) -> None:
    found = []
    for model in both:
        torch.manual_seed(0)
        found.append(model.generate(
            IDS, attention_mask=PADDED, do_sample=True, max_new_tokens=6, use_cache=cached, pad_token_id=0
        ))  # fmt: skip
    assert torch.equal(*found)


def test_other_arguments_are_handled_by_the_library(both: tuple[Any, Any]) -> None:
    for asked in ({"output_hidden_states": True}, {"labels": IDS}, {"use_cache": True}, {"return_dict": False}):
        one, other = (model(input_ids=IDS, **asked) for model in both)
        assert len(one) == len(other)
        assert one[0].shape == other[0].shape


def test_a_model_that_is_there_becomes_quick(both: tuple[Any, Any]) -> None:
    model, library = both
    made = quick(copy.deepcopy(library))
    assert type(made) is QuickLlama
    assert torch.equal(made(input_ids=IDS).logits, model(input_ids=IDS).logits)
