"""Extracts the token batch of a TRL step from the inputs of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..mismatch import Response, responses_of
from .trl_record import trained_mask


def token_batch(inputs: Mapping[str, Any], logprobs: Tensor | None, entropies: Tensor | None) -> list[Response]:
    """Return the responses of a micro-batch [B, T] for a token batch, or no responses if TRL does not have the
    log-probabilities of the rollout engine."""
    engine = inputs.get("sampling_per_token_logps")
    if engine is None:
        return []
    prompts = zip(inputs["prompt_ids"], inputs["prompt_mask"].bool(), strict=True)
    lengths = inputs["completion_mask"].sum(1).int().tolist()
    return responses_of(
        [ids[own] for ids, own in prompts],
        [ids[:length] for ids, length in zip(inputs["completion_ids"], lengths, strict=True)],
        mask=trained_mask(inputs),
        engine_logprobs=engine,
        old_logprobs=inputs.get("old_per_token_logps"),
        new_logprobs=logprobs,
        reference_logprobs=inputs.get("ref_per_token_logps"),
        entropy=entropies,
        advantage=[advantage.float().mean() for advantage in inputs["advantages"]],
    )
