"""Parses parameter counts from model names."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?<![\d.])(\d{1,4}(?:\.\d{1,3})?)([bm])(?![a-z0-9])", re.IGNORECASE)


def billions(model: object) -> float:
    """Return the parameters in billions from the model's name: 0.5 for Qwen2.5-0.5B-Instruct; NaN if unknown."""
    found = _SIZE.search(model[-200:]) if isinstance(model, str) else None
    return float("nan") if found is None else float(found[1]) * (1.0 if found[2].lower() == "b" else 1e-3)
