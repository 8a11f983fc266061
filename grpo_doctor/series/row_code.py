"""Generates the Python function that computes a plan on one row.

A live step runs the functions of all checks once, so its time depends on the number of executed instructions. A
value that is used once therefore becomes part of the expression that uses it. If only one part of an `&`, an `|` or a
`where` needs a value, the value is computed only when that part is evaluated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .expression import Argument, Operation, RowNumber

if TYPE_CHECKING:
    from .plan import Plan

DEEPEST = 20
"""Maximum nesting of branches and of expressions. Python allows 100 levels of branches."""
STATE = "{0}"
"""Code for the value of a cell whose value is its state."""
AND, OR, WHERE = "{0} & {1}", "{0} | {1}", "{1} if {0} else {2}"


class RowCode:
    """The source code of a plan's function, and the objects that the source code names."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.steps = plan, plan.steps
        self.names: dict[str, Any] = {"nan": math.nan, "sqrt": math.sqrt}
        self.texts: dict[int, str] = {}
        """The source code of each computed value: a variable, a state, a constant, or an expression if it is used
        once."""
        self.depths = Counter[int]()
        self.uses = Counter([*plan.shown, *plan.told, *(i for wanted, test in self._groups() if test for i in wanted)])
        for step in self.steps:
            code = self._code(step.operation, len(step.inputs))
            for place, i in enumerate(step.inputs):
                self.uses[i] += code.count(f"{{{place}}}")

    def source(self) -> str:
        """Return the source code of ``row(m, a)``, for a memory and the arguments of a row."""
        plan, made = self.plan, set[int]()
        after = f"(n, {''.join(f's{place}, ' for place in range(1, len(plan.cells) + 1))})"
        source = [f"{after} = m", "n += 1"]
        for wanted, test in self._groups():
            needed = plan.needed_for(wanted, made)
            lines, waiting = self._lines(needed, self._users(needed, wanted))
            made |= needed - waiting
            found = " or ".join(map(self.texts.__getitem__, wanted))
            source += [*lines, f"if not ({found}): return {after}, None"] if test else lines
        shown, told = ("".join(f"{self.texts[i]}, " for i in numbers) for numbers in (plan.shown, plan.told))
        source.append(f"return {after}, (({shown}), ({told}))" if plan.asks else f"return {after}, ({shown})")
        return "\n    ".join(["def row(m, a):", *source])

    def _groups(self) -> Iterator[tuple[Sequence[int], bool]]:
        """Yield groups of values in the order of computation, and whether one of them must be true: otherwise, no
        condition can be true on the row.

        Cells come first, because they process every row. The conditions of ``shown`` come next, the cheapest first.
        """
        plan = self.plan
        yield plan.placed, False
        if plan.asks:
            parts, remembered = [self._parts(i) for i in plan.shown], plan.needed_for(plan.placed)
            required = [i for i in parts[0] if all(i in others for others in parts)]
            for i in sorted(required, key=lambda i: self._cost(plan.needed_for([i]) - remembered)):
                yield [i], True
            yield plan.shown, True
        yield [*plan.shown, *plan.told], False

    def _cost(self, steps: set[int]) -> tuple[int, int]:
        """Return the cost of these steps per row: the number of late attributes and calls, and the number of all
        steps."""
        operations = [self.steps[i].operation for i in steps]
        called = [o for o in operations if isinstance(o, Operation) and (not o.code or o.code.startswith("{row}"))]
        return len(called) + sum(getattr(o, "late", "") != "" for o in operations), len(steps)

    def _parts(self, i: int) -> list[int]:
        """Return the conditions that ``&`` joins in a value, in order."""
        operation, inputs, _ = self.steps[i]
        if isinstance(operation, Operation) and operation.code == AND:
            return [part for k in inputs for part in self._parts(k)]
        return [i]

    def _users(self, needed: set[int], wanted: Sequence[int]) -> dict[int, set[int]]:
        """Map each value to the values that use it, and to -1 if it is a result."""
        users: dict[int, set[int]] = {i: {-1} if i in wanted else set() for i in needed}
        for i in needed:
            for k in users.keys() & self.steps[i].inputs:
                users[k].add(i)
        return users

    def _lines(self, needed: set[int], users: Mapping[int, set[int]], depth: int = 0) -> tuple[list[str], set[int]]:
        """Return the statements that compute the needed values, and the values that are computed later."""
        waiting, parts, lines = set[int](), dict[int, dict[int, set[int]]](), list[str]()
        for i in sorted(needed, reverse=True):
            if depth < DEEPEST and i not in waiting and (asked := self._lazy_parts(i, users)):
                parts[i] = asked
                waiting = waiting.union(*asked.values())
        for i in sorted(needed - waiting):
            if i in parts:
                lines += self._branch(i, {k: self._lines(part, users, depth + 1)[0] for k, part in parts[i].items()})
            else:
                lines += self._line(i)
        return lines, waiting

    def _lazy_parts(self, i: int, users: Mapping[int, set[int]]) -> dict[int, set[int]]:
        """Map each conditional part of a value to the steps that only this part needs."""
        operation, inputs, _ = self.steps[i]
        code = getattr(operation, "code", "")
        able = inputs[1:] if code == WHERE else inputs if code in (AND, OR) else ()
        parts = {k: part for k in able if inputs.count(k) == 1 and (part := self._only(i, k, users))}
        if code != WHERE and parts:
            dearest = max(parts, key=lambda k: self._cost(parts[k]))
            parts = {dearest: parts[dearest]}
        return parts

    def _only(self, i: int, part: int, users: Mapping[int, set[int]]) -> set[int]:
        """Return the steps that only this part of a value needs; an empty set if one of these steps must process every
        row."""
        only = set[int]()
        for k in sorted(self.plan.needed_for([part]), reverse=True):
            wanted = users.get(k)
            if wanted and not self.steps[k].place and wanted <= ({i} if k == part else only):
                only.add(k)
        return only if part in only else set()

    def _branch(self, i: int, bodies: Mapping[int, list[str]]) -> list[str]:
        """Return the statements that compute a value. Some parts of the value, for which statements are given, are
        computed only if they decide."""
        operation, inputs, _ = self.steps[i]
        first, *others = inputs if operation.code == WHERE else sorted(inputs, key=bodies.__contains__)
        texts = [self.texts[k] for k in (first, *others)]
        if not any(bodies.values()):
            joined = {AND: "{0} and {1}", OR: "{0} or {1}"}.get(operation.code, WHERE)
            return self._assigned(i, joined.format(*texts))
        self.texts[i] = f"v{i}"
        if operation.code == WHERE:
            heads = [f"if {texts[0]}:", "else:"]
        else:
            heads = [f"if {'not ' * (operation.code == OR)}v{i}:"]
        lines = [] if operation.code == WHERE else [f"v{i} = {texts[0]}"]
        for head, k, text in zip(heads, others, texts[1:], strict=True):
            lines += [head, *(f"    {line}" for line in bodies.get(k, ())), f"    v{i} = {text}"]
        return lines

    def _line(self, i: int) -> list[str]:
        """Return the statements that compute one value."""
        operation, inputs, place = self.steps[i]
        given = [self.texts[k] for k in inputs]
        if isinstance(operation, Argument):
            return self._assigned(i, f"a[{operation.key!r}]{'.' * (operation.late != '')}{operation.late}")
        if isinstance(operation, RowNumber):
            return self._assigned(i, "(n + 0.0)")
        if isinstance(operation, Operation):
            self.names[f"f{i}"] = operation.row
            if operation.code == STATE:
                self.texts[i] = given[0]
                return []
            return self._assigned(i, self._code(operation, len(given)).format(*given, row=f"f{i}"))
        if not place:
            value = float(operation.value) if type(operation.value) is int else operation.value
            self.names[f"v{i}"] = value
            self.texts[i] = repr(value) if type(value) is float and math.isfinite(value) else f"v{i}"
            return []
        self.names[f"f{i}"] = getattr(operation, "push", None)
        self.texts[i] = f"s{place}" if operation.value else f"v{i}"
        code = self._code(operation, len(given))
        return [code.format(*given, state=f"s{place}", value=f"v{i}", push=f"f{i}")]

    @staticmethod
    def _code(operation: Any, inputs: int) -> str:
        """Return the code of an operation or a cell, over its numbered inputs."""
        given = ", ".join(f"{{{place}}}" for place in range(inputs))
        code: str = getattr(operation, "code", "") or f"{{row}}({given})"
        return code.replace("{given}", given)

    def _assigned(self, i: int, code: str) -> list[str]:
        """Return the statement that assigns a value; none if the value is used once, as part of an expression."""
        depth = 1 + max((self.depths[k] for k in self.steps[i].inputs), default=0)
        if self.uses[i] == 1 and depth < DEEPEST:
            self.depths[i], self.texts[i] = depth, f"({code})"
            return []
        self.texts[i] = f"v{i}"
        return [f"v{i} = {code}"]
