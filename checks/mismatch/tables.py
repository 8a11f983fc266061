"""Declares the checks that report one cause of a mismatch in a token batch: one for each entry of causes.toml.

``share`` is the share of the squared log-probability difference that the ``cause`` explains; ``effect`` names the size
of its effect. `grpo_doctor.diagnosis.entries` explains the conditions.
"""

from collections.abc import Mapping
from typing import Any

from grpo_doctor import Fires, any_of
from grpo_doctor.diagnosis.entries import declare, entries, judged, optional_conditions
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


def declare_cause(code: str, row: Mapping[str, Any]) -> None:
    """Declare the check of one entry."""
    cause, effect = row["cause"], row["effect"]
    columns = {"mismatch_causes": any_of("mismatch_causes")}
    columns |= {c.value: any_of(c.value, optional=True) for c in optional_conditions(row) if c.value != effect}

    def rule(mismatch_causes: Column, *gap: Column, **thresholds: Any) -> Fires:
        measured = {"share": each(share_of(cause), mismatch_causes), effect: each(effect_of(cause), mismatch_causes)}
        values = dict(zip(columns, (mismatch_causes, *gap), strict=True)) | row["thresholds"] | thresholds | measured
        return judged(row, values, measured)

    declare(code, {**row, "explains": EXPLAINS}, rule, columns)


for code, row in entries(__file__):
    declare_cause(code, row)
