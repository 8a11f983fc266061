"""Symbolic columns, which describe the computation of a check and have no values.

A check is called once, with symbolic columns. Every operator and every function below creates a column that records its
operation and inputs. `series.plan` runs the operations. Unknown values are NaN, and no comparison with NaN is true.

If the functions are called with numpy arrays, they compute immediately (`apply`). A check therefore also runs eagerly,
with ``print``, breakpoints and ``if``: `diagnosis.eager`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

Column: TypeAlias = Any
"""The values of a field over the rows of a run."""


class ColumnError(TypeError):
    """An operation that columns do not support; the message states what to write instead."""


class Argument(NamedTuple):
    """An argument column, by its position. In a row, the argument is the value at ``key``. If ``late`` is set, the
    argument is an attribute of that value. Reading the attribute may be slow, so it is read only when it is needed."""

    place: int
    key: Any
    late: str = ""


class RowNumber(NamedTuple):
    """The number of rows so far, including the current row."""


class Operation(NamedTuple):
    """A stateless operation that computes a column from other columns.

    Attributes:
        row: computes the value of a row from the row's values. ``row`` uses Python numbers, which are five times as
            fast as numpy scalars. If Python raises an error, for example for a division by 0, numpy computes the value.
        block: computes an array of many rows from arrays, or from numbers that apply to all rows.
        code: ``row`` as a Python expression over ``{0}``, ``{1}``, ``nan`` and ``sqrt``, if the expression avoids a
            function call. ``{row}`` is ``row`` itself.
    """

    row: Callable[..., Any]
    block: Callable[..., Any]
    code: str = ""


class Expression:
    """A column to be computed: an operation or a cell, and its inputs."""

    __slots__ = ("inputs", "operation")

    def __init__(self, operation: Any, *inputs: Any) -> None:
        self.operation, self.inputs = operation, inputs

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Expression:
        if method != "__call__" or options:
            raise ColumnError(f"numpy.{ufunc.__name__}.{method} takes no column")
        return Expression(_applied(ufunc), *inputs)

    __hash__ = object.__hash__


def apply(operation: Any, *inputs: Any) -> Any:
    """Apply an operation or a cell, symbolically if an input is symbolic, otherwise on whole arrays."""
    if any(isinstance(x, Expression) for x in inputs):
        return Expression(operation, *inputs)
    if isinstance(operation, Operation):
        return operation.block(*inputs)
    _, values = operation.block(operation.begin(), *np.broadcast_arrays(*inputs))
    return values


@cache
def _applied(ufunc: np.ufunc) -> Operation:
    """Return the same operation object for a ufunc at each call, so that plans recognise equal columns."""
    return Operation(lambda *values: ufunc(*values).item(), ufunc)


def _numpys(function: Callable[..., Any]) -> Callable[..., float]:
    return lambda x, y: float(function(np.float64(x), y))


def _made(step: Operation, x: Any, y: Any) -> Expression:
    if step.code in _COUNTING and is_condition(x) and is_condition(y):
        raise ColumnError("a sum of conditions is numpy's `or`: write where(condition, 1, 0) for each of them")
    if step.code == _CODES["pow"] and type(y) in (int, float) and y == 2:
        return _made(Operation(operator.mul, operator.mul, _CODES["mul"]), x, x)  # numpy also squares by multiplication
    return Expression(step, x, y)


def is_condition(x: Any) -> bool:
    """Whether a column is Boolean."""
    return isinstance(x, Expression) and getattr(x.operation, "code", "") in _TRUE_OR_FALSE


def _operators() -> None:
    """Add Python's operators to `Expression`, with the expression as the left or the right operand."""
    for name, code in _CODES.items():
        function = getattr(operator, name)
        step, plain = Operation(_numpys(function) if name in _RAISING else function, function, code), name.rstrip("_")
        if "{1}" in code:
            setattr(Expression, f"__{plain}__", lambda x, y, step=step: _made(step, x, y))
            setattr(Expression, f"__r{plain}__", lambda x, y, step=step: _made(step, y, x))
        else:
            setattr(Expression, f"__{plain}__", lambda x, step=step: Expression(step, x))


