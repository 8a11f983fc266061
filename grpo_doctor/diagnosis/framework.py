"""Recognises the framework that wrote a log, using the table ``frameworks.toml``."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ..run import Run

_TABLE: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("frameworks.toml").read_text("utf-8"))
FRAMEWORKS: dict[str, str] = {who: entry["name"] for who, entry in _TABLE.items()}
"""Display names of the frameworks."""


@cache
def _keys() -> dict[str, re.Pattern[str]]:
    return {who: re.compile(rf"(?:.*/)?(?:{entry['keys']})") for who, entry in _TABLE.items() if "keys" in entry}


def framework(run: Run) -> str | None:
    """Return the framework that wrote a log, by its keys or, if they do not show it, by its format; None if unknown.
    Remedies use the same names for frameworks."""
    written = [*run.mapping, *run.unread]
    if own := next((who for who, keys in _keys().items() if any(map(keys.fullmatch, written))), None):
        return own
    said = f"{run.format} {run.settings.get('framework', '')}".lower()
    named = next((who for who in FRAMEWORKS if re.search(rf"\b{who}\b", said)), None)
    return named or next((who for who, entry in _TABLE.items() if run.format in entry.get("formats", ())), None)
