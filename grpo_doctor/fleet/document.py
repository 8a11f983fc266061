"""Renders a fleet as JSON (schema ``grpo-doctor/fleet/1``, see ``fleet.schema.json``) and as CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import msgspec

from .. import __version__
from ..record import portable
from ..report.redaction import csv_cell
from .overview import Overview
from .store import Answered
from .unit import Found, Level

SCHEMA = "grpo-doctor/fleet/1"
_INSIDE = frozenset({"unit", "view", "view_steps", "broken", "curve", "curve_steps", "curve_values"})
"""Fields that are not part of the schema, because they are only used to draw curves and to find duplicate logs."""


def render(overview: Overview) -> str:
    """Render the fleet as one JSON object. Numbers that are not finite are strings."""
    plain: dict[str, Any] = msgspec.to_builtins(overview)
    lines = plain.pop("lines")
    names = plain.pop("names")
    document = {
        "schema": SCHEMA,
        "tool": {"name": "grpo-doctor", "version": __version__},
        **plain,
        "causes": [{k: v for k, v in cause.items() if k != "first"} for cause in plain["causes"]],
        "leaders": [names[number] for number in plain["leaders"]],
        "runs": [_run(line, name) for line, name in zip(lines, names, strict=True)],
    }
    return json.dumps(portable(document), indent=2, ensure_ascii=False, allow_nan=False)


def _run(line: dict[str, Any], name: str) -> dict[str, Any]:
    told = {key: value for key, value in line.items() if key not in _INSIDE}
    levels = {
        metric: dict(zip(Level.__struct_fields__, level, strict=True)) for metric, level in told["levels"].items()
    }
    findings = [dict(zip(Found.__struct_fields__, finding, strict=True)) for finding in told["findings"]]
    return {"name": name, **told, "levels": levels, "findings": findings}


def table(asked: Answered) -> str:
    """Render the rows of a query as CSV. Unknown values are empty."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(map(csv_cell, row) for row in (asked.head, *asked.rows))
    return out.getvalue().rstrip("\n")


def rows(asked: Answered) -> str:
    """Render the rows of a query as a JSON list of objects."""
    plain = [dict(zip(asked.head, row, strict=True)) for row in asked.rows]
    return json.dumps(portable(plain), indent=2, ensure_ascii=False, default=str)
