"""Parses parameter counts from model names."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?<![\d.])(\d{1,4}(?:\.\d{1,3})?|(?<=-)\d_\d)([bm])(?![a-z0-9])", re.IGNORECASE)


def billions(model: object) -> float:
    """Return the number of parameters in billions from a model's name; NaN if unknown. Qwen2.5-0.5B and Qwen2.5-0_5B
    give 0.5."""
    found = _SIZE.search(model[-200:]) if isinstance(model, str) else None
    if found is None:
        return float("nan")
    return float(found[1].replace("_", ".")) * (1.0 if found[2].lower() == "b" else 1e-3)
