"""Random runs like those of public logs: batches of 4 to 64 prompts, rewards on any scale, columns left out.

`learner` learns and may do what healthy runs do (spikes, growth of the answers, falling entropy, a decaying rate);
`FAILING` are learners that something happened to. Shapes (T,): one value per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from grpo_doctor.run import Run, RunBuilder

Rng = np.random.Generator
Columns = dict[str, np.ndarray]


class Life(NamedTuple):
    """The common trend of all columns of a run. ``g`` (T,) goes from 0 to 1 when a failing run changes."""

    steps: int
    prompts: int
    group: int
    spread: float
    right: np.ndarray
    low: float
    high: float
    length: float
    g: np.ndarray


def life(rng: Rng) -> Life:
    """60 to 800 steps; success starts at 5-40% and rises by at least a quarter; a failure starts after a third of the
    run."""
    steps = int(np.exp(rng.uniform(np.log(60), np.log(800))))
    start, low = rng.uniform(0.05, 0.4), float(rng.choice([0, 0, 0, -1, -5]))
    end = rng.uniform(start + 0.25, 0.95)
    t, at, span = np.arange(steps), steps * rng.uniform(0.33, 0.6), max(1.0, steps * rng.uniform(0.01, 0.2))
    return Life(
        steps,
        int(rng.choice([4, 8, 16, 32, 64])),
        int(rng.choice([4, 8, 16])),
        rng.uniform(0.7, 4),
        start + (end - start) * (1 - np.exp(-t / (steps * rng.uniform(0.05, 0.3)))),
        low,
        low + float(rng.choice([1, 1, 2, 10, 100])),
        float(np.exp(rng.uniform(np.log(40), np.log(1500)))),
        np.interp(t, [at, at + span], [0, 1]),
    )


def columns_of(rng: Rng, run: Life, right: np.ndarray) -> Columns:
    """A healthy run's columns at a success of ``right`` (T,)."""
    ease = np.clip(right, 1e-4, 1 - 1e-4)[:, None]
    chance = rng.beta(run.spread * ease, run.spread * (1 - ease), (run.steps, run.prompts))
    hits = rng.binomial(run.group, chance)
    success = hits.mean(1) / run.group
    dead = ((hits == 0) | (hits == run.group)).mean(1)
    t, size = np.arange(run.steps), run.high - run.low
    grown = run.length * np.exp(np.log(rng.uniform(0.5, 3)) * (1 - np.exp(-3 * t / run.steps)))
    spent = rng.uniform(0.3, 0.8) ** (1 - np.exp(-3 * t / run.steps))
    return {
        "reward_mean": run.low + size * success,
        "reward_std": size * np.sqrt(success * (1 - success)),
        "zero_variance_share": dead,
        "loss": rng.normal(0, 0.01, run.steps),
        "grad_norm": np.sqrt(np.maximum(1 - dead, 0.01)) * np.exp(rng.normal(rng.uniform(-3, 2), 0.3, run.steps)),
        "learning_rate": 10 ** rng.uniform(-7, -5) * (1 - t / run.steps * float(rng.choice([0, 1]))),
        "kl": rng.uniform(0.002, 0.3) * (1 - np.exp(-3 * t / run.steps)) * np.exp(rng.normal(0, 0.2, run.steps)),
        "entropy_mean": rng.uniform(0.2, 0.9) * spent * np.exp(rng.normal(0, 0.08, run.steps)),
        "response_length_mean": grown * np.exp(rng.normal(0, 0.6 / np.sqrt(run.prompts), run.steps)),
        "truncated_rate": rng.binomial(run.prompts * run.group, 0.02, run.steps) / (run.prompts * run.group),
    }


