"""slime: writes a token batch on every tenth rollout.

    --get-mismatch-metrics --rollout-data-postprocess-path grpo_doctor.integrations.slime_batch.record
    --custom-tis-function-path ... # required by slime with the first option

slime calls the function in each training process before the update, when the log-probabilities of both sides are known.
The first process with these log-probabilities writes ``batches/`` in ``GRPO_DOCTOR_OUT`` (``runs/slime``). A response
that context parallelism splits over processes is omitted.

Written against slime's tests/plugin_contracts (August 2026); not tested on slime, which needs a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..fault_isolation import FaultGuard
from ..mismatch import TokenBatch, responses_of, write_batch
from ..run import BATCHES

EVERY = 10
_LISTS = {
    "loss_masks": "mask",
    "rollout_log_probs": "engine_logprobs",
    "log_probs": "old_logprobs",
    "ref_log_probs": "reference_logprobs",
}
"""Keys of lists with one tensor per response, and the corresponding fields of `Response`."""
_guarded = FaultGuard()


def record(args: Any, rollout_id: int, rollout_data: Mapping[str, Any]) -> None:
    """Write the token batch of a rollout, unless another process has already begun to write it."""
    if rollout_id % EVERY == 0 and "rollout_log_probs" in rollout_data and "log_probs" in rollout_data:
        _guarded(_write, args, rollout_id, rollout_data)


def _write(args: Any, rollout_id: int, data: Mapping[str, Any]) -> None:
    path = Path(os.environ.get("GRPO_DOCTOR_OUT", "runs/slime")) / BATCHES / f"step-{rollout_id:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return
    lengths = [len(ids) - int(length) for ids, length in zip(data["tokens"], data["response_lengths"], strict=True)]
    responses = responses_of(
        [ids[:prompt] for ids, prompt in zip(data["tokens"], lengths, strict=True)],
        [ids[prompt:] for ids, prompt in zip(data["tokens"], lengths, strict=True)],
        **{field: data.get(name) for name, field in _LISTS.items()},
    )
    settings = {
        "temperature": getattr(args, "rollout_temperature", None),
        "top_p": getattr(args, "rollout_top_p", None),
    }
    write_batch(path, TokenBatch(step=rollout_id, responses=responses, settings=settings))
