"""Aligns the log-probabilities from the trainer and the rollout engine, by one shift for all tokens or by shifts that
begin within a response."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .batch import Tokens

LARGEST = 4.0
"""Maximum absolute difference in nats. Larger differences are clipped, so that a single token does not determine the
result."""
LAGS = (0, -1, 1, -2, 2, -3, 3, -4, 4)
SWITCH = 3.0
"""Cost in nats of a change in the shift, so that several tokens must agree better after the change."""
RECOVERY = 4
"""Number of tokens before and after a change in the shift for which the differences are attributed to the change."""
LEAST = 0.02
"""Minimum mean absolute difference per token (clipped at 1 nat) at which the search for an alignment starts."""


def parts(tokens: Tokens, left: np.ndarray) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield each cause, the part (N,) of the difference that the cause predicts, and the size of its effect."""
    trainer, engine, place = _padded(tokens)
    cost = _costs(trainer, engine)
    if np.nanmean(cost[0]) < LEAST:
        return
    lag = _shift(cost)
    if lag:
        shifted = _shifted(engine, np.full(engine.shape, lag))
        rest = _rest(trainer, shifted)[place]
        yield "shift", left - rest, float(abs(lag))
        left, engine = rest, shifted
        cost = _costs(trainer, engine)
        if np.nanmean(cost[0]) < LEAST:
            return
    path, better = _path(cost)
    if better.any():
        aligned = np.where(_near_a_switch(path), 0.0, _rest(trainer, _shifted(engine, path)))
        rest = np.where(better[:, None], aligned, _rest(trainer, engine))[place]
        yield "retokenised", left - rest, float(better.mean())


def _padded(tokens: Tokens) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the log-probabilities (B, T) from the trainer and the engine, and the position of each token in these
    arrays. Values after the end of a response are NaN."""
    lengths = np.bincount(tokens.response)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    place = tokens.response, np.arange(len(tokens)) - starts[tokens.response]
    sides = np.full((2, len(lengths), lengths.max()), np.nan)
    sides[0][place], sides[1][place] = tokens.trainer, tokens.engine
    return sides[0], sides[1], place


def _at(values: np.ndarray, lag: int) -> np.ndarray:
    """Return, for each token, the value (B, T) of the token ``lag`` places later; NaN outside the response."""
    out = np.full_like(values, np.nan)
    if lag >= 0:
        out[:, : values.shape[1] - lag] = values[:, lag:]
    else:
        out[:, -lag:] = values[:, :lag]
    return out


def _costs(trainer: np.ndarray, engine: np.ndarray) -> np.ndarray:
    """Return the absolute differences (lags, B, T) at each lag, clipped at 1. If a token has no partner at a lag,
    return its difference without a lag."""
    here = np.minimum(np.abs(trainer - engine), 1.0)
    others = [np.minimum(np.abs(trainer - _at(engine, lag)), 1.0) for lag in LAGS[1:]]
    return np.stack([here, *(np.where(np.isnan(other), here, other) for other in others)])


def _shift(cost: np.ndarray) -> int:
    """Return the lag at which the beginnings of all responses agree more than twice as well as without a lag; 0 if
    there is no such lag."""
    beginning = np.nansum(cost[:, :, : max(8, cost.shape[2] // 3)], axis=(1, 2))
    best = int(np.argmin(beginning))
    return LAGS[best] if beginning[best] < 0.5 * beginning[0] else 0


def _path(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lag of each token (B, T) on the cheapest path, and the responses (B,) that agree much better on this
    path.

    The path is found by dynamic programming over the tokens. Each token keeps the lag of the previous token, or changes
    the lag at the cost `SWITCH`.
    """
    lags, rows, length = cost.shape
    paid = np.nan_to_num(cost)
    total = paid[:, :, 0] + SWITCH * (np.arange(lags) > 0)[:, None]
    came = np.zeros((length, lags, rows), np.int8)
    own = np.arange(lags, dtype=np.int8)[:, None]
    for t in range(1, length):
        cheapest = total.argmin(0)
        switched = total.min(0) + SWITCH
        came[t] = np.where(total <= switched, own, cheapest)
        total = np.minimum(total, switched) + paid[:, :, t]
    state = total.argmin(0)
    path = np.zeros((rows, length), int)
    for t in range(length - 1, -1, -1):
        path[:, t] = np.array(LAGS)[state]
        state = came[t][state, np.arange(rows)]
    before, after = paid[0].sum(1), total.min(0)
    better = (after < 0.7 * before) & (before > SWITCH)
    return path, better & (after[better].sum() < 0.5 * before[better].sum())


def _near_a_switch(path: np.ndarray) -> np.ndarray:
    """Return the tokens (B, T) within `RECOVERY` tokens of a change in the lag, because the change affects the context
    of these tokens."""
    switched = np.diff(path, axis=1, prepend=path[:, :1]) != 0
    reached = np.cumsum(np.pad(switched, ((0, 0), (RECOVERY, RECOVERY))), 1)
    return np.asarray(reached[:, 2 * RECOVERY :] - reached[:, : -2 * RECOVERY] > 0)


def _shifted(engine: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Return the engine's log-probabilities (B, T) with each token shifted by its lag."""
    out = engine.copy()
    for lag in LAGS[1:]:
        out = np.where(path == lag, _at(engine, lag), out)
    return out


def _rest(trainer: np.ndarray, engine: np.ndarray) -> np.ndarray:
    """Return the remaining differences (B, T); 0 for a token without a partner."""
    return np.asarray(np.clip(np.nan_to_num(trainer - engine), -LARGEST, LARGEST))
