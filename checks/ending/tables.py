"""Declares the checks of how a run ended: one for each entry of ends.toml.

``ended`` is the number of events of the kinds in ``events`` in the last lines of the log. ``finished`` is the number of
reports that training had finished, and ``row`` is the number of rows. ``tells`` names evidence: the number of these
events with a text. `grpo_doctor.diagnosis.entries` explains the conditions.
"""

from collections.abc import Mapping
from typing import Any

from grpo_doctor import Fires, any_of
from grpo_doctor.diagnosis.entries import declare, entries, judged
from grpo_doctor.series import Column, message_of, seen
from grpo_doctor.series import row as row_number


def declare_end(code: str, row: Mapping[str, Any]) -> None:
    """Declare the check of one entry."""
    kinds, limits = row["events"], row.get("thresholds", {})

    def rule(step: Column, events: Column, **thresholds: Any) -> Fires:
        ends = {"ended": seen(events, *kinds), "finished": seen(events, "finished"), "row": row_number(step)}
        told = {name: seen(events, *kinds, text=text) for name, text in row.get("tells", {}).items()}
        return judged(row, ends | limits | thresholds, {"step": step, "what": message_of(events, *kinds), **told})

    declare(code, row, rule, {name: any_of(name) for name in ("step", "events")})


for code, row in entries(__file__):
    declare_end(code, row)