def learner(rng: Rng) -> Run:
    """It learns. Spikes of gradient and KL, averages over 1, 5 or 10 steps, and a random half of the columns."""
    run = life(rng)
    columns = columns_of(rng, run, run.right)
    for name, most in (("grad_norm", 300.0), ("kl", 100.0)):
        spikes = rng.choice(run.steps, max(1, run.steps // 80), replace=False)
        columns[name][spikes] *= rng.uniform(1, most)
    every = int(rng.choice([1, 1, 5, 10])) if run.steps >= 200 else 1
    keep = [name for name in columns if name == "reward_mean" or rng.random() < rng.choice([0.5, 1.0])]
    rows = run.steps // every
    return recorded({n: columns[n][: rows * every].reshape(rows, every).mean(1) for n in keep}, run, every)


def collapses(rng: Rng) -> Run:
    """Success falls to 0, and only the reward shows it."""
    run = life(rng)
    return recorded(columns_of(rng, run, run.right * (1 - run.g)), run)


def loses_entropy(rng: Rng) -> Run:
    """Entropy to 0.01 nats, zero-variance groups, and a success rate that falls to its starting level."""
    run = life(rng)
    columns = columns_of(rng, run, run.right * (1 - run.g) + run.right[0] * run.g)
    columns["entropy_mean"] *= (0.01 / columns["entropy_mean"][0]) ** run.g
    columns["zero_variance_share"] = np.maximum(columns["zero_variance_share"], 0.98 * run.g)
    return recorded(columns, run)


def runs_to_the_limit(rng: Rng) -> Run:
    """Responses of four times their length, all truncated."""
    run = life(rng)
    columns = columns_of(rng, run, run.right * (1 - run.g))
    columns["response_length_mean"] = columns["response_length_mean"] * (1 - run.g) + 5 * run.length * run.g
    columns["truncated_rate"] = np.maximum(columns["truncated_rate"], 0.97 * run.g)
    return recorded(columns, run)


def shrinks(rng: Rng) -> Run:
    """Responses of one token."""
    run = life(rng)
    columns = columns_of(rng, run, run.right * (1 - run.g))
    columns["response_length_mean"] = columns["response_length_mean"] * (1 - run.g) + 1.2 * run.g
    return recorded(columns, run)


def drifts(rng: Rng) -> Run:
    """A KL of 10 nats per token, ahead of the reward's fall."""
    run = life(rng)
    columns = columns_of(rng, run, run.right * (1 - run.g))
    columns["kl"] = columns["kl"] ** (1 - np.minimum(1, 3 * run.g)) * 10 ** np.minimum(1, 3 * run.g)
    return recorded(columns, run)


def explodes(rng: Rng) -> Run:
    """Entropy of 6 nats, and text that does not end."""
    run = life(rng)
    columns = columns_of(rng, run, run.right * (1 - run.g))
    columns["entropy_mean"] *= (6 / columns["entropy_mean"]) ** run.g
    columns["truncated_rate"] = np.maximum(columns["truncated_rate"], 0.95 * run.g**2)
    return recorded(columns, run)


def is_hacked(rng: Rng) -> Run:
    """The reward keeps rising and a held-out score falls to 0; 32 prompts per step, because the rise must be
    significant."""
    run = life(rng)._replace(prompts=32)
    columns = columns_of(rng, run, run.right)
    score = 0.45 * (1 - run.g) + 0.02 + rng.normal(0, 0.02, run.steps)
    columns["eval_score"] = np.where(np.arange(run.steps) % max(1, run.steps // 25) == 0, score.clip(0, 1), np.nan)
    return recorded(columns, run)


def never_starts(rng: Rng) -> Run:
    """Every reward is the minimum."""
    run = life(rng)
    columns = columns_of(rng, run, run.right)
    nothing = np.zeros(run.steps)
    return recorded(
        columns | {"reward_mean": nothing + run.low, "reward_std": nothing, "zero_variance_share": nothing + 1},
        run,
    )


FAILING: dict[Callable[[Rng], Run], set[str]] = {
    collapses: {"REW009"},
    loses_entropy: {"ENT001"},
    runs_to_the_limit: {"LEN002", "LEN003"},
    shrinks: {"LEN001", "REW009"},
    drifts: {"KL001"},
    explodes: {"ENT003"},
    is_hacked: {"REW002"},
    never_starts: {"REW001", "STL001"},
}
"""Failures, and the codes that the first sentence may have."""


def recorded(columns: Columns, run: Life, every: int = 1) -> Run:
    """The columns as a run; NaN is a step without the metric."""
    builder = RunBuilder("varied")
    builder.run.settings["group_size"] = run.group
    for i in range(len(columns["reward_mean"])):
        row: dict[str, Any] = {n: float(c[i]) for n, c in columns.items() if c[i] == c[i]}
        builder.add({"step": (i + 1) * every, **row})
    return builder.finish()
