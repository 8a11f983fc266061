"""Measures what a sampler draws: its tokens with a fixed random state, the log-probabilities of these tokens, and the
temperature."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import special_ids
from .entry_points import Ids, Unjudged
from .generations import generation_option, generations
from .intercept import language_model
from .model_modes import fixed_chance

LONGEST = 16
"""Maximum number of tokens that a probe lets a sampler generate."""


_TOLD = ("return_dict_in_generate", "output_scores", "output_logits")


def _shortened(kwargs: dict[str, Any], most: int) -> dict[str, Any]:
    """Return arguments with which ``generate`` produces a shorter output and returns the scores of that output."""
    config = kwargs.get("generation_config")
    if config is not None:
        config = copy.deepcopy(config)
        config.max_new_tokens = min(config.max_new_tokens or most, most)
        config.max_length = type(config)().max_length  # otherwise, transformers warns at each call that both are set
        config.min_new_tokens = min(config.min_new_tokens or 0, most) or None
        for name in _TOLD:
            setattr(config, name, True)
        kwargs = {k: v for k, v in kwargs.items() if k not in _TOLD} | {"generation_config": config}
    else:
        kwargs = {**kwargs, **dict.fromkeys(_TOLD, True)}
    if kwargs.get("max_length") is not None:
        kwargs = {k: v for k, v in kwargs.items() if k != "max_length"} | {"max_new_tokens": most}
    for name in ("max_new_tokens", "min_new_tokens"):
        if kwargs.get(name) is not None:
            kwargs = {**kwargs, name: min(kwargs[name], most)}
    return kwargs


def _scores(found: Any, tokens: Tensor) -> Tensor:
    rows = [score.float().log_softmax(-1).gather(1, tokens[:, [n]]) for n, score in enumerate(found.scores)]
    return torch.cat(rows, 1)


LIBRARY_TOP_K = 50
"""Default top_k of transformers' ``generate``."""


def _shut_out(found: Any) -> list[tuple[float, bool]]:
    """Return the mean probability at each step of the tokens that the processors exclude, except a few special tokens.
    The second result is whether exactly the library's default number of tokens remains."""
    out = []
    for score, logits in zip(found.scores, found.logits or (), strict=False):
        shut = score.isinf()
        best = score.masked_fill(shut, -torch.inf).topk(2, -1)
        raw = logits.to(score).gather(-1, best.indices)
        # filters keep the odds of the two most likely tokens, which show the temperature
        temperature = ((raw[:, :1] - raw[:, 1:]) / (best.values[:, :1] - best.values[:, 1:])).nan_to_num(1.0, 1.0, 1.0)
        mass = ((logits.to(score) / temperature.clamp(0.05, 20)).softmax(-1) * shut).sum(-1)
        left = shut.shape[-1] - shut.sum(-1)
        out.append((float((mass * (shut.sum(-1) > 8)).mean()), bool((left == LIBRARY_TOP_K).all())))
    return out


def _of_rows(told: Sequence[tuple[Ids, Tensor]], new: Tensor) -> Tensor | None:
    """Return the scores of the new tokens (N, R), from one or several calls of ``generate``. Return None if a row is
    not found.
    """
    left, out = list(told), torch.zeros(new.shape, device=new.device)
    for n, row in enumerate(new.tolist()):
        at = next((k for k, (said, _) in enumerate(left) if all(map(int.__eq__, said, row))), None)
        if at is None:
            return None
        _, scores = left.pop(at)
        out[n, : len(scores)] = scores[: out.shape[1]]
    return out


class Draws(NamedTuple):
    """The draws of a sampler."""

    tokens: Tensor
    """(N, P + R), including the prompt."""
    logprobs: Tensor | None
    """(N, R): log-probabilities under the sampler's distribution (after all logits processors), or None if unknown."""
    shut: float
    """Mean probability at each step of the tokens that a filter (top-p, top-k, min-p) excluded; 0 if unknown."""
    default: bool
    """Whether every step kept the library's default number of tokens."""


def draws_of(
    sample: Callable[..., Any], model: Any, ids: Tensor, real: Tensor, seed: int = 0, most: int = LONGEST
) -> Draws:
    """Return the draws of `sample` with a fixed random state, with at most this many new tokens if `sample` calls
    ``generate``."""
    fixed_chance(seed)
    told: list[tuple[Ids, Tensor]] = []
    shut: list[tuple[float, bool]] = []

    def generate(call: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        found = call(*args, **_shortened(kwargs, most))
        if isinstance(found, Tensor):
            return found
        new = found.sequences[:, -len(found.scores) :]
        told.extend(zip(new.tolist(), _scores(found, new), strict=True))
        shut.extend(_shut_out(found))
        return found if generation_option(kwargs, "return_dict_in_generate") else found.sequences

    with generations(model, generate), torch.no_grad():
        found = sample(ids, real)
    given = found[1] if isinstance(found, tuple | list) else None
    tokens = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.shape[1] <= ids.shape[1]:
        raise Unjudged("sample did not return tokens of shape (N, P + R) that begin with the prompt")
    scores = _of_rows(told, tokens[:, ids.shape[1] :])
    scores = given if scores is None else scores
    mean = sum(mass for mass, _ in shut) / len(shut) if shut else 0.0
    logprobs = None if scores is None else torch.as_tensor(scores).detach()
    return Draws(tokens.detach(), logprobs, mean, bool(shut) and all(default for _, default in shut))


def sampled(
    sample: Callable[..., Any], ids: Tensor, real: Tensor, model: Any = None, seed: int = 0, most: int = LONGEST
) -> Tensor:
    """Return tokens (N, P + R) that `sample` draws with a fixed random state."""
    return draws_of(sample, model, ids, real, seed, most).tokens


def finished(tokens: Tensor, width: int, end: frozenset[int] | set[int]) -> list[Ids]:
    """Return the responses in tokens (N, P + R), from the padded width of the prompts up to and including the first end
    token."""
    rows = []
    for row in tokens[:, width:].tolist():
        stop = next((n + 1 for n, i in enumerate(row) if i in end), len(row))
        rows.append(row[:stop])
    return rows


def end_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    """Return the ids at which generation stops."""
    config = getattr(language_model(model), "generation_config", None)
    known = getattr(config, "eos_token_id", None)
    listed = known if isinstance(known, list) else [known]
    return frozenset(i for i in (*listed, special_ids(tokenizer).eos) if i is not None)


def agreement(one: Tensor, two: Tensor, width: int) -> float:
    """Return the share of new tokens (after the width of the prompts) that are equal in two outputs (N, P + R). A token
    that only one output has counts as unequal."""
    a, b = one[:, width:], two[:, width:]
    shared = min(a.shape[1], b.shape[1])
    return float((a[:, :shared] == b[:, :shared]).sum()) / (len(a) * max(a.shape[1], b.shape[1]))