_CODES = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "truediv": "{0} / {1} if {1} else {row}({0}, {1})",
    "pow": "{row}({0}, {1})", "mod": "{row}({0}, {1})", "and_": "{0} & {1}", "or_": "{0} | {1}", "xor": "{0} ^ {1}",
    "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}", "eq": "{0} == {1}",
    "ne": "{0} != {1}", "neg": "-{0}", "invert": "not {0}", "abs": "abs({0})",
}  # fmt: skip
_COUNTING = ("{0} + {1}", "{0} - {1}", "{0} * {1}")
_TRUE_OR_FALSE = frozenset(_CODES[name] for name in "and_ or_ xor lt le gt ge eq ne invert".split())
_RAISING = ("truediv", "pow", "mod")
"""Operators that raise errors for some Python numbers."""


def _refuse(why: str) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise ColumnError(why)

    return refuse


_TRUTH = (
    "a column is not true or false as a whole: write where(condition, a, b) for an `if`, `&`, `|` and `~` for `and`, "
    "`or` and `not`, and (low < x) & (x < high) for a chain"
)
_ITEM = "a column cannot be indexed: write previous(x, n) for an earlier row, each(function, x) for a part of a list"
_REFUSED = {
    "bool": _TRUTH,
    "getitem": _ITEM,
    "len": _ITEM,
    "iter": "a column is not a sequence: write each(function, x) to compute something for each row",
    "index": "a column is not an index of a list: write words(lambda n: TEXTS[int(n)], x) or where(condition, a, b)",
    "float": "a column is not a number: write each(function, x) to call a function with the number of each row",
    "int": "a column is not a number: write each(function, x) to call a function with the number of each row",
    "format": "a column has no value yet: name it in the message as {name} and hand it to fires as name=column",
    "array": "a column is not an array: write where, maximum, fmax, fmin or sqrt of grpo_doctor.series, or each",
}
"""Operations that columns do not support, and what to write instead."""

for _name, _why in _REFUSED.items():
    setattr(Expression, f"__{_name}__", _refuse(_why))
_operators()


# -- stateless functions -----------------------------------------------------------------------------------------


_WHERE = Operation(lambda condition, yes, no: yes if condition else no, np.where, "{1} if {0} else {2}")
_MAXIMUM = Operation(lambda x, y: x if x >= y or x != x else y, np.maximum, "{0} if {0} >= {1} or {0} != {0} else {1}")
_FMAX = Operation(lambda x, y: x if x >= y or y != y else y, np.fmax, "{0} if {0} >= {1} or {1} != {1} else {1}")
_SQRT = Operation(lambda x: math.sqrt(x) if x >= 0 else math.nan, np.sqrt, "sqrt({0}) if {0} >= 0 else nan")


def where(condition: Column, yes: Any, no: Any) -> Column:
    """Return ``yes`` on rows on which the condition is true, and ``no`` on other rows."""
    return apply(_WHERE, condition, yes, no)


def isnan(x: Column) -> Column:
    """Whether the value is unknown."""
    return x != x


def maximum(x: Column, y: Column) -> Column:
    """Return the larger of two values; unknown if either value is unknown."""
    return apply(_MAXIMUM, x, y)


def fmax(x: Column, y: Column) -> Column:
    """Return the larger of two values, ignoring unknown values."""
    return apply(_FMAX, x, y)


def fmin(x: Column, y: Column) -> Column:
    """Return the smaller of two values, ignoring unknown values."""
    return -fmax(-x, -y)


def sqrt(x: Column) -> Column:
    """Return the square root; unknown below 0."""
    return apply(_SQRT, x)


