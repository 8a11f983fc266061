"""Extracts the token batch of a TRL step: the inputs of its loss for some responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..mismatch import Response
from ..mismatch.batch import MOST_RESPONSES
from .trl_record import trained_mask


def responses_of(inputs: Mapping[str, Any], logprobs: Tensor | None, entropies: Tensor | None) -> list[Response]:
    """Return the responses of a micro-batch [B, T]; none if TRL has no log-probabilities of the rollout engine."""
    engine = inputs.get("sampling_per_token_logps")
    if engine is None:
        return []
    columns = {
        "mask": trained_mask(inputs),
        "engine_logprobs": engine,
        "old_logprobs": inputs.get("old_per_token_logps"),
        "new_logprobs": logprobs,
        "reference_logprobs": inputs.get("ref_per_token_logps"),
        "entropy": entropies,
    }
    lists = {name: values.tolist() for name, values in columns.items() if values is not None}
    rows = []
    for n, prompt in enumerate(inputs["prompt_ids"][:MOST_RESPONSES]):
        length = int(inputs["completion_mask"][n].sum())
        own = prompt[inputs["prompt_mask"][n].bool()].tolist()
        rows.append(
            Response(
                token_ids=own + inputs["completion_ids"][n, :length].tolist(),
                prompt_length=len(own),
                advantage=float(inputs["advantages"][n].float().mean()),
                **{name: values[n][:length] for name, values in lists.items()},
            )
        )
    return rows
