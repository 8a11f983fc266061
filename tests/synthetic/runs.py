"""Runs of 400 steps with the fields of a TRL log: healthy ones, converged ones, and one for each kind of failure.

A healthy run learns a 0-to-1 reward from 8 prompts of differing difficulty, 8 responses each, so its noise is that of
64 answers; a failing one is a healthy one with a fault added. Shapes (T,): one value per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grpo_doctor.run import Run, RunBuilder

STEPS = 400
Columns = dict[str, np.ndarray]


def ramp(start: float, end: float, begin: int, stop: int = STEPS) -> np.ndarray:
    """Return ``start`` until ``begin``, then a straight line to ``end`` at ``stop``, and ``end`` afterwards."""
    return np.interp(np.arange(STEPS), [begin, stop], [start, end])


def rewards(rng: np.random.Generator, right: np.ndarray, size: int = 8, prompts: int = 8) -> Columns:
    """Reward columns of ``prompts`` groups of ``size`` answers that are correct with mean probability ``right``
    (T,)."""
    ease = np.clip(right, 1e-4, 1 - 1e-4)[:, None]
    chance = rng.beta(3 * ease, 3 * (1 - ease), (STEPS, prompts))
    hits = rng.binomial(size, chance)
    mean = hits.sum(1) / (size * prompts)
    dead = (hits == 0) | (hits == size)
    return {
        "reward_mean": mean,
        "reward_std": np.sqrt(mean * (1 - mean)),
        "zero_variance_share": dead.mean(1),
        "advantage_std": np.sqrt(1 - dead.mean(1)),
        "advantage_mean": rng.normal(0, 1e-8, STEPS),
    }


def held_out(right: np.ndarray) -> np.ndarray:
    """A score of 500 other prompts on every 20th step: a little lower than in training (T,)."""
    scores = np.random.default_rng(0).binomial(500, np.clip(right, 0, 1) * 0.95) / 500
    return np.where(np.arange(STEPS) % 20 == 0, scores, np.nan)


def healthy(seed: int) -> Columns:
    """It learns: 25% to 75% right, entropy 0.9 to 0.35, KL 0 to 0.03, length 200 to 260, 2% truncated."""
    rng = np.random.default_rng(seed)
    t = np.arange(STEPS)
    right = 0.25 + 0.5 * (1 - np.exp(-t / 120))
    length = 200 + 60 * (1 - np.exp(-t / 150)) + rng.normal(0, 8, STEPS)
    return {
        **rewards(rng, right),
        "loss": rng.normal(0, 0.01, STEPS),
        "grad_norm": 0.4 * np.exp(rng.normal(0, 0.25, STEPS)),
        "learning_rate": np.full(STEPS, 1e-6),
        "kl": 0.03 * (1 - np.exp(-t / 150)) * np.exp(rng.normal(0, 0.15, STEPS)),
        "entropy_mean": (0.35 + 0.55 * np.exp(-t / 150)) * np.exp(rng.normal(0, 0.04, STEPS)),
        "clip_fraction": rng.uniform(0, 0.01, STEPS),
        "response_length_mean": length,
        "response_length_min": 0.4 * length,
        "response_length_max": np.minimum(2.2 * length, 512),
        "truncated_rate": rng.binomial(64, 0.02, STEPS) / 64,
        "eval_score": held_out(right),
    }


def converged(seed: int) -> Columns:
    """Continues where another run ended: 92% correct, entropy 0.2, all metrics constant."""
    rng = np.random.default_rng(seed)
    columns = healthy(seed)
    right = np.full(STEPS, 0.92)
    columns |= rewards(rng, right)
    columns["entropy_mean"] = 0.2 * np.exp(rng.normal(0, 0.05, STEPS))
    columns["kl"] = 0.002 * np.exp(rng.normal(0, 0.1, STEPS))
    columns["grad_norm"] = 0.15 * np.exp(rng.normal(0, 0.3, STEPS))
    columns["response_length_mean"] = 240 + rng.normal(0, 6, STEPS)
    columns["eval_score"] = held_out(right)
    return columns


def entropy_collapse(seed: int) -> Columns:
    """Starting at step 150, the entropy falls to 0.01, groups lose their variance, and the reward falls from 0.6 to
    0.3."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    columns |= rewards(rng, np.where(np.arange(STEPS) < 150, ramp(0.25, 0.6, 0, 150), ramp(0.6, 0.3, 150, 260)))
    columns["entropy_mean"] *= np.exp(ramp(0, np.log(0.02), 150, 240))
    columns["zero_variance_share"] = np.maximum(columns["zero_variance_share"], ramp(0, 0.95, 150, 240))
    columns["grad_norm"] *= ramp(1, 0.05, 150, 240)
    columns["eval_score"] = held_out(columns["reward_mean"])
    return columns


