"""Series of success with a known truth: flat, rising or falling, in white or autocorrelated noise."""

from __future__ import annotations

import math

import numpy as np

from grpo_doctor.series.trajectory import Trajectory
from grpo_doctor.series.trend import Outcome


def noise(rows: int, along: float, average: int, rng: np.random.Generator) -> np.ndarray:
    """AR(1) noise with standard deviation 1 per step and lag-1 correlation ``along``; a row is a mean of this many
    steps."""
    steps = np.empty(rows * average)
    last = rng.standard_normal()
    fresh = rng.standard_normal(len(steps)) * math.sqrt(1 - along**2)
    for i, new in enumerate(fresh):
        last = along * last + new
        steps[i] = last
    return np.asarray(steps.reshape(rows, average).mean(axis=1))


def rising(rows: int, gain: float) -> np.ndarray:
    """A logistic rise by ``gain``, half of it done at 40% of the run."""
    return gain / (1 + np.exp(-(np.arange(rows) / rows - 0.4) * 12))


def falling(rows: int, drop: float, at: float = 0.7) -> np.ndarray:
    """A level that drops by ``drop`` at this share of the run."""
    return np.where(np.arange(rows) >= int(at * rows), 0.0, drop)


def judged(values: np.ndarray, *, apart: bool = False) -> Outcome:
    """Return the state of the series at its end."""
    trajectory = Trajectory(apart=apart)
    for step, value in enumerate(values.tolist()):
        trajectory.push(value, step)
    return trajectory.outcome


def ever_fell(values: np.ndarray, *, apart: bool = False) -> bool:
    """Return whether a fall was found by a test after every row."""
    trajectory = Trajectory(apart=apart)
    fell = False
    for step, value in enumerate(values.tolist()):
        trajectory.push(value, step)
        fell = fell or trajectory.outcome.fallen > 0
    return fell
