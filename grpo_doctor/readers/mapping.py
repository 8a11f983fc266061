"""Validates the user's mapping of log keys to record fields. Both the keys and the fields must exist."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ..config import ConfigError
from ..series.derived import MEANINGS


def refuse_unknown_fields(mapping: Mapping[str, str]) -> None:
    """Raise `ConfigError` if a key is mapped to an unknown record field."""
    for key, name in mapping.items():
        if name not in MEANINGS:
            mean = [f"{name}_mean"] if f"{name}_mean" in MEANINGS else []
            closest = mean or difflib.get_close_matches(name, MEANINGS, 1)
            near = f" (did you mean {closest[0]!r}?)" if closest else ""
            raise ConfigError(
                f"--map {key}={name}: {name!r} is not a record field{near}; `grpo-doctor checks --fields` lists them"
            )


def refuse_unknown_keys(mapping: Mapping[str, str], known: set[str]) -> None:
    """Raise `ConfigError` if a mapped key is not in any log."""
    for key, name in mapping.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"--map {key}={name}: no log has this key{hint}")
