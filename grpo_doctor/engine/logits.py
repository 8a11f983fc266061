"""What a row of logits says, in one pass over it: largest, gap, five likeliest, entropy."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

GROUP = 128
"""Columns in a group of the two-stage top-k."""
TOP = 5
CHUNK_BYTES = 1 << 20
"""Float32 bytes of the rows worked on at once: they stay in the cache (measured: 1 MB beats 4 and 16)."""
CHUNK_BYTES_CUDA = 1 << 28
"""The same on a GPU, where launches cost and the cache does not hold rows anyway."""


class LogitStatistics(NamedTuple):
    """Float32 columns over N rows of logits, in nats."""

    largest: Tensor  # [N] the largest logit
    gap: Tensor  # [N] largest minus second largest
    top_probs: Tensor  # [N, 5] probabilities of the five likeliest tokens, falling
    entropy: Tensor  # [N]
    normaliser: Tensor  # [N] log-sum-exp: log-probability of token v is logits[v] - normaliser


def largest_five(rows: Tensor) -> Tensor:
    """Exact five largest values of each row of ``rows`` [R, V], falling: [R, 5].

    The five largest lie in the five groups with the largest maxima, so one cheap pass finds the groups and the
    sort sees 5 x 128 candidates and the columns beyond the last whole group.
    """
    count, width = rows.shape
    whole = width - width % GROUP
    if whole < 2 * TOP * GROUP:
        return rows.topk(TOP, -1).values
    groups = rows[:, :whole].view(count, -1, GROUP)  # [R, V/128, 128]
    best = groups.amax(-1).topk(TOP, -1).indices  # [R, 5]
    candidates = groups.gather(1, best.unsqueeze(-1).expand(count, TOP, GROUP)).reshape(count, -1)
    if whole < width:
        candidates = torch.cat((candidates, rows[:, whole:]), 1)
    return candidates.topk(TOP, -1).values


@torch.no_grad()
def logit_statistics(logits: Tensor, chunk_bytes: int | None = None) -> LogitStatistics:
    """Statistics of every row of ``logits`` [N, V] (any float type, V >= 5) in float32.

    Works on a few rows at a time: one cast, group maxima, ``exp`` into a buffer that is used again, so that extra
    memory does not grow with N and bf16 input loses nothing. Rows with NaN give NaN; ``-inf`` is a token that
    cannot be drawn.
    """
    count, width = logits.shape
    device = logits.device
    chunk_bytes = chunk_bytes or (CHUNK_BYTES_CUDA if device.type == "cuda" else CHUNK_BYTES)
    size = max(1, min(count, chunk_bytes // (4 * width)))
    largest, gap, entropy, normaliser = (torch.empty(count, device=device) for _ in range(4))
    top_probs = torch.empty(count, TOP, device=device)
    exponents = torch.empty(size, width, device=device)
    cast = None if logits.dtype is torch.float32 else torch.empty(size, width, device=device)
    for start in range(0, count, size):
        rows = logits[start : start + size]  # [R, V]
        stop = start + len(rows)
        if cast is not None:
            rows = cast[: len(rows)].copy_(rows)
        top = largest_five(rows)  # [R, 5]
        e = torch.sub(rows, top[:, :1], out=exponents[: len(rows)]).exp_()
        total = e.sum(-1)
        weighted = torch.linalg.vecdot(e, rows)
        if not weighted.isfinite().all():  # 0 * -inf where a token cannot be drawn
            weighted = torch.linalg.vecdot(e, rows.clamp(min=torch.finfo(torch.float32).min))
        log_total = top[:, 0] + total.log()
        entropy[start:stop] = log_total - weighted / total
        top_probs[start:stop] = (top - log_total[:, None]).exp()
        largest[start:stop], gap[start:stop] = top[:, 0], top[:, 0] - top[:, 1]
        normaliser[start:stop] = log_total
    return LogitStatistics(largest, gap, top_probs, entropy, normaliser)
