"""Classifies reward components by name (task success, formatting, penalty or cost), and finds components that stay at
0."""

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
adds to the reward, is not a component of success. The kind ``form`` includes bonuses."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def kind(name: str) -> str:
    """Return the kind of a reward by its name: ``cost``, ``penalty``, ``form``, ``success``, or an empty string if
    unknown."""
    words = _HUMP.sub("_", name).lower()
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, words)), "")


def of_form(name: str) -> bool:
    """Return whether the name of a reward indicates formatting, a bonus, a penalty or a cost.

    It is of little importance whether a formatting reward, bonus, penalty or cost stays at 0, or is the only reward
    above 0.
    """
    return kind(name) in ("form", "penalty", "cost")


def parts_of(components: Iterable[Any] | None) -> dict[str, np.ndarray]:
    """Return the known values of each component by name, over the rows that have components."""
    rows = [row for row in (() if components is None else components) if isinstance(row, Mapping)]
    names = dict.fromkeys(name for row in rows for name in row)
    values = {name: [row[name] for row in rows if isinstance(row.get(name), int | float)] for name in names}
    return {name: np.array(known, float) for name, known in values.items() if known}


def idle(parts: Mapping[str, np.ndarray]) -> dict[str, bool]:
    """Return the components that are at their minimum of 0 or less on almost all rows, and whether each component is 0
    on all rows. Task rewards come first; penalties and costs are excluded."""
    paid = {name: parts[name] for name in sorted(parts, key=of_form) if kind(name) not in ("penalty", "cost")}
    lowest = {name: int((values == values.min()).sum()) for name, values in paid.items()}
    return {
        name: not values.any() for name, values in paid.items() if at_floor(len(values), values.min(), lowest[name])
    }


def task_reward(components: Any) -> float:
    """Return the sum of a row's task rewards if the row also has other components, such as formatting rewards;
    otherwise NaN."""
    parts = components if isinstance(components, Mapping) else {}
    paid = [value for name, value in parts.items() if isinstance(value, int | float) and not of_form(name)]
    return math.fsum(paid) if 0 < len(paid) < len(parts) and all(map(math.isfinite, paid)) else math.nan
