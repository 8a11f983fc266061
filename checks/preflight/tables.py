"""Declares the rules that only compare settings, one for each entry of the TOML files in this folder.

`grpo_doctor.diagnosis.entries` explains the conditions. The settings in ``when`` are required. ``use_peft|lora_r`` is
the first declared setting of the two; in a message, the name is ``use_peft_or_lora_r``. ``record.temperature`` is a
field of the record, not a setting.
"""

from collections.abc import Mapping
from typing import Any

from grpo_doctor import Fires, any_of
from grpo_doctor.diagnosis.entries import (
    RECORD,
    RELATIONS,
    conditions,
    declare,
    entries,
    judged,
    literal,
    named,
    optional_conditions,
)


def settings_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a rule's settings by name. A setting is required if it is in ``when``."""
    found: dict[str, Any] = {}
    for optional, group in ((False, conditions(row, "when")), (True, optional_conditions(row))):
        for condition in group:
            compared = condition.relation in RELATIONS and isinstance(literal(condition.operand), str)
            for setting in (condition.value, *([condition.operand] if compared else ())):
                if setting not in row.get("thresholds", {}):
                    fields = [f"settings.{name}".removeprefix(f"settings.{RECORD}") for name in setting.split("|")]
                    found.setdefault(named(setting), any_of(*fields, optional=optional))
    return found


def declare_rule(code: str, row: Mapping[str, Any]) -> None:
    """Declare the check of one entry."""
    settings, limits = settings_of(row), row.get("thresholds", {})

    def rule(*columns: Any, **thresholds: Any) -> Fires:
        return judged(row, dict(zip(settings, columns, strict=True)) | limits | thresholds, {})

    declare(code, row, rule, settings)


for code, row in entries(__file__):
    declare_rule(code, row)
