"""Evaluates Python expressions without running any code: numbers, words, arithmetic, and names that are looked up."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

LARGEST = 1e18
"""Absolute value at or above which a number is not accepted as a setting."""
LONGEST = 10_000
"""Maximum length of a concatenated word in characters."""
DEPTH = 40
"""Maximum nesting of an expression."""

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_WORDS: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_CALLS: dict[str, Callable[..., Any]] = {"int": int, "float": float, "bool": bool, "str": str, "max": max, "min": min}

Lookup = Callable[[ast.expr], ast.expr | None]
"""A function that maps a name, attribute or item to its expression, or to None if the expression is unknown."""


def evaluate(node: ast.expr | None, lookup: Lookup = lambda _: None) -> Any:
    """Return the value of an expression. The result is None if the value is None or unknown."""
    return _plain(_value(node, lookup, 0))


def known(node: ast.expr, lookup: Lookup) -> tuple[bool, Any]:
    """Return whether the value of an expression is known, and the value."""
    value = _value(node, lookup, 0)
    return value is not _UNKNOWN, _plain(value)


_UNKNOWN = object()


def _value(node: ast.expr | None, lookup: Lookup, depth: int) -> Any:
    if node is None or depth > DEPTH:
        return _UNKNOWN
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return node.value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            return _unary(node, lookup, depth)
        case ast.BinOp():
            return _binary(node, lookup, depth)
        case ast.List() | ast.Tuple():
            return [_plain(_value(item, lookup, depth + 1)) for item in node.elts[:1000]]
        case ast.IfExp():
            return _either(node, lookup, depth)
        case ast.Compare(ops=[operation], comparators=[other]):
            return _compared(node.left, operation, other, lookup, depth)
        case ast.BoolOp(op=ast.Or()):
            return _first_true(node.values, lookup, depth)
        case ast.JoinedStr() | ast.FormattedValue():
            return _joined(node, lookup, depth)
        case ast.Call():
            return _called(node, lookup, depth)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _value(lookup(node), lookup, depth + 1)
    return _UNKNOWN


def _first_true(operands: list[ast.expr], lookup: Lookup, depth: int) -> Any:
    """Return the value of an ``or`` expression. A constant as the last operand replaces unknown values, as in
    ``get(name, default)``."""
    values = (_value(operand, lookup, depth + 1) for operand in operands)
    if isinstance(operands[-1], ast.Constant):
        return next((v for v in values if v and v is not _UNKNOWN), operands[-1].value)
    return next((v for v in values if v), _UNKNOWN)


def _plain(value: Any) -> Any:
    return None if value is _UNKNOWN else value


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < LARGEST


def _unary(node: ast.UnaryOp, lookup: Lookup, depth: int) -> Any:
    value = _value(node.operand, lookup, depth + 1)
    if value is _UNKNOWN:
        return _UNKNOWN
    if isinstance(node.op, ast.Not):
        return not value
    if not _number(value):
        return _UNKNOWN
    return -value if isinstance(node.op, ast.USub) else value


def _binary(node: ast.BinOp, lookup: Lookup, depth: int) -> Any:
    left, right = _value(node.left, lookup, depth + 1), _value(node.right, lookup, depth + 1)
    apply = _OPERATORS.get(type(node.op))
    if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
        return (left + right)[:LONGEST]
    if apply is None or not _number(left) or not _number(right):
        return _UNKNOWN
    if isinstance(node.op, ast.Pow) and (abs(right) > 64 or abs(left) > 1e6):
        return _UNKNOWN
    try:
        value = apply(left, right)
    except ArithmeticError:
        return _UNKNOWN
    return value if _number(value) else _UNKNOWN


def _joined(node: ast.JoinedStr | ast.FormattedValue, lookup: Lookup, depth: int) -> Any:
    """Evaluate an f-string if all its parts are known and none of them has a format specification."""
    if isinstance(node, ast.FormattedValue):
        return _UNKNOWN if node.format_spec is not None else _value(node.value, lookup, depth + 1)
    parts = [_value(part, lookup, depth + 1) for part in node.values[:200]]
    plain = all(isinstance(part, bool | int | float | str) for part in parts)
    return "".join(map(str, parts))[:LONGEST] if plain else _UNKNOWN


def _compared(left: ast.expr, operation: ast.cmpop, right: ast.expr, lookup: Lookup, depth: int) -> Any:
    """Compare two known values: numbers with numbers, and words with words."""
    one, two = _value(left, lookup, depth + 1), _value(right, lookup, depth + 1)
    apply = _COMPARISONS.get(type(operation))
    plain = all(value is None or isinstance(value, bool | int | float | str) for value in (one, two))
    alike = plain and (isinstance(one, str) == isinstance(two, str) and None not in (one, two))
    if apply is None or not plain or not (alike or isinstance(operation, ast.Eq | ast.NotEq | ast.Is | ast.IsNot)):
        return _UNKNOWN
    return apply(one, two)


def _either(node: ast.IfExp, lookup: Lookup, depth: int) -> Any:
    """Return the value of a conditional expression. If the branches have different values, the condition must be
    known."""
    yes, no = _value(node.body, lookup, depth + 1), _value(node.orelse, lookup, depth + 1)
    if yes is not _UNKNOWN and yes == no:
        return yes
    test = _value(node.test, lookup, depth + 1)
    return _UNKNOWN if test is _UNKNOWN else yes if test else no


def _called(node: ast.Call, lookup: Lookup, depth: int) -> Any:
    """Evaluate ``int(…)`` and similar calls, defaults of environment variables, and calls that ``lookup`` resolves,
    such as ``d.get(k)``."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in _CALLS and node.args and not node.keywords:
        values = [_value(argument, lookup, depth + 1) for argument in node.args]
        if any(value is _UNKNOWN or isinstance(value, list) for value in values):
            return _UNKNOWN
        try:
            return _CALLS[name](*values)
        except (TypeError, ValueError, OverflowError):
            return _UNKNOWN
    if isinstance(node.func, ast.Attribute) and node.func.attr in _WORDS and not node.args:
        word = _value(node.func.value, lookup, depth + 1)
        return _WORDS[node.func.attr](word) if isinstance(word, str) else _UNKNOWN
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "getenv"):
        found = lookup(node) if node.func.attr == "get" else None
        default = node.args[1] if len(node.args) > 1 else None
        return _value(found if found is not None else default, lookup, depth + 1)
    return _value(lookup(node), lookup, depth + 1)
