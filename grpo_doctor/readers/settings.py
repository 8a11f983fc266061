"""Maps the names of settings in trainers' logs to the names that checks use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..run import WORDED
from .alias_table import TABLES
from .values import number


def setting_value(name: str, value: Any) -> str | int | float | bool | None:
    """Parse the value of a setting, including numbers and truth values in strings. Return None if the value is not
    usable."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    figure = number(value)
    if isinstance(value, bool) or figure is None:
        return value if isinstance(value, bool) or (isinstance(value, str) and name in WORDED) else None
    if isinstance(value, str | int) and math.isfinite(figure) and figure.is_integer() and abs(figure) < 1 << 53:
        return int(figure)
    return figure


VOCABULARY = Path(__file__).with_name("settings.toml")


@cache
def meanings() -> Mapping[str, Mapping[str, str]]:
    """Return the meaning of each setting by name, in tables by origin."""
    import tomllib

    return tomllib.loads(VOCABULARY.read_text(encoding="utf-8"))


def known_settings() -> frozenset[str]:
    """Return every name under which logs declare a setting."""
    return frozenset(_TABLE.values())


_TABLE = {name: setting for setting, name in reversed(TABLES["setting"])}
"""Names of settings in logs, and the names that checks use. For a name with two meanings, the first meaning applies."""
_OTHERS = ("critic", "reward_model", "ref", "val_kwargs", "eval", "optim_args", "env")
"""Sections of a configuration whose settings do not belong to the policy. For example, ``max_steps`` of an environment
is a number of turns."""


@lru_cache(maxsize=4096)
def declared(key: str) -> str | None:
    """Return the name that checks use for a setting, or None if no check uses it."""
    path = key.strip().lower().replace("/", ".")
    if path in _TABLE:
        return _TABLE[path]
    *heads, last = path.split(".")
    if any(head in _OTHERS for head in heads):
        return None
    return _TABLE.get(last) if len(last) > 1 else None
