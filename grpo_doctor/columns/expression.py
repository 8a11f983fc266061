"""A column as a check sees it: not its values, but what is to be computed of them.

A check is called once, with these. Every operator and every function below makes a new column that knows its
operation and the columns that it is made of; `grpo_doctor.columns.plan` runs them. Unknown values are NaN, and no
comparison with NaN holds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

Column: TypeAlias = Any
"""The values of one field over the rows of a run."""


class ColumnError(TypeError):
    """What cannot be asked of a column; the message says what to write instead."""


class Argument(NamedTuple):
    """A column that is given, by its place among them."""

    place: int


class RowNumber(NamedTuple):
    """How many rows were seen, this one included."""


class Operation(NamedTuple):
    """What makes a column of others and remembers nothing.

    Attributes:
        row: makes the value of one row, a numpy number, of the values of that row.
        block: makes the values of many rows, an array, of arrays or of numbers that hold on all of them.
        code: the same as ``row``, as a Python expression over ``{0}``, ``{1}``, where that saves a call.
    """

    row: Callable[..., Any]
    block: Callable[..., Any]
    code: str = ""


class Expression:
    """A column that is yet to be computed: an operation, or a cell that remembers, and what it is made of."""

    __slots__ = ("inputs", "operation")

    def __init__(self, operation: Any, *inputs: Any) -> None:
        self.operation, self.inputs = operation, inputs

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Expression:
        if method != "__call__" or options:
            raise ColumnError(f"numpy.{ufunc.__name__}.{method} takes no column")
        return Expression(Operation(ufunc, ufunc), *inputs)

    __hash__ = object.__hash__


def _operators() -> None:
    """Gives `Expression` Python's operators, in both orders."""
    for name in ("add", "sub", "mul", "truediv", "pow", "mod", "and_", "or_", "xor"):
        function, symbol = getattr(operator, name), _SYMBOLS[name]
        step, plain = Operation(function, function, f"{{0}} {symbol} {{1}}"), name.rstrip("_")
        setattr(Expression, f"__{plain}__", lambda x, y, step=step: Expression(step, x, y))
        setattr(Expression, f"__r{plain}__", lambda x, y, step=step: Expression(step, y, x))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, name)
        step = Operation(function, function, f"{{0}} {_SYMBOLS[name]} {{1}}")
        setattr(Expression, f"__{name}__", lambda x, y, step=step: Expression(step, x, y))
    for name, code in {"neg": "-{0}", "invert": "~{0}", "abs": "abs({0})"}.items():
        function = getattr(operator, name)
        step = Operation(function, function, code)
        setattr(Expression, f"__{name}__", lambda x, step=step: Expression(step, x))


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "mod": "%", "and_": "&", "or_": "|", "xor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


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
    "iter": "a column is no sequence: write each(function, x) to compute something of each row",
    "index": "a column is no place in a list: write words(lambda n: TEXTS[int(n)], x) or where(condition, a, b)",
    "float": "a column is no number: write each(function, x) to call a function with the number of each row",
    "int": "a column is no number: write each(function, x) to call a function with the number of each row",
    "format": "a column has no value yet: name it in the message as {name} and hand it to fires as name=column",
    "array": "a column is no array: write where, maximum, fmax, fmin or sqrt of grpo_doctor.columns, or each",
}
"""What Python or numpy would ask of a number or an array, and what to write instead."""

for _name, _why in _REFUSED.items():
    setattr(Expression, f"__{_name}__", _refuse(_why))
_operators()


# -- functions that remember nothing ---------------------------------------------------------------------------


def _maximum(x: Any, y: Any) -> Any:
    return x if x >= y or x != x else y


def _fmax(x: Any, y: Any) -> Any:
    return x if x >= y or y != y else y


def _sqrt(x: Any) -> Any:
    return np.float64(math.sqrt(x) if x >= 0 else math.nan)


_WHERE = Operation(lambda condition, yes, no: yes if condition else no, np.where, "{1} if {0} else {2}")
_MAXIMUM = Operation(_maximum, np.maximum)
_FMAX = Operation(_fmax, np.fmax)
_SQRT = Operation(_sqrt, np.sqrt)


def where(condition: Column, yes: Any, no: Any) -> Column:
    """``yes`` where the condition holds, else ``no``."""
    return Expression(_WHERE, condition, yes, no)


def isnan(x: Column) -> Column:
    """Whether the value is unknown."""
    return x != x


def maximum(x: Column, y: Column) -> Column:
    """The larger of two values, unknown if either is."""
    return Expression(_MAXIMUM, x, y)


def fmax(x: Column, y: Column) -> Column:
    """The larger of the known ones of two values."""
    return Expression(_FMAX, x, y)


def fmin(x: Column, y: Column) -> Column:
    """The smaller of the known ones of two values."""
    return -fmax(-x, -y)


def sqrt(x: Column) -> Column:
    """The square root, unknown below 0."""
    return Expression(_SQRT, x)


def row(_: Column) -> Column:
    """How many rows the check has seen, this one included."""
    return Expression(RowNumber())


# -- Python functions of a row's own values --------------------------------------------------------------------


def steady(column: Any) -> bool:
    """Whether a block holds one value for all its rows, as `numpy.broadcast_to` makes it: it need be used once."""
    return np.ndim(column) == 0 or column.strides == (0,)


def _on_block(function: Callable[..., Any], columns: tuple[Any, ...]) -> np.ndarray:
    """What ``function`` makes of each row, or of the one row where all are the same."""
    given = np.broadcast_arrays(*columns)
    if all(map(steady, given)):
        return np.array(function(*(column.flat[0] for column in given)), float)
    return np.array([function(*row) for row in zip(*given, strict=True)], float)


def each(function: Callable[..., float], *columns: Column) -> Column:
    """``function`` of the row's values, row by row: for lists, dictionaries and events."""

    def by_row(*values: Any) -> Any:
        return np.float64(function(*values))

    def by_block(*values: Any) -> Any:
        return _on_block(function, values)

    return Expression(Operation(by_row, by_block), *columns)


def several(number: int, function: Callable[..., tuple[float, ...]], *columns: Column) -> tuple[Column, ...]:
    """So many columns of the numbers that ``function`` makes of the row's values, row by row."""

    def by_row(*values: Any) -> Any:
        return tuple(map(np.float64, function(*values)))

    def by_block(*values: Any) -> Any:
        return _on_block(function, values).T

    made = Expression(Operation(by_row, by_block), *columns)
    items = (operator.itemgetter(place) for place in range(number))
    return tuple(Expression(Operation(item, item), made) for item in items)


def is_any(declared: Column, *names: str | float) -> Column:
    """Whether what a run declares is one of these words or numbers; not where it declares nothing."""
    return each(lambda value: value == value and value in names, declared) > 0


def seen(events: Column, kind: str, *texts: str) -> Column:
    """How many events of this kind whose message holds all ``texts`` the row has."""

    def count(row: Iterable[Any] | None) -> float:
        return float(sum(e.kind == kind and all(t in e.message for t in texts) for e in row or ()))

    return each(count, events)


class Words(NamedTuple):
    """Text of a row's values for a message, which is made only where the message is shown."""

    function: Callable[..., str]
    columns: tuple[Any, ...]


def words(function: Callable[..., str], *columns: Column) -> Column:
    """Text of the row's values, row by row, for messages."""

    def text(*values: Any) -> Words:
        return Words(function, values)

    return Expression(Operation(text, text), *columns)
