"""Measures how a sampler draws from scripted logits: its temperature, and the tokens that its filters exclude.

If torch draws the tokens, the probabilities that it receives show the temperature and the filters directly. Otherwise,
draws are counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import device_of, plain_ids, special_ids
from .entry_points import Ids
from .forced_draws import at_draws
from .intercept import logits_of, scripted_logits
from .sampling import sampled


class Scripted:
    """A sampler whose model assigns these logits to some words after a prompt, and excludes all other tokens."""

    def __init__(self, sample: Callable[..., Any], model: Any, row: Ids, words: Ids, logits: Tensor, end: int | None):
        self.sample, self.model, self.row, self.words = sample, model, row, words
        with torch.no_grad():
            ids = torch.tensor([row], device=device_of(model))
            size = logits_of(model, ids, torch.ones_like(ids)).shape[-1]
        self.script = torch.full((size,), -1e4)
        self.script[words] = logits
        self.over = self.script if end is None else torch.full((size,), -1e4).index_fill(0, torch.tensor([end]), 0.0)
        self.scripted = False
        """Whether the last pass returned the logits of the words, not the logits that end a row."""

    def _new_tokens(self, rows: int, most: int, seed: int) -> Tensor:
        """Return the new tokens of some rows. After enough forward passes, each row ends immediately. A sampler may
        process one row at a time."""

        def logits(n: int, _: Any) -> Tensor:
            self.scripted = n < most
            return self.script if self.scripted else self.over

        ids = torch.tensor([self.row] * rows, device=device_of(self.model))
        with scripted_logits(self.model, logits):
            return sampled(self.sample, ids, torch.ones_like(ids), self.model, seed)[:, ids.shape[1] :]

    def handed(self) -> list[Tensor]:
        """Return the probabilities from which torch draws, the largest first; empty if the sampler draws in another
        way."""
        seen: list[Tensor] = []

        def keep(table: Tensor) -> None:
            if self.scripted and table.shape[-1] > 1:
                seen.extend((table / table.sum(-1, keepdim=True)).reshape(-1, table.shape[-1]).double().cpu())

        with at_draws(multinomial=functools.partial(_watched, keep=keep)):
            self._new_tokens(4, 8, 0)
        return [row.sort(descending=True).values for row in seen]

    def counted(self, least: int, most: int) -> Tensor:
        """Return how often each word is drawn, from up to eight batches of 48 rows, until there are ``least`` draws."""
        counts = torch.zeros(len(self.words))
        for seed in range(8):
            new = self._new_tokens(48, most, seed)
            counts += torch.tensor([float((new == w).sum()) for w in self.words])
            if float(counts.sum()) >= least:
                break
        return counts


def _watched(multinomial: Callable[..., Tensor], keep: Callable[[Tensor], None]) -> Callable[..., Tensor]:
    """Wrap `torch.multinomial` so that its input is recorded."""

    @functools.wraps(multinomial)
    def watched(probabilities: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        keep(probabilities.detach())
        return multinomial(probabilities, *args, **kwargs)

    return watched


def shut_out(sample: Callable[..., Any], model: Any, tokenizer: Any, rows: Sequence[Ids], temperature: float) -> float:
    """Return the total probability of the words that a sampler never draws. At the sampler's temperature, 8 of 64 words
    have 0.85 of the probability, as for a trained policy. If draws are counted, each word is expected at least five
    times. By chance, one word in 150 is never drawn, so up to five missing words are allowed.
    """
    words = plain_ids(tokenizer, model, rows, count=64)
    likely = len(words) // 8
    # all logits differ, because a top-k may keep all ties
    shares = torch.linspace(1.05, 0.95, len(words)) * 0.15 / (len(words) - likely)
    shares[:likely] = torch.linspace(1.05, 0.95, likely) * 0.85 / likely
    shares /= shares.sum()
    scripted = Scripted(sample, model, rows[0], words, temperature * shares.log(), special_ids(tokenizer).eos)
    if handed := scripted.handed():
        kept = [int((row > 1e-6 * row[0]).sum()) for row in handed]
        return float(shares[sorted(kept)[len(kept) // 2] :].sum())
    counts = scripted.counted(2200, 2400)
    never = (counts == 0) & (shares * counts.sum() >= 5)
    return float(shares[never].sum()) if int(never.sum()) > 5 else 0.0


class Measured(NamedTuple):
    """A temperature, and its maximum error."""

    value: float
    error: float


def measured_temperature(
    sample: Callable[..., Any], model: Any, tokenizer: Any, rows: Sequence[Ids], declared: float
) -> Measured:
    """Return the temperature at which a sampler draws tokens from scripted logits; 0 means greedy.

    The logits of six tokens are spaced by half the declared temperature. Filters keep the odds of the remaining tokens.
    """
    words = plain_ids(tokenizer, model, rows)[:6]
    steps = torch.arange(len(words)) * 0.5 * declared
    scripted = Scripted(sample, model, rows[0], words, -steps, special_ids(tokenizer).eos)
    if handed := scripted.handed():
        odds = torch.stack([row[:2] for row in handed]).log()
        found = 0.5 * declared / (odds[:, 0] - odds[:, 1]).clamp(min=1e-6)
        return Measured(float(found.median()), float(found.max() - found.min()))  # a penalty differs from step to step
    counts = scripted.counted(1, 800)
    often = counts >= 8
    if int(often.sum()) < 2:
        return Measured(0.0, 0.0)
    weight, x, y = counts[often], steps[often], counts[often].log()
    mx, my = (weight * x).sum() / weight.sum(), (weight * y).sum() / weight.sum()
    slope = float((weight * (x - mx) * (y - my)).sum() / (weight * (x - mx) ** 2).sum())
    if not slope < -1e-3:
        return Measured(math.inf, 0.0)
    deviation = float((weight * (x - mx) ** 2).sum()) ** -0.5 / slope**2
    return Measured(-1 / slope, 3 * deviation)
