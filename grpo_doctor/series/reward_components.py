"""Reward components: their kind by name (task success, formatting, penalty or cost), and those that stay at 0."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from .trend import at_floor

_KINDS = {
    "cost": r"non_score|(?<![a-z])kl(?![a-z])",
    "penalty": r"(?<![a-z])(len(gth|(?![a-z]))|repet|penal|punish|cost|brev|overlong)",
    "form": (
        r"(?<![a-z])(format|form(?![a-z])|xml|tags?(?![a-z])|think|reason|int_|digit|lang|styl|structur|"
        r"soft(?![a-z])|strict|bonus)"
    ),
    "success": r"(?<![a-z])(correct|accura|acc(?![a-z])|answer|solve|success|exact|right)",
}
"""Kinds of components and the words in their names; the first match counts. A cost, such as the KL penalty that PPO
adds to the reward, is not a component of success; form includes bonuses."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def kind(name: str) -> str:
    """Return the kind of a reward by its name: ``cost``, ``penalty``, ``form``, ``success``, or empty if unknown."""
    words = _HUMP.sub("_", name).lower()
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, words)), "")


def of_form(name: str) -> bool:
    """Return whether a reward's name means formatting, a bonus, a penalty or a cost.

    A value of 0 in such a reward, or such a reward alone above 0, carries little information.
    """
    return kind(name) in ("form", "penalty", "cost")


def parts_of(components: Iterable[Any] | None) -> dict[str, np.ndarray]:
    """Return the known values of each component, by name, on rows that have components."""
    rows = [row for row in (() if components is None else components) if isinstance(row, Mapping)]
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row[name] for row in rows if isinstance(row.get(name), int | float)] for name in names}
    return {name: np.array(known, float) for name, known in values.items() if known}


def idle(parts: Mapping[str, np.ndarray]) -> dict[str, bool]:
    """Return the components, other than penalties and costs, that are at their minimum of 0 or less on almost all rows,
    task rewards first, and whether they are 0 on all of them."""
    paid = {name: parts[name] for name in sorted(parts, key=of_form) if kind(name) not in ("penalty", "cost")}
    lowest = {name: int((values == values.min()).sum()) for name, values in paid.items()}
    return {
        name: not values.any() for name, values in paid.items() if at_floor(len(values), values.min(), lowest[name])
    }


def meant(components: Any) -> float:
    """Return the sum of the task rewards of one row if there are also formatting rewards; otherwise NaN."""
    parts = components if isinstance(components, Mapping) else {}
    paid = [value for name, value in parts.items() if isinstance(value, int | float) and not of_form(name)]
    return math.fsum(paid) if 0 < len(paid) < len(parts) and all(map(math.isfinite, paid)) else math.nan
