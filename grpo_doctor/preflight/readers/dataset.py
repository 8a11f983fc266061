"""Infers the columns and the prompt form of a trainer's dataset from its script."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .modules import as_dict, is_dict, name_of, statements

Function = ast.FunctionDef | ast.AsyncFunctionDef
Form = Literal["messages", "text", "templated", ""]
"""The form of a prompt: a list of messages, plain text, or text that may contain a chat template; empty if unknown."""
SAME_COLUMNS = frozenset(
    "shuffle select filter take skip sort shard repeat with_format flatten_indices train_test_split".split()
)
"""Dataset methods that keep all columns."""
DEEPEST = 20
"""Maximum number of names, calls and methods that are followed from the trainer's argument to the rows."""
_TEMPLATE = re.compile(r"<\||<｜|\[INST\]|<start_of_turn>|<s>|### ?(?:Instruction|Response)")


@dataclass(frozen=True)
class Rows:
    """The known columns of each row, whether all columns are known (``whole``), and the form of the prompt."""

    columns: frozenset[str] = frozenset()
    whole: bool = False
    form: Form = ""


UNKNOWN = Rows()


class Datasets:
    """Traces a dataset from a name through assignments, functions and methods of a script."""

    def __init__(self, script: Sequence[ast.stmt], functions: Mapping[str, Function]) -> None:
        self.functions = functions
        script = [node for node in script if node.lineno]  # exclude imported modules, whose lines are 0
        owners: dict[int, Function] = {}
        perhaps: set[int] = set()
        for node in script:
            if isinstance(node, Function):
                owners |= dict.fromkeys(map(id, list(statements(node))[1:]), node)  # the innermost function comes last
            elif isinstance(node, ast.If | ast.For | ast.While | ast.Try) and not _is_main(node):
                perhaps |= set(map(id, list(statements(node))[1:]))
        self.given: dict[tuple[Function | None, str], list[tuple[int, ast.expr | None]]] = {}
        self.returned: dict[Function, list[ast.Return]] = {}
        self.items: dict[tuple[Function | None, str], dict[str, ast.expr]] = {}
        self.within: list[tuple[ast.stmt, Function | None]] = [(node, owners.get(id(node))) for node in script]
        for node, owner in self.within:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]):
                    value = None if id(node) in perhaps else node.value
                    self.given.setdefault((owner, name), []).append((node.lineno, value))
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)))]):
                    self.items.setdefault((owner, name), {})[key] = node.value
                case ast.Return() if owner is not None:
                    self.returned.setdefault(owner, []).append(node)

    def of(self, trainer: ast.Call) -> Rows:
        """Return the rows of the dataset that is passed to a trainer."""
        given = next((k.value for k in trainer.keywords if k.arg == "train_dataset"), None)
        holders = [f for node, f in self.within if node.lineno <= trainer.lineno <= (node.end_lineno or 0)]
        return UNKNOWN if given is None else self._rows(given, holders[-1] if holders else None, trainer.lineno, 0)

    def _value(self, name: str, owner: Function | None, line: int) -> tuple[ast.expr, Function | None, int] | None:
        """Return the last value of a name before a line, with the function and line of the assignment; None if a branch
        may change the value."""
        for scope in dict.fromkeys((owner, None)):
            if held := self.given.get((scope, name)):
                before = [pair for pair in held if scope is not owner or pair[0] < line]
                if not before or any(value is None for _, value in held) or (scope is not owner and len(held) > 1):
                    return None
                at, value = before[-1]
                return None if value is None else (value, scope, at)
        return None

    def _rows(self, node: ast.expr, owner: Function | None, line: int, depth: int) -> Rows:
        if depth == DEEPEST:
            return UNKNOWN
        match node:
            case ast.Name(id=name):
                found = self._value(name, owner, line)
                return UNKNOWN if found is None else self._rows(*found, depth + 1)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str()) | ast.Attribute()):
                return self._rows(inner, owner, line, depth + 1)
            case ast.Call(func=ast.Attribute(attr="from_dict" | "from_list"), args=[rows, *_]):
                return self._rows(rows, owner, line, depth + 1)
            case ast.Call(func=ast.Attribute(value=inner, attr=method)):
                return self._method(method, node, self._rows(inner, owner, line, depth + 1), owner)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                returned = self.returned.get(function := self.functions[name], [])
                if len(returned) == 1 and returned[0].value is not None:
                    return self._rows(returned[0].value, function, returned[0].lineno, depth + 1)
            case ast.ListComp(elt=ast.Dict() as row) | ast.List(elts=[ast.Dict() as row]):
                return self._row(row, owner, True)
            case ast.Dict():
                return replace(self._row(node, owner, True), form="")
        return UNKNOWN

    def _method(self, method: str, call: ast.Call, rows: Rows, owner: Function | None) -> Rows:
        """Apply a dataset method to the rows."""
        named = _words(call.args[0]) if call.args else None
        match method, named:
            case "map", _:
                return self._mapped(call, rows, owner)
            case "remove_columns", [*gone]:
                return Rows(rows.columns - set(gone), rows.whole, "" if "prompt" in gone else rows.form)
        return rows if method in SAME_COLUMNS else UNKNOWN

    def _mapped(self, call: ast.Call, rows: Rows, owner: Function | None) -> Rows:
        """Apply ``map``: remove columns, and add the columns of the row that the function returns."""
        given = {k.arg: k.value for k in call.keywords}
        base, removed = rows, given.get("remove_columns")
        if isinstance(removed, ast.Attribute) and removed.attr == "column_names":
            base = Rows(whole=True)
        elif removed is not None:
            gone = _words(removed)
            base = UNKNOWN if gone is None else Rows(rows.columns - set(gone), rows.whole, rows.form)
        function = call.args[0] if call.args else given.get("function")
        new = self._returned(function, owner) if function is not None else None
        if new is None:
            return Rows(base.columns)
        form = "" if "batched" in given else new.form if "prompt" in new.columns else base.form
        return Rows(base.columns | new.columns, base.whole and new.whole, form)

    def _returned(self, function: ast.expr, owner: Function | None) -> Rows | None:
        """Return the columns of the row that a function returns, or None if the columns cannot be inferred."""
        match function:
            case ast.Lambda(body=ast.Dict() as row):
                return self._row(row, owner, True)
            case ast.Lambda(body=ast.Call() as row) if is_dict(row):
                return self._row(as_dict(row), owner, True)
            case ast.Name(id=name) if name in self.functions:
                inside = self.functions[name]
                returned = self.returned.get(inside, [])
                value = returned[0].value if len(returned) == 1 else None
                if isinstance(value, ast.Name) and (found := self._value(value.id, inside, returned[0].lineno)):
                    value = found[0]
                if isinstance(value, ast.Dict):
                    return self._row(value, inside, True)
                if isinstance(value, ast.Name) and (set_items := self.items.get((inside, value.id))):
                    keys: list[ast.expr | None] = [ast.Constant(value=key) for key in set_items]
                    return self._row(ast.Dict(keys=keys, values=list(set_items.values())), inside, False)
        return None

    def _row(self, row: ast.Dict, owner: Function | None, whole: bool) -> Rows:
        named = {k.value: v for k, v in zip(row.keys, row.values, strict=True) if isinstance(k, ast.Constant)}
        words = frozenset(key for key in named if isinstance(key, str))
        form = self._form(named["prompt"], owner, 0) if "prompt" in named else ""
        return Rows(words, whole and len(words) == len(row.keys), form)

    def _form(self, node: ast.expr, owner: Function | None, depth: int) -> Form:
        """Return the form of the prompt that an expression creates; empty if ambiguous."""
        match node:
            case ast.Name(id=name) if depth < DEEPEST:
                found = self._value(name, owner, 1 << 30)
                return "" if found is None else self._form(found[0], found[1], depth + 1)
            case ast.List(elts=[ast.Dict(keys=keys), *_]):
                return "messages" if "role" in {k.value for k in keys if isinstance(k, ast.Constant)} else ""
            case ast.Call(func=ast.Attribute(attr="apply_chat_template"), keywords=given):
                plain = any(k.arg == "tokenize" and getattr(k.value, "value", None) is False for k in given)
                return "templated" if plain else ""
            case ast.Constant(value=str()) | ast.JoinedStr():
                return self._written(node, owner)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                parts = {self._form(part, owner, depth + 1) for part in (left, right)}
                return next((form for form in ("templated", "messages", "text") if form in parts), "")
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()) | ast.Name() as text, attr="format")):
                return self._form(text, owner, depth + 1)
        return ""

    def _written(self, node: ast.expr, owner: Function | None) -> Form:
        """Return ``templated`` if a part contains tokens of a chat template, or comes from a call or an unknown name;
        otherwise ``text``."""
        rows = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Subscript)}
        for part in ast.walk(node):
            value: ast.AST = part
            if isinstance(part, ast.Name) and id(part) not in rows:
                held = self._value(part.id, owner, 1 << 30)
                value = part if held is None else held[0]
            if isinstance(value, ast.Call) or (isinstance(value, ast.Name) and id(value) not in rows):
                return "templated"
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and _TEMPLATE.search(value.value):
                return "templated"
        return "text"


