"""Metrics of a run that learns for 40 steps and then loses all of it while the KL to the reference explodes."""

from __future__ import annotations

import random

STEPS = 90


def step(n: int) -> dict[str, float]:
    """Reward, KL, entropy, gradient norm and length of one step; the same each time."""
    noise = random.Random(n)
    lost = max(0, n - 40)
    return {
        "reward": max(0.02, 0.3 + 0.01 * min(n, 40) - 0.03 * lost) + noise.gauss(0, 0.005),
        "kl": 0.01 + 0.0005 * n + 0.12 * lost + abs(noise.gauss(0, 0.001)),
        "entropy": 1.2 - 0.004 * n + noise.gauss(0, 0.01),
        "grad_norm": 0.3 + abs(noise.gauss(0, 0.03)) + 0.02 * lost,
        "length": 120 + noise.gauss(0, 2),
    }


def in_verls_words(n: int) -> dict[str, float]:
    values = step(n)
    return {
        "actor/entropy": values["entropy"], "actor/kl_loss": values["kl"], "actor/grad_norm": values["grad_norm"],
        "actor/lr": 1e-6, "actor/pg_clipfrac": 0.01, "critic/score/mean": values["reward"],
        "critic/rewards/mean": values["reward"], "response_length/mean": values["length"],
        "response_length/clip_ratio": 0.02, "timing_s/step": 3.1, "training/global_step": n,
    }  # fmt: skip


def in_trls_words(n: int) -> dict[str, float]:
    values = step(n)
    return {
        "loss": 0.01, "grad_norm": values["grad_norm"], "learning_rate": 1e-6, "reward": values["reward"],
        "kl": values["kl"], "entropy": values["entropy"], "completions/mean_length": values["length"],
    }  # fmt: skip
