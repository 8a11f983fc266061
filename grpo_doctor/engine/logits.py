"""Computes statistics of logit rows in one pass: the largest logit, the gap to the second largest, the five most likely
tokens, and the entropy."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

GROUP = 128
"""Number of columns in a group of the two-stage top-k search."""
TOP = 5
CHUNK_BYTES = 1 << 20
"""Size, in bytes, of the float32 rows in a chunk, which must fit into the cache (1 MB is faster than 4 MB and 16
MB)."""
CHUNK_BYTES_CUDA = 1 << 28
"""The limit of `CHUNK_BYTES` on a GPU, where kernel launches dominate and the cache is too small for rows anyway."""
BLOCK = 128
"""Minimum number of rows per top-k search. With single rows, the calls would take more time than the search."""
MODERATE = 40.0
"""Distance of a row's largest logit from 0 up to which the row needs no shift, because ``exp`` and its sums do not
overflow float32."""
FAR = 80.0
"""Distance below the largest logit, in nats, at which the weight of a token, 1e-35, is negligible."""


class LogitStatistics(NamedTuple):
    """Float32 columns over N rows of logits, in nats."""

    largest: Tensor  # [N] the largest logit
    gap: Tensor  # [N] largest minus second largest
    top_probs: Tensor  # [N, 5] probabilities of the five most likely tokens, descending
    entropy: Tensor  # [N]
    normaliser: Tensor  # [N] log-sum-exp: log-probability of token v is logits[v] - normaliser


@torch.no_grad()
def logit_statistics(logits: Tensor, chunk_bytes: int | None = None) -> LogitStatistics:
    """Return statistics of every row of ``logits`` [N, V] (any float type, V >= 5) in float32.

    A few rows are processed at a time: one cast, group maxima, and ``exp`` into a reused buffer. Therefore, the
    additional memory does not grow with N, and bf16 input does not reduce the precision. A token with ``-inf`` cannot
    be sampled (the block of such a row is processed twice); rows with NaN give NaN.
    """
    count, width = logits.shape
    chunk_bytes = chunk_bytes or (CHUNK_BYTES_CUDA if logits.is_cuda else CHUNK_BYTES)
    size = max(1, min(count, chunk_bytes // (4 * width)))
    blocks = [_of_block(block, size) for block in torch.split(logits, max(size, BLOCK))]
    return LogitStatistics(*map(torch.cat, zip(*blocks, strict=True)))


def _of_block(logits: Tensor, size: int) -> LogitStatistics:
    """Compute the statistics of one block of rows [N, V], ``size`` rows at a time."""
    maxima, shift, total, weighted = _sums(logits, size)
    if not weighted.isfinite().all():
        maxima, shift, total, weighted = _sums(logits, size, all_drawable=False)
    top = largest_five(logits, maxima)
    normaliser = shift + total.log()
    entropy = normaliser - weighted / total
    return LogitStatistics(top[:, 0], top[:, 0] - top[:, 1], (top - normaliser[:, None]).exp(), entropy, normaliser)


def _sums(logits: Tensor, size: int, all_drawable: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return group maxima [N, V/128] of rows x [N, V], a shift s [N], and the sums [N] of exp(x - s) and of exp(x - s)
    x.

    With a shift, tokens more than ``FAR`` below the largest are clamped to that distance. Without the clamp, ``-inf``
    times 0 would be NaN, and subnormal numbers would make the computation fifty times slower.
    """
    count, width = logits.shape
    device = logits.device
    shift, total, weighted = (torch.zeros(count, device=device) for _ in range(3))
    maxima = torch.empty(count, -(-width // GROUP), device=device)
    buffer = torch.empty(size, width, device=device)
    cast = None if logits.dtype is torch.float32 else torch.empty_like(buffer)
    of_chunks = (torch.split(part, size) for part in (logits, maxima, shift, total, weighted))
    for rows, peaks, away, sums, products in zip(*of_chunks, strict=True):  # [R, V], [R, V/128], then [R]
        if cast is not None:
            rows = cast[: len(rows)].copy_(rows)
        e = buffer if len(rows) == size else buffer[: len(rows)]
        group_maxima(rows, peaks)
        largest = peaks.amax(-1)
        if all_drawable and max(map(abs, largest.tolist())) < MODERATE:
            torch.exp(rows, out=e)
        else:
            away.copy_(largest)
            rows = torch.maximum(rows, largest[:, None] - FAR)
            torch.sub(rows, largest[:, None], out=e).exp_()
        torch.sum(e, -1, out=sums)
        torch.sum(e.mul_(rows), -1, out=products)  # torch sums pairwise; its dot product is less precise
    return maxima, shift, total, weighted


def group_maxima(rows: Tensor, out: Tensor) -> None:
    """Write the largest value in each group of 128 columns of ``rows`` [R, V] to ``out`` [R, V/128]; the last group
    includes the remaining columns."""
    count, width = rows.shape
    whole = width // GROUP
    if whole:
        torch.amax(rows[:, : whole * GROUP].view(count, whole, GROUP), -1, out=out[:, :whole])
    if whole < out.shape[1]:
        torch.amax(rows[:, whole * GROUP :], -1, keepdim=True, out=out[:, whole:])


def largest_five(rows: Tensor, maxima: Tensor) -> Tensor:
    """Return the exact five largest values of each row of ``rows`` [R, V] in descending order, as float32 [R, 5], using
    these group maxima.

    The five largest values are in the five groups with the largest maxima, so the search has 5 x 128 candidates.
    """
    groups = maxima.topk(min(TOP, maxima.shape[1]), -1).indices
    columns = (groups[:, :, None] * GROUP + torch.arange(GROUP, device=rows.device)).flatten(1)  # [R, 640]
    outside = columns >= rows.shape[1]
    candidates = rows.gather(1, columns.masked_fill(outside, 0)).float()
    return candidates.masked_fill_(outside, -torch.inf).topk(TOP, -1).values
