"""Reads rollouts: converts rows of any framework to `Sample` objects, and computes the record fields of a step from its
samples."""

from .rows import meaning, rollouts_of, step_of
from .statistics import Steps, completed, fill, sampled

__all__ = ["Steps", "completed", "fill", "meaning", "rollouts_of", "sampled", "step_of"]