def reads_as(function: Function) -> Form:
    """Return the form in which a reward function reads completions: messages or text; empty if it reads both forms or
    neither.

    For functions that check types or catch errors, the result is empty.
    """
    every = list(ast.walk(function))
    if any(isinstance(n, ast.Try) or (isinstance(n, ast.Call) and name_of(n.func) in _ASKS) for n in every):
        return ""
    each = {name for n in every if isinstance(n, ast.For | ast.comprehension) for name in _each(n)}
    forms: set[Form] = set()
    for node in every:
        match node:
            case ast.Subscript(
                value=ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int())),
                slice=ast.Constant(value="content"),
            ) if name in each:
                forms.add("messages")
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in each:
                forms.add("text" if method in _OF_TEXT else "")
            case ast.Call(func=ast.Attribute(attr="search" | "match" | "findall" | "fullmatch"), args=args):
                forms |= {"text" for a in args if isinstance(a, ast.Name) and a.id in each}
    return forms.pop() if len(forms) == 1 else ""


_ASKS = frozenset(("isinstance", "type", "hasattr", "str"))
_OF_TEXT = frozenset("strip split lower upper find startswith endswith replace splitlines lstrip rstrip".split())


def _each(loop: ast.For | ast.comprehension) -> list[str]:
    """Return the variables of a loop that contain the items of ``completions``, even if the loop uses ``zip`` or
    ``enumerate``."""
    match loop.iter, loop.target:
        case ast.Name(id="completions"), ast.Name(id=name):
            return [name]
        case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name(id="completions"), *_]), ast.Tuple(
            elts=[_, ast.Name(id=name)]
        ):
            return [name]
        case ast.Call(func=ast.Name(id="zip"), args=zipped), ast.Tuple(elts=names):
            pairs = zip(zipped, names, strict=False)
            return [n.id for z, n in pairs if name_of(z) == "completions" and isinstance(n, ast.Name)]
    return []


def _is_main(node: ast.stmt) -> bool:
    """Return whether a statement is ``if __name__ == "__main__"``."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and name_of(node.test.left) == "__name__"


def _words(node: ast.expr) -> list[str] | None:
    """Return a literal string or list of strings as a list, and None for any other expression."""
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    words = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return words if len(words) == len(items) else None
