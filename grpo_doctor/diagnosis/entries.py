"""Checks that are entries of TOML tables: conditions, messages and pages are data.

An entry fires if all conditions of ``when``, at least one condition of ``any``, and no condition of ``unless`` are
true. ``warning`` and ``error`` contain additional conditions for a higher severity; ``info`` contains weaker conditions
for a lower severity. A condition is

- ``use_liger``: the value is 1 (the setting is on);
- ``own_loss known``: the value is known;
- ``algorithm is dpo, kto``: the value is one of the listed values;
- ``world_size % tensor_parallel``: the value is not divisible by the operand;
- ``kl_target < smallest``: a comparison with a number, a threshold of the entry, or another value.

Each of ``phrases`` inserts words into the message. A phrase consists of a condition, the words if the condition is
true, and the words if it is false.
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

from ..series import is_any, where
from .check import Fires, fires
from .declare import check

RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "%": lambda value, divisor: value % divisor > 0,
}
GROUPS = ("when", "any", "unless")
LOWER, HIGHER = ("info",), ("warning", "error")
RECORD = "record."
"""Prefix of a value that is a field of the record; values without the prefix are settings."""
DECLARATION = ("kind", "severity", "confidence", "explains", "invalidates", "run_types")


class Condition(NamedTuple):
    """A condition: a value with its alternatives, a relation and an operand."""

    value: str
    relation: str = "=="
    operand: str = "1"

    def holds(self, values: Mapping[str, Any]) -> Any:
        """Return the rows on which the condition is true for these values and thresholds."""
        value = values[named(self.value)]
        if self.relation == "known":
            return value == value
        if self.relation == "is":
            return is_any(value, *map(literal, self.operand.split(", ")))
        return RELATIONS[self.relation](value, values.get(named(self.operand), literal(self.operand)))


def named(value: str) -> str:
    """Return the name of a value in messages: ``use_peft|lora_r``, which is the first known setting, becomes
    ``use_peft_or_lora_r``."""
    return value.replace(RECORD, "").replace("|", "_or_")


def literal(word: str) -> str | float:
    """Return a word as a number, or the word itself if it is not a number."""
    try:
        return float(word)
    except ValueError:
        return word


def conditions(part: Mapping[str, Any], *groups: str) -> Iterator[Condition]:
    """Yield the conditions in these groups of an entry, or in these groups of one severity level."""
    return (_condition(text) for group in groups for text in part.get(group, ()))


def optional_conditions(row: Mapping[str, Any]) -> Iterator[Condition]:
    """Yield the conditions of an entry whose values may be unknown: all conditions except those in ``when``."""
    yield from conditions(row, "any", "unless")
    for level in LOWER + HIGHER:
        yield from conditions(row.get(level, {}), *GROUPS)
    yield from (_condition(text) for text, *_ in row.get("phrases", {}).values())


def _condition(text: str) -> Condition:
    return Condition(*text.split(" ", 2))


def _holds(part: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    all_of = [condition.holds(values) for condition in conditions(part, "when")]
    any_one = [condition.holds(values) for condition in conditions(part, "any")]
    none_of = [~condition.holds(values) for condition in conditions(part, "unless")]
    return reduce(operator.and_, [*all_of, *none_of, *([reduce(operator.or_, any_one)] if any_one else [])])


def judged(row: Mapping[str, Any], values: Mapping[str, Any], evidence: Mapping[str, Any]) -> Fires:
    """Return the result of an entry's check for these values and thresholds. The evidence includes the values that the
    message shows."""
    fired, message, phrases = _holds(row, values), row["message"], row.get("phrases", {})
    levels = {level: fired & _holds(row[level], values) for level in HIGHER if level in row}
    levels |= {level: _holds(row[level], values) for level in LOWER if level in row}
    words = {name: where(_condition(text).holds(values), yes, no) for name, (text, yes, no) in phrases.items()}
    known = {**values, **evidence, **words}
    shown = {name: known[name] for _, name, _, _ in Formatter().parse(message) if name}
    return fires(fired, message, hold=(1, 1), **levels, **{**evidence, **shown})


def entries(module: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the code and the entry of each table in the folder of a module."""
    for file in sorted(Path(module).parent.glob("*.toml")):
        if file.name != "advice.toml":
            yield from tomllib.loads(file.read_text(encoding="utf-8")).items()


def declare(code: str, row: Mapping[str, Any], rule: Callable[..., Fires], columns: Mapping[str, Any]) -> None:
    """Declare the check of an entry: a rule over these columns (with their defaults) and its thresholds."""
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=field) for name, field in columns.items()]
    limits = row.get("thresholds", {}).items()
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=limit) for name, limit in limits]
    rule.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    rule.__name__, rule.__doc__ = row["name"], row["page"]
    check(code, **{key: row[key] for key in DECLARATION if key in row})(rule)