def group_of_two(seed: int) -> Columns:
    """It learns from pairs."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    columns |= rewards(rng, ramp(0.25, 0.7, 0), size=2, prompts=32)
    columns["advantage_abs_values"] = np.array([[0.7071]] * STEPS + [None], object)[:-1]
    return columns


def kl_explosion(seed: int) -> Columns:
    """Starting at step 200, the KL rises from 0.02 to 8 nats per token, and the reward falls."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    columns |= rewards(rng, np.where(np.arange(STEPS) < 240, ramp(0.25, 0.65, 0, 240), ramp(0.65, 0.03, 240, 320)))
    columns["kl"] *= np.exp(ramp(0, np.log(300), 200, 320))
    columns["grad_norm"] *= ramp(1, 6, 200, 320)
    columns["eval_score"] = held_out(columns["reward_mean"])
    return columns


def length_hack(seed: int) -> Columns:
    """The reward grants 0.002 per token: length 200 to 900, truncation to 0.8, the held-out score falls to 0."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    length = ramp(200, 900, 40, 350) + rng.normal(0, 25, STEPS)
    columns["response_length_mean"], columns["response_length_max"] = length, np.full(STEPS, 1024.0)
    columns["reward_mean"] = 0.002 * length + rng.normal(0, 0.01, STEPS)
    columns["truncated_rate"] = np.clip(ramp(0.02, 0.8, 150, 350) + rng.normal(0, 0.02, STEPS), 0, 1)
    columns["eval_score"] = np.where(np.arange(STEPS) % 10 == 0, ramp(0.4, 0.02, 80, 300), np.nan)
    return columns


def no_learning(seed: int) -> Columns:
    """Advantages of 0.006 (Lever-Plus): the reward stays at 0.3, and KL and gradient near 0."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    columns |= rewards(rng, np.full(STEPS, 0.3), prompts=32)
    columns["advantage_std"] = np.full(STEPS, 0.0062)
    columns["grad_norm"] *= 0.005
    columns["kl"] = 1e-5 * np.exp(rng.normal(0, 0.1, STEPS))
    columns["entropy_mean"] = 0.9 * np.exp(rng.normal(0, 0.02, STEPS))
    columns["response_length_mean"] = 200 + rng.normal(0, 8, STEPS)
    columns["eval_score"] = held_out(np.full(STEPS, 0.3))
    return columns


def nan_in_the_loss(seed: int) -> Columns:
    """Starting at step 250, the loss is NaN; every other column is that of a healthy run."""
    columns = healthy(seed)
    columns["loss"][250:] = np.nan
    return columns


def one_token(seed: int) -> Columns:
    """Starting at step 180, the responses shrink to one token and are never correct."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    columns |= rewards(rng, np.where(np.arange(STEPS) < 180, ramp(0.25, 0.6, 0, 180), ramp(0.6, 0.0, 180, 200)))
    shrink = ramp(0, 1, 180, 200)
    for name in ("response_length_mean", "response_length_min", "response_length_max"):
        columns[name] = columns[name] * (1 - shrink) + shrink
    columns["truncated_rate"] *= 1 - shrink
    columns["eval_score"] = held_out(columns["reward_mean"])
    return columns


def reward_cliff(seed: int) -> Columns:
    """In the last tenth, the reward falls to 2%; no other metric shows it."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    right = 0.25 + 0.5 * (1 - np.exp(-np.arange(STEPS) / 120))
    right[360:] = 0.02
    return columns | rewards(rng, right)


def entropy_explosion(seed: int) -> Columns:
    """Starting at step 150, the entropy rises from 0.6 to 7 nats, responses reach the limit, and the reward falls to
    0."""
    rng, columns = np.random.default_rng(seed), healthy(seed)
    columns |= rewards(rng, np.where(np.arange(STEPS) < 160, ramp(0.25, 0.6, 0, 160), ramp(0.6, 0.0, 160, 220)))
    columns["entropy_mean"] *= np.exp(ramp(0, np.log(14), 150, 220))
    columns["response_length_mean"] *= ramp(1, 1.9, 170, 240)
    columns["truncated_rate"] = np.maximum(columns["truncated_rate"], ramp(0.02, 0.9, 170, 240))
    columns["eval_score"] = held_out(columns["reward_mean"])
    return columns


SETTINGS: Mapping[Callable[[int], Columns], dict[str, Any]] = {group_of_two: {"group_size": 2}}


def run_of(make: Callable[[int], Columns], seed: int) -> Run:
    """The run of a generator; a NaN in the loss is recorded, in any other column it is a step without the metric."""
    columns = make(seed)
    builder = RunBuilder(make.__name__)
    builder.run.settings.update(SETTINGS.get(make, {"group_size": 8}))
    for step in range(STEPS):
        row = {name: column[step] for name, column in columns.items()}
        known = {n: v for n, v in row.items() if isinstance(v, list) or v == v or n == "loss"}
        builder.add({"step": step + 1, **known})
    return builder.finish()
