"""Reads rollouts: rows of any framework become `Sample`s, and samples become the record fields of their step."""

from .rows import meaning, rollouts_of, step_of
from .statistics import Steps, completed, fill, sampled

__all__ = ["Steps", "completed", "fill", "meaning", "rollouts_of", "sampled", "step_of"]
