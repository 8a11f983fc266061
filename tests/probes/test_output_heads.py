"""Output heads that are called separately from their backbone: a loss has the same gradient on their logits as on those
of a whole forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import T5Config, T5ForConditionalGeneration

from grpo_doctor.probes import Unjudged
from grpo_doctor.probes.generations import scripted_generate
from grpo_doctor.probes.intercept import watched
from tests.probes.styles import make_model, make_tokenizer

TEMPERATURE = 0.7
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 12, 13, 14, 15]])  # the first three places are alike
WEIGHTS = torch.tensor([[0.0, 0.0, 1.0, -2.0, 0.5, 0.0], [0.0, 0.0, -1.0, 1.0, 0.3, 2.0]])


def logprobs(logits: Tensor, labels: Tensor) -> Tensor:
    table = (logits.float() / TEMPERATURE).log_softmax(-1)
    return table.gather(-1, labels[..., None]).squeeze(-1)


class ByHand(torch.autograd.Function):
    """Log-probabilities with a custom backward, as in fused kernels."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(states, weight, labels)
        logits = torch.empty(len(states), len(weight))
        torch.mm(states, weight.t(), out=logits)
        return logprobs(logits, labels)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        states, weight, labels = ctx.saved_tensors
        likely = (states @ weight.t() / TEMPERATURE).softmax(-1)
        left = (torch.nn.functional.one_hot(labels, len(weight)) - likely) * gradients[0][:, None] / TEMPERATURE
        return left @ weight, left.t() @ states, None


def by_hand(h: Tensor, head: Any, labels: Tensor) -> Tensor:
    found: Tensor = ByHand.apply(h.reshape(-1, h.shape[-1]), head.weight, labels.reshape(-1))  # type: ignore[no-untyped-call]
    return found.view(labels.shape)


def chunks(score: Callable[[Tensor, Tensor], Tensor], h: Tensor, labels: Tensor, along: int) -> Tensor:
    parts = zip(torch.split(h, 2, along), torch.split(labels, 2, along), strict=True)
    return torch.cat([score(*part) for part in parts], along)


def rows(h: Tensor, head: Any, labels: Tensor) -> Tensor:
    flat = chunks(lambda a, b: logprobs(a @ head.weight.t(), b), h.reshape(-1, h.shape[-1]), labels.reshape(-1), 0)
    return flat.view(labels.shape)


def recomputed(reentrant: bool) -> Callable[..., Tensor]:
    def score(h: Tensor, head: Any, labels: Tensor) -> Tensor:
        def one(a: Tensor, b: Tensor) -> Tensor:
            found: Tensor = checkpoint(lambda x, y: logprobs(head(x), y), a, b, use_reentrant=reentrant)
            return found

        return chunks(one, h, labels, 1)

    return score


WAYS: dict[str, Callable[..., Tensor]] = {
    "at once": lambda h, head, labels: logprobs(head(h), labels),
    "in chunks of time": lambda h, head, labels: chunks(lambda a, b: logprobs(head(a), b), h, labels, 1),
    "in rows, by its weight": rows,
    "by einsum": lambda h, head, labels: logprobs(torch.einsum("nth,vh->ntv", h, head.weight), labels),
    "in another precision": lambda h, head, labels: logprobs(h.double() @ head.weight.double().t(), labels),
    "checkpointed": recomputed(False),
    "checkpointed, re-entrant": recomputed(True),
    "with a backward by hand": by_hand,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_on_the_logits_is_that_of_a_whole_forward(way: str) -> None:
    torch.set_num_threads(1)
    model = make_model(make_tokenizer())
    with watched(model) as whole:
        torch.autograd.backward((logprobs(model(input_ids=IDS).logits[:, :-1], IDS[:, 1:]) * WEIGHTS).sum())
    model.zero_grad()
    with watched(model) as seen:
        states = model.model(input_ids=IDS).last_hidden_state[:, :-1]
        torch.autograd.backward((WAYS[way](states, model.lm_head, IDS[:, 1:]) * WEIGHTS).sum())
    (one,), (other,) = whole, seen
    assert other.module is model
    assert torch.equal(other.input_ids, IDS)
    assert torch.allclose(other.logits.float(), one.logits, atol=1e-5)
    assert one.logits.grad is not None
    assert other.logits.grad is not None
    assert torch.allclose(other.logits.grad.float(), one.logits.grad, atol=2e-3)


def test_a_gradient_by_a_transform_is_seen() -> None:
    model = make_model(make_tokenizer())
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(given: dict[str, Tensor]) -> Tensor:
        logits = torch.func.functional_call(model, given, (), {"input_ids": IDS}).logits
        return (logprobs(logits[:, :-1], IDS[:, 1:]) * WEIGHTS).sum()

    plain, value = torch.func.grad_and_value(loss)(weights)
    with watched(model) as seen:
        found, same = torch.func.grad_and_value(loss)(weights)
    assert float(same) == pytest.approx(float(value))
    assert all(torch.allclose(found[name], plain[name], atol=1e-5) for name in plain)
    (forward,) = seen
    assert forward.logits.grad is not None
    assert bool(forward.logits.grad[0, 2].any())


def test_an_encoder_and_a_decoder_are_not_judged() -> None:
    tok = make_tokenizer()
    config = T5Config(vocab_size=len(tok), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=0)
    config.decoder_start_token_id = 0
    model: Any = T5ForConditionalGeneration(config)
    with watched(model) as seen:
        model(input_ids=IDS, decoder_input_ids=IDS[:, :3])
    assert not seen
    with scripted_generate(model, [[5, 1]], 0), pytest.raises(Unjudged, match="the model is an encoder-decoder"):
        model.generate(input_ids=IDS)
