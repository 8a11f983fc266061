"""Runs the computation that a function over columns describes, row by row or block by block.

The function is called once with symbolic columns and returns a graph, which a plan sorts into the order of computation.
Equal parts are computed once, and every cell has a place in the memory. A plan has no state and may be shared between
runs. A memory belongs to one run. For single rows, the plan generates one Python function at the first row. For a block
of rows, it computes one array after another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .cells import Cell
from .expression import Argument, Expression, Operation, RowNumber
from .row_code import AND, OR, RowCode

Memory: TypeAlias = tuple[Any, ...]
"""The number of rows and the state of every cell. A memory is never changed in place, so a stored memory is a
snapshot."""


class Constant(NamedTuple):
    """A value that is the same on every row."""

    value: Any


class Step(NamedTuple):
    """A value of a plan: the operation, the inputs, and the place of the state in the memory (0 if there is no
    state)."""

    operation: Any
    inputs: tuple[int, ...]
    place: int


class Plan:
    """The computation of some columns on every row, and of other columns only on rows on which a condition is true.

    Args:
        shown: columns that are computed on every row. If ``told`` is given, these columns are the conditions.
        told: columns that are computed only on rows, or in blocks, on which one of the ``shown`` columns is true.
    """

    def __init__(self, shown: Sequence[Any], told: Sequence[Any] | None = None) -> None:
        self.steps: list[Step] = []
        self.cells: list[Cell] = []
        self.dear: set[int] = set()
        """Numbers of the values that need a late argument."""
        self._numbers: dict[Any, int] = {}
        self._of: dict[int, int] = {}
        self.shown = [self._number(x) for x in shown]
        self.asks = told is not None
        self.told = [self._number(x) for x in told or ()]
        self.placed = [i for i, step in enumerate(self.steps) if step.place]

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: int) -> Plan:
        """Return the plan of a function that has this number of columns as arguments and returns one or more
        columns."""
        made = function(*columns(range(arguments)))
        return cls(made if isinstance(made, tuple) else (made,))

    def _number(self, x: Any) -> int:
        """Return the place of a column among the values; equal computations share one place."""
        if not isinstance(x, Expression):
            plain = isinstance(x, bool | int | float | str) or x is None
            return self._step((type(x), repr(x) if plain else id(x)), Constant(x), ())
        if id(x) not in self._of:
            inputs = tuple(self._number(i) for i in x.inputs)
            number = self._step((x.operation, inputs), x.operation, inputs)
            if self.steps[number].place and x.operation.value:  # separate, because most rows need only the state
                read: Any = getattr(x.operation, "read", None)
                value = Operation(read, lambda state, *_: state, x.operation.value)
                number = self._step(("read", number), value, (number, *inputs))
            self._of[id(x)] = number
        return self._of[id(x)]

    def _step(self, key: Any, operation: Any, inputs: tuple[int, ...]) -> int:
        if key not in self._numbers:
            place = 0
            if not isinstance(operation, Argument | Constant | Operation | RowNumber):
                self.cells.append(operation)
                place = len(self.cells)
            if getattr(operation, "late", "") or not self.dear.isdisjoint(inputs):
                self.dear.add(len(self.steps))
            self._numbers[key] = len(self.steps)
            self.steps.append(Step(operation, inputs, place))
        return self._numbers[key]

    def needed_for(self, wanted: Sequence[int], made: Collection[int] = ()) -> set[int]:
        """Return the steps that the given values need, without the steps in ``made``."""
        found, waiting = set[int](), list(wanted)
        while waiting:
            i = waiting.pop()
            if i not in found and i not in made:
                found.add(i)
                waiting += self.steps[i].inputs
        return found

    def begin(self) -> Memory:
        """Return the memory before the first row."""
        return (0, *(cell.begin() for cell in self.cells))

    # -- row by row ----------------------------------------------------------------------------------------------

    @cached_property
    def row(self) -> Callable[[Memory, Any], tuple[Memory, Any]]:
        """Map ``(memory, arguments)`` to the memory after one more row, and the values of the row as Python numbers.
        ``arguments`` contains the value of each argument at its key.

        Values of ``shown`` are a tuple. If the plan has ``told``, the result is None on rows on which no ``shown``
        column is true. On other rows, the result is the values of ``shown`` and ``told``.
        """
        code = RowCode(self)
        exec(code.source(), code.names)
        function: Callable[[Memory, Any], tuple[Memory, Any]] = code.names["row"]
        return function

    # -- by block ------------------------------------------------------------------------------------------------

    def block(self, memory: Memory, arguments: Sequence[Any], rows: int) -> tuple[Memory, Any]:
        """Return the memory after a number of rows, and the values of the rows as arrays.

        Values of ``shown`` are a list of arrays. If the plan has ``told``, the result is None unless a ``shown`` column
        is true on some row. Otherwise, the result is the values of ``shown`` and ``told``. A constant value of ``told``
        remains a single number.
        """
        block = _Block(self, memory, arguments, rows)
        for i in self.placed:
            block.value(i)
        shown = [_full(block.value(i), rows) for i in self.shown]
        if not self.asks:
            return tuple(block.states), shown
        if not any(flags.any() for flags in shown):
            return tuple(block.states), None
        return tuple(block.states), (shown, [block.value(i) for i in self.told])


def _full(value: Any, rows: int) -> np.ndarray:
    """Return a column with one value for each row."""
    return value if np.shape(value) == (rows,) else np.broadcast_to(value, rows)


class _Block:
    """The values of a plan on a block of rows. Each value is computed only when it is needed."""

    def __init__(self, plan: Plan, memory: Memory, arguments: Sequence[Any], rows: int) -> None:
        self.plan, self.arguments = plan, arguments
        self.numbers = memory[0] + np.arange(1.0, rows + 1)
        self.states = [memory[0] + rows, *memory[1:]]
        self.values: dict[int, Any] = {}

    def value(self, i: int) -> Any:
        """Return a column, or one number that applies to every row."""
        if i not in self.values:
            self.values[i] = self._compute(*self.plan.steps[i])
        return self.values[i]

    def _compute(self, operation: Any, inputs: tuple[int, ...], place: int) -> Any:
        if isinstance(operation, Operation):
            if operation.code in (AND, OR):  # evaluate the more expensive part only if needed
                inputs = tuple(sorted(inputs, key=self.plan.dear.__contains__))
                first = np.asarray(self.value(inputs[0]))
                if first.all() if operation.code == OR else not first.any():
                    return first
            return operation.block(*map(self.value, inputs))
        if isinstance(operation, Argument):
            return self.arguments[operation.place]
        if isinstance(operation, Constant):
            return operation.value
        if isinstance(operation, RowNumber):
            return self.numbers
        given = [_full(self.value(i), len(self.numbers)) for i in inputs]
        self.states[place], out = operation.block(self.states[place], *given)
        return out


def columns(keys: Iterable[Any], late: Mapping[int, str] | None = None) -> list[Any]:
    """Return symbolic columns to pass to a traced function as arguments, by their keys in a row. ``late`` maps the
    positions of arguments to attributes."""
    return [Expression(Argument(place, key, (late or {}).get(place, ""))) for place, key in enumerate(keys)]


def computed(function: Callable[..., Any], given: Sequence[Any]) -> Any:
    """Compute a function over whole columns. Return an array, or a tuple of arrays if the function returns several
    columns."""
    plan = Plan.of(function, len(given))
    with np.errstate(all="ignore"):
        _, out = plan.block(plan.begin(), [np.asarray(x) for x in given], len(given[0]))
    return out[0] if len(out) == 1 else tuple(out)
