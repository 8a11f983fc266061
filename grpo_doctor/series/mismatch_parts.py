"""Reads the causes in a token batch: the share of the mismatch that each cause explains, and the size of its effect.
Also tests the metrics for conditions that point to a cause or rule it out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from .expression import Column
from .transforms import best, previous, total

EXPLAINS = (
    "GEN002",
    "GEN004",
    "GEN005",
    "MIS015",
    "RAT003",
    "RAT004",
    "RAT005",
    "RAT008",
    "RAT009",
    "RAT010",
    "GRD002",
)
"""The checks whose findings are explained by any cause of a mismatch."""


def unchanged(learning_rate: Column) -> Column:
    """Whether no update has changed the weights so far: the learning rate has been 0 throughout."""
    return (learning_rate == 0) & (total(learning_rate > 0) == 0)


SUDDEN = 1.0
"""Growth of k3 in one step, in nats per token, above which an update cannot be the cause."""


def sudden(mismatch: Column, step: Column) -> Column:
    """Whether the mismatch has ever grown by more in one step than an update can explain."""
    return best((abs(mismatch) - abs(previous(mismatch))) / (step - previous(step))) > SUDDEN


def share_of(*names: str) -> Callable[[Any], float]:
    """Return a function that reads the share that these causes explain together. The share is 0 if the batch shows none
    of the causes, and NaN without a batch."""

    def read(causes: Any) -> float:
        known = _known(causes)
        return math.nan if known is None else math.fsum(known[name][0] for name in names if name in known)

    return read


def effect_of(name: str) -> Callable[[Any], float]:
    """Return a function that reads the size of the effect of a cause; NaN if the batch does not show the cause."""

    def read(causes: Any) -> float:
        known = _known(causes) or {}
        return known[name][1] if name in known else math.nan

    return read


def unexplained(causes: Any) -> float:
    """Return the share of the mismatch that no cause explains; NaN without a batch."""
    known = _known(causes)
    if known is None:
        return math.nan
    return max(0.0, 1 - math.fsum(share for name, (share, _) in known.items() if name != "reference"))


def _known(causes: Any) -> dict[str, tuple[float, float]] | None:
    """Return the causes by name; None without a batch. Invalid entries are skipped, because a file may contain any
    value."""
    if not isinstance(causes, Mapping):
        return None
    pairs = {name: value for name, value in causes.items() if isinstance(value, list) and len(value) == 2}
    return {name: (float(share), float(effect)) for name, (share, effect) in pairs.items()}
