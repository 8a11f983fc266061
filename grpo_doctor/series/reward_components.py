"""What a reward pays for: what was meant, or form. Told by the names that people give to their reward functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_FORM = re.compile(
    r"(?<![a-z])(format|form(?![a-z])|xml|tags?(?![a-z])|think|reason|len(gth|(?![a-z]))|int_|digit|lang|styl|structur|"
    r"repet|penal|punish|cost|brev|overlong|soft(?![a-z])|strict|bonus)"
)
_RIGHT = re.compile(r"(?<![a-z])(correct|accura|acc(?![a-z])|answer|solve|success|exact|right)")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def of_form(name: str) -> bool:
    """Whether a reward is named after form, or as a bonus or a penalty: that one never pays, or alone, says little."""
    return _FORM.search(_HUMP.sub("_", name).lower()) is not None


@cache
def of_success(name: str) -> bool:
    """Whether a reward is named after being right."""
    return _RIGHT.search(_HUMP.sub("_", name).lower()) is not None and not of_form(name)


def meant(components: Any) -> float:
    """The sum of the rewards of one row for what was meant, where rewards for form stand beside them; else NaN."""
    parts = components if isinstance(components, Mapping) else {}
    paid = [value for name, value in parts.items() if isinstance(value, int | float) and not of_form(name)]
    return math.fsum(paid) if 0 < len(paid) < len(parts) and all(map(math.isfinite, paid)) else math.nan
