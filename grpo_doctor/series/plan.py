"""Runs the computation that a function over columns describes, row by row or block by block.

The function is called once, with symbolic columns. The function returns a graph, which a plan sorts into the order of
computation. Equal parts are computed once, and every cell gets a place in a memory. A plan has no state and may be
shared; a memory belongs to one run. For rows, the plan generates one straight-line Python function at the first row.
For blocks, the plan computes one array after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .cells import Cell
from .expression import Argument, Expression, Operation, RowNumber

Memory: TypeAlias = tuple[Any, ...]
"""The number of rows and the state of every cell. A memory is never changed in place, so a stored memory is a
snapshot."""


DEEPEST = 20
"""Maximum nesting of branches in the generated function. Python allows 100 levels."""
STATE = "{0}"
"""Code for the value of a cell whose state is its value."""
_AND, _OR, _WHERE = "{0} & {1}", "{0} | {1}", "{1} if {0} else {2}"


class Constant(NamedTuple):
    """A value that is the same on every row."""

    value: Any


class Step(NamedTuple):
    """A value of a plan: the operation, the inputs, and the place of the state; 0 if there is no state."""

    operation: Any
    inputs: tuple[int, ...]
    place: int


class Plan:
    """The computation of some columns on every row, and of others only on rows on which a condition is true.

    Args:
        shown: columns that are computed on every row; with ``told``, the conditions.
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
        self._placed = [i for i, step in enumerate(self.steps) if step.place]
        self.places = sorted(step.operation.place for step in self.steps if isinstance(step.operation, Argument))
        """The positions of the arguments that the function uses: a row contains only these arguments."""

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: int) -> Plan:
        """Return the plan of a function that takes this number of columns and returns one or more columns."""
        made = function(*columns(arguments))
        return cls(made if isinstance(made, tuple) else (made,))

    def _number(self, x: Any) -> int:
        """Return the place of a column among the values; equal computations share one place."""
        if not isinstance(x, Expression):
            plain = isinstance(x, bool | int | float | str) or x is None
            return self._step((type(x), repr(x) if plain else id(x)), Constant(x), ())
        if id(x) not in self._of:
            inputs = tuple(self._number(i) for i in x.inputs)
            number = self._step((x.operation, inputs), x.operation, inputs)
            if self.steps[number].place and x.operation.value:  # separate: most rows need only the state
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

    def _behind(self, wanted: Sequence[int], made: Collection[int] = ()) -> set[int]:
        """Return the steps that these values need, without the steps that are already ``made``."""
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
    def row(self) -> Callable[[Memory, Sequence[Any]], tuple[Memory, Any]]:
        """Map ``(memory, arguments)`` to the memory after one more row, and the values of the row as Python numbers.
        ``arguments`` contains only the arguments at ``places``.

        Values of ``shown`` are a tuple. With ``told``, the result is None if none of the ``shown`` columns is true,
        otherwise the values of ``shown`` and ``told``.
        """
        names: dict[str, Any] = {"nan": math.nan, "sqrt": math.sqrt}
        after = f"(n, {''.join(f's{place}, ' for place in range(1, len(self.cells) + 1))})"
        shown, told = ("".join(f"{self._name(i)}, " for i in numbers) for numbers in (self.shown, self.told))
        source = [f"{after} = m", "n += 1", *self._given()]
        made: set[int] = set()
        for wanted, test in self._tests():
            needed = self._behind(wanted, made)
            lines, waiting = self._lines(needed, self._users(needed, wanted), names)
            made |= needed - waiting
            source += lines
            source += [f"if not ({test}): return {after}, None"] if test else []
        source.append(f"return {after}, (({shown}), ({told}))" if self.asks else f"return {after}, ({shown})")
        exec("\n    ".join(["def row(m, a):", *source]), names)
        function: Callable[[Memory, Sequence[Any]], tuple[Memory, Any]] = names["row"]
        return function

    def _given(self) -> list[str]:
        """Return the statement that unpacks the arguments: values, and the objects that have the late attributes."""
        given = [(s.operation, i) for i, s in enumerate(self.steps) if isinstance(s.operation, Argument)]
        names = [f"{'a' if argument.late else 'v'}{i}, " for argument, i in sorted(given)]
        return [f"{''.join(names)} = a"] if names else []

    def _tests(self) -> Iterator[tuple[Sequence[int], str]]:
        """Yield the steps to compute, in order. Each step comes with a test without which no condition can be true on
        the row.

        Cells come first, because they process every row. The conditions of ``shown`` come next, the cheapest first.
        """
        yield self._placed, ""
        if self.asks:
            parts, remembered = [self._parts(i) for i in self.shown], self._behind(self._placed)
            required = [i for i in parts[0] if all(i in others for others in parts)]
            for i in sorted(required, key=lambda i: self._cost(self._behind([i]) - remembered)):
                yield [i], self._name(i)
            yield self.shown, " or ".join(map(self._name, self.shown))
        yield [*self.shown, *self.told], ""

    def _cost(self, steps: set[int]) -> tuple[int, int]:
        """Return the cost of these steps per row: the number of late attributes and calls, and the number of all
        steps."""
        operations = [self.steps[i].operation for i in steps]
        called = [o for o in operations if isinstance(o, Operation) and (not o.code or o.code.startswith("{row}"))]
        return len(called) + sum(getattr(o, "late", "") != "" for o in operations), len(steps)

    def _parts(self, i: int) -> list[int]:
        """Return the conditions that ``&`` joins, in order."""
        operation, inputs, _ = self.steps[i]
        if isinstance(operation, Operation) and operation.code == _AND:
            return [part for k in inputs for part in self._parts(k)]
        return [i]

    def _lines(
        self, needed: set[int], users: Mapping[int, set[int]], names: dict[str, Any], depth: int = 0
    ) -> tuple[list[str], set[int]]:
        """Return the statements that compute these values.

        If only one part of an `&`, an `|` or a `where` needs a value, the value is computed only when that part is
        evaluated.
        """
        waiting, parts, lines = set[int](), dict[int, dict[int, set[int]]](), []
        for i in sorted(needed, reverse=True):
            if depth < DEEPEST and i not in waiting and (asked := self._asked(i, users)):
                parts[i] = asked
                waiting = waiting.union(*asked.values())
        for i in sorted(needed - waiting):
            if i not in parts:
                lines += self._line(i, names)
                continue
            bodies = {k: self._lines(part, users, names, depth + 1)[0] for k, part in parts[i].items()}
            for head, k in self._branches(i, *bodies):
                lines += [head, *(f"    {line}" for line in bodies.get(k, ())), f"    v{i} = {self._name(k)}"]
        return lines, waiting

    def _asked(self, i: int, users: Mapping[int, set[int]]) -> dict[int, set[int]]:
        """Map each conditional part of a value to the steps that only this part needs."""
        operation, inputs, _ = self.steps[i]
        code = getattr(operation, "code", "")
        able = inputs[1:] if code == _WHERE else inputs if code in (_AND, _OR) else ()
        parts = {k: part for k in able if inputs.count(k) == 1 and (part := self._only(i, k, users))}
        if code != _WHERE and parts:
            dearest = max(parts, key=lambda k: self._cost(parts[k]))
            parts = {dearest: parts[dearest]}
        return parts

    def _branches(self, i: int, *asked: int) -> list[tuple[str, int]]:
        """Return the conditions that select the parts of a value."""
        operation, inputs, _ = self.steps[i]
        if operation.code == _WHERE:
            return [(f"if {self._name(inputs[0])}:", inputs[1]), ("else:", inputs[2])]
        (late,) = asked
        first = inputs[0] if late == inputs[1] else inputs[1]
        return [(f"if {'not ' * (operation.code == _AND)}{self._name(first)}:", first), ("else:", late)]

    def _only(self, i: int, part: int, users: Mapping[int, set[int]]) -> set[int]:
        """Return the steps that only this part of a value needs; an empty set if one of these steps must process every
        row."""
        only = set[int]()
        for k in sorted(self._behind([part]), reverse=True):
            wanted = users.get(k)
            if wanted and not self.steps[k].place and wanted <= ({i} if k == part else only):
                only.add(k)
        return only if part in only else set()

    def _users(self, needed: set[int], wanted: Sequence[int]) -> dict[int, set[int]]:
        """Map each value to the values that use it, and to -1 if it is a result."""
        users: dict[int, set[int]] = {i: {-1} if i in wanted else set() for i in needed}
        for i in needed:
            for k in users.keys() & self.steps[i].inputs:
                users[k].add(i)
        return users

    def _line(self, i: int, names: dict[str, Any]) -> list[str]:
        """Return the statements that compute one value. Functions that the statements call are added to ``names``."""
        operation, inputs, place = self.steps[i]
        given = [self._name(k) for k in inputs]
        if isinstance(operation, Argument):
            return [f"v{i} = a{i}.{operation.late}"] if operation.late else []
        if isinstance(operation, Constant):
            names[f"v{i}"] = float(operation.value) if type(operation.value) is int else operation.value
            return []
        if isinstance(operation, RowNumber):
            return [f"v{i} = n + 0.0"]
        if isinstance(operation, Operation):
            names[f"f{i}"] = operation.row
            called = f"{{row}}({', '.join(given)})"
            code = (operation.code or called).format(*given, row=f"f{i}")
            return [f"v{i} = {code}"] if operation.code != STATE else []
        names[f"f{i}"] = getattr(operation, "push", None)
        return [operation.code.format(*given, state=f"s{place}", value=f"v{i}", push=f"f{i}", given=", ".join(given))]

    def _name(self, i: int) -> str:
        """Return the source code of a computed value: a finite constant, a state or a variable."""
        operation, inputs, place = self.steps[i]
        if isinstance(operation, Operation) and operation.code == STATE:
            return self._name(inputs[0])
        if place and operation.value:
            return f"s{place}"
        value: Any = getattr(operation, "value", None)
        return repr(float(value)) if type(value) in (int, float) and math.isfinite(value) else f"v{i}"

    # -- by block ------------------------------------------------------------------------------------------------

    def block(self, memory: Memory, arguments: Sequence[Any], rows: int) -> tuple[Memory, Any]:
        """Return the memory after a number of rows, and the values of the rows as arrays.

        Values of ``shown`` are a list of arrays. With ``told``, the result is None if none of the ``shown`` columns is
        true on any row, otherwise the values of ``shown`` and ``told``. A constant value of ``told`` stays one number.
        """
        block = _Block(self, memory, arguments, rows)
        for i in self._placed:
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
    """The values of a plan on a block of rows. Each value is computed when it is needed."""

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
            if operation.code in (_AND, _OR):  # evaluate the more expensive part only if needed
                inputs = tuple(sorted(inputs, key=self.plan.dear.__contains__))
                first = np.asarray(self.value(inputs[0]))
                if first.all() if operation.code == _OR else not first.any():
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


def columns(number: int, late: Mapping[int, str] | None = None) -> list[Any]:
    """Return symbolic columns to pass to a traced function as arguments; ``late`` maps places to attributes."""
    return [Expression(Argument(place, (late or {}).get(place, ""))) for place in range(number)]


def computed(function: Callable[..., Any], given: Sequence[Any]) -> Any:
    """Compute a function over whole columns. Return an array, or a tuple of arrays if the function returns several
    columns."""
    plan = Plan.of(function, len(given))
    with np.errstate(all="ignore"):
        _, out = plan.block(plan.begin(), [np.asarray(x) for x in given], len(given[0]))
    return out[0] if len(out) == 1 else tuple(out)
