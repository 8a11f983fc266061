"""Locates the samples of a loss in the forward passes of its model, even if the samples are padded on any side,
shifted, packed or repacked.

Samples are found by their ids, without assumptions about the layout. A row may contain one or several samples. The last
token of a response may be missing if the trainer passes all tokens except the last one to the model. A missing last
token is cut off at the end of the row, or replaced by padding if each sample was cut before padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .entry_points import Ids
from .intercept import Forward


class Sample(NamedTuple):
    """One sample in one forward pass. Positions refer to the ids of the pass."""

    forward: Forward
    row: int
    start: int
    """Position of the first token of the sample, which belongs to the prompt."""
    said: int
    """Position of the first token of the response, or one past the last token of the row if the response is cut off."""
    response: Ids
    low: int
    """First position of the sample's part of the row, which is 0 for the first sample of a row."""
    high: int
    """One past the last position of the sample: the next sample's first token, or the end of the row."""

    def predicting(self) -> list[int]:
        """Return the positions of the logits that predict the response."""
        kept = self.forward.input_ids.shape[1] - self.forward.logits.shape[1]
        return [self.said - 1 - kept + n for n in range(len(self.response))]

    def lacks_last(self) -> bool:
        """Return whether the last token of the response was withheld from the model."""
        return _lacks_last(self.forward.input_ids[self.row].tolist(), self.said, self.response)

    def ids(self) -> Tensor:
        """Return the ids (T,) of the sample's part of the row, including padding, and including the last token if the
        model did not receive it."""
        return self._with_last(self.forward.input_ids[self.row, self.low : self.high], self.response[-1:])

    def _with_last(self, values: Tensor, last: Sequence[int]) -> Tensor:
        """Return the values (T,) of the sample's part of the row, with ``last`` inserted if the model did not receive
        the last token."""
        if not self.lacks_last():
            return values
        at = self.said + len(self.response) - 1 - self.low
        return torch.cat([values[:at], values.new_tensor(last), values[at + 1 :]])

    def real(self) -> Tensor:
        """Return a mask (T,) that is 1 for attended tokens or, without an attention mask, for the sample's own tokens
        and for trained tokens."""
        end = self.said + len(self.response)
        mask = self.forward.attention_mask
        if mask is None:
            trained = self.trained()
            position = torch.arange(self.low, self.low + len(trained), device=self.forward.input_ids.device)
            if not self.response and bool(trained.any()):  # without a sample, padding follows the trained tokens
                end = int(position[trained][-1]) + 1
            return ((position >= self.start) & (position < end) | trained).long()
        return self._with_last(mask[self.row, self.low : self.high].long(), [1])

    def of_logits(self, values: Tensor, fill: float) -> Tensor:
        """Return, for each of T tokens, the value at the logit position that predicts the token."""
        kept = self.forward.input_ids.shape[1] - self.forward.logits.shape[1]
        places = torch.arange(self.low, self.low + len(self.ids()), device=values.device) - 1 - kept
        inside = (places >= 0) & (places < len(values))
        return torch.where(inside, values[places.clamp(0, len(values) - 1)], torch.full_like(values[:1], fill))

    def trained(self) -> Tensor:
        """Return a mask (T,) of bool: whether the logits that predict a token have a gradient."""
        gradient = self.forward.gradient
        if gradient is None:
            return torch.zeros(len(self.ids()), dtype=torch.bool, device=self.forward.logits.device)
        return self.of_logits((gradient[self.row].abs().amax(-1) > 0).float(), 0.0) > 0

    def holds(self, marked: Tensor) -> bool:
        """Return whether a mask (T,) marks every token of the response."""
        first = self.said - self.low
        return bool(marked[first : first + len(self.response)].all())

    def logprobs(self, temperature: float = 1.0) -> Tensor:
        """Return the log-probabilities (T-1,) of every token except the first; 0 for a token that no logits predict."""
        ids = self.ids()
        kept = self.forward.input_ids.shape[1] - self.forward.logits.shape[1]
        table = (self.forward.logits[self.row].detach().float() / temperature).log_softmax(-1)
        places = torch.arange(self.low, self.low + len(ids) - 1, device=ids.device) - kept
        inside = (places >= 0) & (places < len(table))
        found = table[places.clamp(0, len(table) - 1)].gather(-1, ids[1:, None]).squeeze(-1)
        return torch.where(inside, found, torch.zeros_like(found))


