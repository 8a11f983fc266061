"""Reward components: their kind by name (task success, formatting, penalty or cost), and those that never pay."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

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


def idle(rows: Iterable[Any]) -> dict[str, bool]:
    """Return the components, other than penalties and costs, that are at their minimum of 0 or less on almost all of
    these rows, and whether they are 0 on all of them."""
    known = [row for row in rows if isinstance(row, Mapping)]
    found = {}
    for name in dict.fromkeys(name for row in known for name in row if kind(name) not in ("penalty", "cost")):
        values = [row[name] for row in known if isinstance(row.get(name), int | float)]
        low = min(values, default=math.inf)
        if at_floor(len(values), low, values.count(low)):
            found[name] = low == max(values) == 0
    return found


def meant(components: Any) -> float:
    """Return the sum of the task rewards of one row if there are also formatting rewards; otherwise NaN."""
    parts = components if isinstance(components, Mapping) else {}
    paid = [value for name, value in parts.items() if isinstance(value, int | float) and not of_form(name)]
    return math.fsum(paid) if 0 < len(paid) < len(parts) and all(map(math.isfinite, paid)) else math.nan
