"""Forces the tokens that a sampling loop draws. The loop receives the model's own logits, so the log-probabilities that
it computes are the model's own.

torch and its distributions draw with ``multinomial``; greedy and Gumbel loops use ``argmax``. A loop that draws in
another way, or that excludes the wanted token, raises `Undrawn` and then receives one-hot logits instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor

from .entry_points import Ids
from .intercept import kept_in, replaced

T = TypeVar("T")


class Undrawn(Exception):  # noqa: N818  (not an error: the script has to be given in another way)
    """Raised if the tokens of a loop cannot be forced."""


_ONE_HOT: list[bool] = []

OLDER: list[Callable[[Ids, Tensor], None]] = []
"""Functions that change the logits (V,) for the first token of a response in place; the function of the innermost block
is last."""


class Ways:
    """The scripting method for the loops of one adapter: forced draws until a loop's draws cannot be forced, then
    one-hot logits."""

    def __init__(self) -> None:
        self.one_hot = False

    def __call__(self, call: Callable[[], T], again: Callable[[], None]) -> T:
        """Run the call. If its draws cannot be forced, call ``again``, and run the call with one-hot logits."""
        try:
            with kept_in(_ONE_HOT, True) if self.one_hot else nullcontext():
                return call()
        except Undrawn:
            self.one_hot = True
            again()
        with kept_in(_ONE_HOT, True):
            return call()


def by_logits() -> bool:
    """Return whether sampling loops are currently scripted by one-hot logits."""
    return bool(_ONE_HOT)


class ForcedDraws:
    """The tokens to draw next, one per row, from the most recent logits."""

    def __init__(self) -> None:
        self.logits: Tensor | None = None
        self.tokens: Ids = []
        self.row = 0
        self.fresh = False
        """Whether nothing has been drawn from these logits yet."""

    def expect(self, logits: Tensor, tokens: Sequence[int], again: bool) -> None:
        """Set the tokens (N,) to draw from these logits (N, V). ``again`` is true if the loop may be scoring tokens
        that it has already drawn."""
        self.logits, self.tokens, self.row = logits.detach(), list(tokens), 0
        self.fresh = self.fresh or not again

    def _rows(self, table: Tensor) -> list[int] | None:
        """Return the rows of the logits to which a table of weights belongs, or None if the table is unrelated to the
        logits."""
        if self.logits is None or table.ndim not in (1, 2) or table.shape[-1] < 2:
            return None
        count, size = (1 if table.ndim == 1 else len(table)), len(self.tokens)
        if table.shape[-1] > self.logits.shape[-1] or count not in (1, size):
            return None
        if count == size:
            return list(range(size))
        self.row += 1
        return [(self.row - 1) % size]

    def of_weights(self, weights: Tensor) -> Tensor | None:
        """Return the indices of the wanted tokens among the weights, or None if the weights are unrelated to the
        logits."""
        rows = self._rows(weights)
        if rows is None:
            return None
        self.fresh = False
        table = weights if weights.ndim == 2 else weights[None]
        places = [self._place(row, self.tokens[n], n) for n, row in zip(rows, table, strict=True)]
        out = torch.tensor(places, device=weights.device)
        return out if weights.ndim == 1 else out[:, None]

    def _place(self, weights: Tensor, token: int, row: int) -> int:
        """Return the index of a token's weight: its id, or its rank if the weights were sorted or truncated."""
        assert self.logits is not None
        logits = self.logits[row].to(weights.device)
        size = len(logits)
        falling = bool((weights[1:] <= weights[:-1]).all()) and bool((logits[1:] > logits[:-1]).any())
        place = int((logits > logits[token]).sum()) if len(weights) < size or falling else token
        if place >= len(weights) or not float(weights[place]) > 0:
            raise Undrawn
        return place

    def of_argmax(self, table: Tensor) -> Tensor | None:
        """Return the wanted tokens, (N,) or (), in place of the indices of the largest weights. Return None for an
        unrelated table."""
        if self.logits is None or not table.is_floating_point() or table.shape[-1] != self.logits.shape[-1]:
            return None
        rows = self._rows(table)
        if rows is None:
            return None
        self.fresh = False
        out = torch.tensor([self.tokens[n] for n in rows], device=table.device)
        return out if table.ndim == 2 else out[0]


@contextmanager
def at_draws(**wraps: Callable[[Callable[..., Tensor]], Callable[..., Tensor]]) -> Iterator[None]:
    """Wrap these functions of torch and of its tensors inside the block. torch's distributions draw with the same
    functions."""
    with ExitStack() as stack:
        for place in (torch, torch.Tensor):
            for name, wrap in wraps.items():
                stack.enter_context(replaced(place, name, wrap(getattr(place, name))))
        yield


def forced(draws: ForcedDraws) -> AbstractContextManager[None]:
    """Force the tokens of ``draws`` inside the block; other draws are unchanged."""
    return at_draws(
        multinomial=functools.partial(_multinomial, draws=draws), argmax=functools.partial(_argmax, draws=draws)
    )


def _multinomial(function: Callable[..., Tensor], draws: ForcedDraws) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def multinomial(weights: Tensor, num_samples: int = 1, *args: Any, **kwargs: Any) -> Tensor:
        found = draws.of_weights(weights) if num_samples == 1 else None
        return function(weights, num_samples, *args, **kwargs) if found is None else found

    return multinomial


def _argmax(function: Callable[..., Tensor], draws: ForcedDraws) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def argmax(table: Tensor, dim: int | None = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
        last = dim in (-1, table.ndim - 1) or (dim is None and table.ndim == 1)
        found = draws.of_argmax(table) if last else None
        if found is None:
            return function(table, dim, keepdim, **kwargs)
        return found.unsqueeze(-1) if keepdim else found

    return argmax
