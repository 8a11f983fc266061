"""Parses conditions of an advisory, ``NAME OPERATOR VALUE``, over settings or over the columns of a log."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_FORM = re.compile(r"([a-z]\w*) (==|!=|<=|>=|<|>|in|~) (.+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAME = re.compile(r"[a-z]\w*")


class Condition(NamedTuple):
    """One condition; ``value`` is a JSON constant, or the name of another field of a signature."""

    name: str
    operator: str
    value: Any
    text: str

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Condition:
    """Parse a condition. Raises ValueError if the text is not a condition."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not NAME OPERATOR VALUE with ==, !=, <, <=, >, >=, in or ~")
    name, sign, said = found.groups()
    try:
        value = json.loads(said)
    except json.JSONDecodeError:
        if _NAME.fullmatch(said) is None or sign not in _COMPARE:
            raise ValueError(f"{said!r} in {text!r} is not a JSON value; quote a word") from None
        return Condition(name, sign, Field(said), text)
    if sign == "in" and not isinstance(value, list):
        raise ValueError(f"'in' takes a list in {text!r}")
    if sign == "~":
        re.compile(value)
    return Condition(name, sign, value, text)


class Field(str):
    """The name of a field on the right side of a signature."""


def holds(condition: Condition, settings: Mapping[str, Any]) -> bool | None:
    """Return whether a condition on a setting is true, or None if the setting is unknown or has another type."""
    value = settings.get(condition.name)
    if value is None or value != value:
        return None
    if condition.operator == "in":
        return _plain(value) in [_plain(one) for one in condition.value]
    if condition.operator == "~":
        return re.search(condition.value, str(value)) is not None
    if condition.operator in ("==", "!="):
        return (_plain(value) == _plain(condition.value)) is (condition.operator == "==")
    if isinstance(value, str) or isinstance(condition.value, str):
        return None
    return _COMPARE[condition.operator](value, condition.value)


def _plain(value: Any) -> Any:
    """Return a value in the form used for comparisons: truth values as numbers, words in lower case."""
    return value.lower() if isinstance(value, str) else float(value) if isinstance(value, bool | int | float) else value
