"""Formats numbers and counts for text that a user reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """Return a number as text with the given number of significant digits, never as "-0", and without an exponent
    between 0.001 and 99,999. With ``sign`` "+", positive numbers have a sign."""
    if math.isnan(value):
        return "unknown"
    return _plain(value, f"{sign}.{digits}g")


def counted(amount: int, noun: str) -> str:
    """Return ``1 step`` or ``2 steps``."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def all_of(amount: float, noun: str) -> str:
    """Return ``the only row``, ``both rows`` or ``all 12 rows``."""
    return {1: f"the only {noun}", 2: f"both {noun}s"}.get(int(amount), f"all {amount:,.0f} {noun}s")


def steps(rows: float, span: float) -> str:
    """Return ``10 steps``, or ``10 logged steps`` if the distance between the first and the last step (``span``) is
    larger."""
    return counted(int(rows), step_noun(rows, span))


def step_noun(rows: float, span: float) -> str:
    """Return ``step``, or ``logged step`` if rows are several steps apart."""
    return "logged step" if at_intervals(rows, span) else "step"


def at_intervals(rows: float, span: float) -> bool:
    """Return whether the log has fewer rows than steps."""
    return span >= rows


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, or ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def rendered(message: str, evidence: Mapping[str, Any]) -> str:
    """Return a check's message with the values of its evidence."""
    return _FORMATTER.vformat(message, (), evidence)


def _plain(value: float, spec: str) -> str:
    text = format(value, spec)
    if spec.endswith("g") and "e" in text and 0.001 <= abs(value) < 99999.5:
        text = format(value, f"{spec.partition('.')[0]}.0f")
    return text.replace("-", "", 1) if text.startswith("-") and not text.strip("-0.%") else text


class _Formatter(Formatter):
    """A formatter for `str.format` that writes numbers in the form of `number`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool) and format_spec:
            return _plain(value, format_spec)
        return str(super().format_field(value, format_spec))


_FORMATTER = _Formatter()
