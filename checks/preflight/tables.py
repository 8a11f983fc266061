"""Declares the rules that only compare settings: one for each entry of the TOML files in this folder.

A rule fires if all conditions of ``when`` hold, one of ``any``, and none of ``unless``; ``warning`` and ``error`` add
conditions for a higher severity. The settings in ``when`` are required. A condition is

- ``use_liger``: the setting is on;
- ``own_loss known``: the setting is declared;
- ``algorithm is dpo, kto``: it is one of these values;
- ``world_size % tensor_parallel``: it is not divisible by the operand;
- ``kl_target < smallest``: a comparison with a number, a threshold of the rule, or another setting.

``use_peft|lora_r`` is the first of these settings that is declared; a message calls it ``use_peft_or_lora_r``.
``record.temperature`` is the field of the record instead of the setting. ``phrases`` are words in the message: a
condition, the words if it holds, and the words otherwise.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from inspect import Parameter, Signature
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import is_any, where

RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "%": lambda value, divisor: value % divisor > 0,
}
RECORD = "record."
GROUPS, LEVELS = ("when", "any", "unless"), ("warning", "error")
DECLARATION = ("severity", "confidence", "explains", "run_types")


class Condition(NamedTuple):
    """A setting with its alternatives, a relation and an operand."""

    setting: str
    relation: str = "=="
    operand: str = "1"

    def holds(self, values: Mapping[str, Any]) -> Any:
        """Return the rows on which it holds, for these settings and thresholds."""
        value = values[_name(self.setting)]
        if self.relation == "known":
            return value == value
        if self.relation == "is":
            return is_any(value, *map(_literal, self.operand.split(", ")))
        return RELATIONS[self.relation](value, values.get(_name(self.operand), _literal(self.operand)))


def _name(setting: str) -> str:
    """Return the name of a setting in messages."""
    return setting.replace(RECORD, "").replace("|", "_or_")


def _literal(word: str) -> str | float:
    try:
        return float(word)
    except ValueError:
        return word


def conditions(part: Mapping[str, Any], *groups: str) -> Iterator[Condition]:
    """Yield the conditions in these groups of a rule, or of one of its levels."""
    return (_condition(text) for group in groups for text in part.get(group, ()))


def _condition(text: str) -> Condition:
    return Condition(*text.split(" ", 2))


def _holds(part: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    all_of = [condition.holds(values) for condition in conditions(part, "when")]
    any_one = [condition.holds(values) for condition in conditions(part, "any")]
    none_of = [~condition.holds(values) for condition in conditions(part, "unless")]
    return reduce(operator.and_, [*all_of, *none_of, *([reduce(operator.or_, any_one)] if any_one else [])])


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a rule by name, each with its default: required if it is in ``when``."""
    found: dict[str, Any] = {}
    thresholds, levels = row.get("thresholds", {}), [row[level] for level in LEVELS if level in row]
    optional = [*conditions(row, "any", "unless"), *(c for part in levels for c in conditions(part, *GROUPS))]
    optional += [_condition(text) for text, *_ in row.get("phrases", {}).values()]
    for is_optional, named in ((False, conditions(row, "when")), (True, optional)):
        for condition in named:
            compared = condition.relation in RELATIONS and isinstance(_literal(condition.operand), str)
            for setting in (condition.setting, *([condition.operand] if compared else ())):
                if setting not in thresholds:
                    fields = [f"settings.{name}".removeprefix(f"settings.{RECORD}") for name in setting.split("|")]
                    found.setdefault(_name(setting), any_of(*fields, optional=is_optional))
    return found


def declare(code: str, row: Mapping[str, Any]) -> None:
    """Declare the check of one entry."""
    settings, limits, message = _settings(row), row.get("thresholds", {}), row["message"]
    chosen = row.get("phrases", {})

    def rule(*columns: Any, **thresholds: Any) -> Fires:
        values = dict(zip(settings, columns, strict=True)) | limits | thresholds
        fired = _holds(row, values)
        levels = {level: fired & _holds(row[level], values) for level in LEVELS if level in row}
        phrases = {name: where(_condition(text).holds(values), yes, no) for name, (text, yes, no) in chosen.items()}
        shown = {name: (values | phrases)[name] for _, name, _, _ in Formatter().parse(message) if name}
        return fires(fired, message, hold=(1, 1), **levels, **shown)

    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=field) for name, field in settings.items()]
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=limit) for name, limit in limits.items()]
    rule.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    rule.__name__, rule.__doc__ = row["name"], row["page"]
    check(code, **{key: row[key] for key in DECLARATION if key in row})(rule)


for file in sorted(Path(__file__).parent.glob("*.toml")):
    if file.name != "advice.toml":
        for code, row in tomllib.loads(file.read_text(encoding="utf-8")).items():
            declare(code, row)
