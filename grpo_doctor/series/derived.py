"""Computes columns from recorded fields. One definition serves live runs (by row) and logs (by block)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..record import FIELDS
from . import Column, Plan, each, isnan, maximum, where
from .reward_components import task_reward


def _first_known(*columns: Column) -> Column:
    out = columns[0]
    for column in columns[1:]:
        out = where(isnan(out), column, out)
    return out


def _k3_of(difference: Any) -> Any:
    """Estimate k3 from d, the mean absolute difference of log-probabilities: half the mean square, which is pi/2 d^2
    for normal differences.

    A difference of probabilities gives a lower bound: |p - q| <= |log p - log q|.
    """
    return math.pi / 4 * difference * difference


_DERIVED: dict[str, tuple[tuple[str, ...], Callable[..., Column], str]] = {
    "invalid_rate": (
        ("fallback_rate", "valid_rate"),
        lambda fallback, valid: _first_known(fallback, 1 - valid),
        "share of responses that are invalid or were replaced by a default, 0 to 1",
    ),
    "dead_share": (
        ("zero_variance_groups", "groups", "live_groups", "zero_variance_share"),
        lambda dead, groups, live, share: _first_known(dead / groups, 1 - live / groups, share),
        "share of groups whose rewards are all equal, 0 to 1",
    ),
    "live_count": (
        ("live_groups", "groups", "zero_variance_groups"),
        lambda live, groups, dead: _first_known(live, groups - dead),
        "groups whose rewards differ",
    ),
    "cut_share": (
        ("truncated_rate", "eos_rate"),
        lambda cut, eos: _first_known(cut, 1 - eos),
        "share of responses cut at the limit, 0 to 1",
    ),
    "reward_meant": (
        ("reward_components",),
        lambda components: each(task_reward, components),
        "sum of the reward components that are not named after formatting, if others are",
    ),
    "rollout_gap": (
        ("rollout_mismatch_kl", "rollout_logp_diff", "rollout_mult_prob_error", "rollout_prob_diff"),
        lambda k3, nats, factor, gap: _first_known(k3, *(_k3_of(d) for d in (nats, np.log(maximum(factor, 1.0)), gap))),
        "difference between sampler and trainer log-probabilities (k3, nats per token)",
    ),
}
"""Columns computed row by row from other columns: name, inputs, function and meaning."""

DERIVED = {name: (inputs, Plan.of(function, len(inputs))) for name, (inputs, function, _) in _DERIVED.items()}
"""The inputs and the plan of each derived column."""

MEANINGS = {**FIELDS, **{name: meaning for name, (_, _, meaning) in _DERIVED.items()}}
"""The meaning of every field, recorded or derived, that a check may use."""