def row(x: Column) -> Column:
    """Return the number of rows of the check so far, including the current row."""
    return Expression(RowNumber()) if isinstance(x, Expression) else np.arange(1.0, len(x) + 1)


# -- Python functions of the values of one row -------------------------------------------------------------------


def steady(column: Any) -> bool:
    """Return whether a block has one value for all rows, such as an array from `numpy.broadcast_to`, so that the value
    is computed once."""
    return np.ndim(column) == 0 or column.strides == (0,)


def _on_block(function: Callable[..., Any], columns: tuple[Any, ...]) -> np.ndarray:
    """Apply ``function`` to each row, or once if all rows are equal."""
    given = np.broadcast_arrays(*columns)
    if all(map(steady, given)):
        return np.array(function(*(column.flat[0] for column in given)), float)
    return np.array([function(*row) for row in zip(*given, strict=True)], float)


def numpys(value: Any) -> Any:
    """Convert a float to numpy's type, which is also used in blocks and gives NaN where Python raises an error."""
    return np.float64(value) if type(value) is float else value


_FIXED = frozenset({float, int, bool, str, tuple, type(None)})
"""Types of values that cannot be changed in place."""


def _by_row(function: Callable[..., Any], number: int, convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that computes and converts the result for the ``number`` values of one row. A single value
    that is the same object as on the row before, such as a setting, is not computed again."""
    latest: tuple[Any, Any] = object(), None

    def of_one(value: Any) -> Any:
        nonlocal latest
        before, result = latest
        if value is not before or type(value) not in _FIXED:
            result = convert(function(numpys(value)))
            latest = value, result
        return result

    def of_several(*values: Any) -> Any:
        return convert(function(*map(numpys, values)))

    return of_one if number == 1 else of_several


def each(function: Callable[..., float], *columns: Column) -> Column:
    """Return a column of the results of ``function`` for the values of each row, for fields that contain lists,
    dictionaries or events."""

    def by_block(*values: Any) -> Any:
        return _on_block(function, values)

    return apply(Operation(_by_row(function, len(columns), float), by_block), *columns)


def several(number: int, function: Callable[..., tuple[float, ...]], *columns: Column) -> tuple[Column, ...]:
    """Return one column for each number that ``function`` returns for the values of a row."""

    def floats(results: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(map(float, results))

    def by_block(*values: Any) -> Any:
        return _on_block(function, values).T

    made = apply(Operation(_by_row(function, len(columns), floats), by_block), *columns)
    items = (operator.itemgetter(place) for place in range(number))
    return tuple(apply(Operation(item, item, f"{{0}}[{place}]"), made) for place, item in enumerate(items))


def is_any(declared: Column, *names: str | float) -> Column:
    """Whether a setting is declared with one of these values."""

    def named(value: Any) -> bool:
        return value == value and value in names

    return apply(Operation(named, lambda values: _on_block(named, (values,)) > 0, f"{{0}} in {names!r}"), declared)


def seen(events: Column, *kinds: str, text: str = "") -> Column:
    """Return the number of the row's events of these kinds whose message contains ``text``."""

    def count(row: Iterable[Any] | None) -> float:
        return float(sum(e.kind in kinds and text in e.message for e in row or ()))

    return each(count, events)


def message_of(events: Column, *kinds: str) -> Column:
    """Return the message of the row's first event of these kinds, without its full stop, for use inside another
    message."""
    return words(lambda row: next(e.message for e in row if e.kind in kinds).rstrip("."), events)


class Words(NamedTuple):
    """Text for a message, created from a row's values only when the message is shown."""

    function: Callable[..., str]
    columns: tuple[Any, ...]


def words(function: Callable[..., str], *columns: Column) -> Column:
    """Return a column with the text that ``function`` returns for each row's values, for use in messages."""

    def text(*values: Any) -> Words:
        return Words(function, tuple(map(numpys, values)))

    return apply(Operation(text, text), *columns)
