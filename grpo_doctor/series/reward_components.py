"""Classifies reward components as task success or formatting, by name."""

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
    """Whether a reward's name means formatting, a bonus or a penalty: its value alone shows little."""
    return _FORM.search(_HUMP.sub("_", name).lower()) is not None


@cache
def of_success(name: str) -> bool:
    """Whether a reward is named after being right."""
    return _RIGHT.search(_HUMP.sub("_", name).lower()) is not None and not of_form(name)


def meant(components: Any) -> float:
    """The sum of the task rewards of one row, if there are formatting rewards too; otherwise NaN."""
    parts = components if isinstance(components, Mapping) else {}
    paid = [value for name, value in parts.items() if isinstance(value, int | float) and not of_form(name)]
    return math.fsum(paid) if 0 < len(paid) < len(parts) and all(map(math.isfinite, paid)) else math.nan