def located(forwards: Sequence[Forward], prompts: Sequence[Ids], responses: Sequence[Ids]) -> list[Sample | None]:
    """Return each sample with its position in a forward pass, or None if no pass contains the sample. A pass with a
    gradient on the sample is preferred.

    A response after its own prompt is preferred to a response after other ids. A row may lack the last token of a
    response, because the model receives all tokens except the last one, or because the trainer lost it. The gradient at
    the position of the missing token distinguishes the two cases. Without a gradient, shorter rows of the batch decide:
    they show whether the model receives last tokens.
    """
    rows = [(f, n, f.input_ids[n].tolist()) for f in forwards for n in range(len(f.input_ids))]
    known = [list(p) for p in prompts if p]
    pairs = [(list(p), list(r)) for p, r in zip(prompts, responses, strict=True)]
    found = [_best(rows, p, r, known) for p, r in pairs]
    if None in found and any(at is not None and _whole(at) for at in found):
        found = [at or _best(rows, p, r, known, cut=True) for at, (p, r) in zip(found, pairs, strict=True)]
    return [None if at is None else _bounded(at, found) for at in found]


_Place = tuple[Forward, int, int, int, Ids]


def _whole(at: _Place) -> bool:
    """Return whether the response is complete and the row continues after it."""
    forward, row, _, said, response = at
    whole = not _lacks_last(forward.input_ids[row].tolist(), said, response)
    return whole and said + len(response) < forward.input_ids.shape[1]


def _lacks_last(ids: Ids, said: int, response: Ids) -> bool:
    """Return whether a row contains a response except its last token."""
    last = said + len(response) - 1
    return bool(response) and (last >= len(ids) or ids[last] != response[-1])


def _best(
    rows: Sequence[tuple[Forward, int, Ids]], prompt: Ids, response: Ids, known: Sequence[Ids], cut: bool = False
) -> _Place | None:
    """Return the best match for a sample: the pass, the row, the start, the position of the response, and the response.
    With ``cut``, the last token of the response may be untrained."""
    best: tuple[tuple[bool, bool, bool], _Place] | None = None
    for forward, n, ids in rows:
        for said in (*_places(ids, response), *_before_padding(forward, n, ids, response)):
            own = ids[max(0, said - len(prompt)) : said] == prompt
            others = any(ids[max(0, said - len(p)) : said] == p for p in known)
            lacks = _lacks_last(ids, said, response)
            if not own and (others or not _unmistakable(response, lacks)):
                continue
            start = said - len(prompt) if own else _first(forward, n, said)
            grad = forward.gradient
            if not cut and said + len(response) > len(ids) and grad is not None and not bool(grad[n, -1].any()):
                continue  # not a cut response, because nothing predicts the token
            rank = own, grad is not None and bool(grad[n].any()), not lacks
            if best is None or rank > best[0]:
                best = rank, (forward, n, start, said, response)
    return None if best is None else best[1]


def _places(ids: Ids, response: Ids) -> list[int]:
    """Return the positions of the response in a row, including a position at which the end of the row cuts off the last
    token."""
    size = len(response)
    whole = [n for n in range(1, len(ids) - size + 1) if ids[n] == response[0] and ids[n : n + size] == response]
    cut = len(ids) - size + 1
    return [*whole, cut] if cut >= 1 and ids[cut:] == response[:-1] else whole


def _before_padding(forward: Forward, row: int, ids: Ids, response: Ids) -> list[int]:
    """Return the positions at which a row contains a response without its last token, followed by padding, if the loss
    trains that token. The loss trains the token if its logit has the largest gradient at the predicting position.
    Without a gradient, it is unknown whether the loss trains the token."""
    size, grad = len(response) - 1, forward.gradient
    places = [
        n for n in range(1, len(ids) - size) if ids[n : n + size] == response[:-1] and ids[n + size] != response[-1]
    ]
    real = None if forward.attention_mask is None or not places else forward.attention_mask[row].tolist()
    found = []
    for said in places:
        last = said + size - 1 - (len(ids) - forward.logits.shape[1])
        padding = len({*ids[said + size :]}) == 1 if real is None else real[said + size] == 0
        if not padding or last < 0:
            continue
        if grad is None or (bool(grad[row, last].any()) and int(grad[row, last].abs().argmax()) == response[-1]):
            found.append(said)
    return found


def _unmistakable(response: Ids, lacks: bool) -> bool:
    """Return whether a response that follows ids other than its prompt is reliably identified. A single end token is
    not reliable, because it occurs in many rows."""
    return len(response) > 2 if lacks else len(set(response)) > 1


def _first(forward: Forward, row: int, said: int) -> int:
    """Return the start of the attended tokens that precede the response without a gap."""
    mask = forward.attention_mask
    if mask is None:
        return 0
    real = mask[row, :said].tolist()
    return said - next((n for n, r in enumerate(reversed(real)) if not r), said)


def _bounded(at: _Place, everything: Sequence[_Place | None]) -> Sample:
    forward, row, start, said, response = at
    beside = [o for o in everything if o is not None and o[0] is forward and o[1] == row and o is not at]
    low = max((o[3] + len(o[4]) for o in beside if o[3] < said), default=0)
    end = min(said + len(response), forward.input_ids.shape[1])
    after = [max(o[2], end) for o in beside if o[3] > said]  # tokens before the next prompt belong to this sample
    high = min(after, default=forward.input_ids.shape[1])
    return Sample(forward, row, max(start, low), said, response, max(start, low) if low else 0, high)
