"""Collects the definitions of a script, statement by statement: values, options, fields, and dictionaries with their
changes.

The script is not executed. The module `definitions` resolves names with them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from .modules import as_dict, name_of, walk

CONFIGURES = re.compile(
    r"(?:(?:GRPO|PPO|RLOO|GSPO|DAPO|OnlineDPO|ReinforcePlusPlus|RL)\w*(?:Config|Args|Arguments))$|RLHFArguments$"
)
"""Names of classes that configure reinforcement learning."""
OWN = "own"
NUMERICAL = 1e-4
"""Value below which a function's ``epsilon`` is only a constant that avoids a division by 0. Sequence-level clip bounds
are larger."""
BRANCHES = 1_000
"""Maximum number of branches per script. Further branches count as executed."""
ELSEWHERE = re.compile(r"(?i)eval|valid|test|infer|judge|teacher|sft|dpo|reward_model|critic|demo")
"""Words in the names of functions, classes and dictionaries whose settings do not configure training."""


_IS_MAIN = re.compile(r"\b__name__\b")


class Branch(NamedTuple):
    """The lines of a branch, its condition (an expression; None without a condition), and the value of the condition
    for which the branch runs."""

    first: int
    last: int
    test: ast.expr | None
    wanted: bool


class Change(NamedTuple):
    """An entry that is added to a named dictionary. If ``key`` is None, all items of the value are added.

    ``least`` is true if the change does not replace an existing entry.
    """

    line: int
    inside: str
    key: str | None
    value: ast.expr
    least: bool = False


class Symbols:
    """The definitions in the syntax trees of a script and its imported modules. Line numbers in imported modules are
    0."""

    def __init__(self, trees: list[ast.Module], text: str, path: Path | None) -> None:
        self.text, self.trees, self.path = text, trees, path
        self.said: dict[str, object] = {}  # options that the caller passes
        self.values: dict[str, list[tuple[int, ast.expr]]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.options: dict[str, tuple[ast.expr, int]] = {}
        self.asked: dict[str, int] = {}
        self.attributes: list[tuple[str, str, ast.expr, int]] = []
        self.calls: list[tuple[str, ast.Call]] = []
        self.dicts: list[tuple[str, ast.Dict]] = []
        self.members: list[tuple[str, ast.expr, int]] = []
        self.changes: dict[str, list[Change]] = {}
        self.branches: list[Branch] = []
        self.defaults: list[tuple[str, str, ast.expr, int]] = []
        self.lists: list[ast.List] = []
        self.keyed: dict[str, list[ast.expr]] = {}
        self.origins: dict[str, str] = {}
        self.modules: set[str] = set()
        self.named: dict[str, int] = {}
        self.opened: dict[str, ast.expr] = {}
        self.nested: dict[str, list[str]] = {}
        self.classes: dict[str, list[tuple[str, ast.expr, int]]] = {}
        self.within: dict[ast.Call, str] = {}
        self.parameters: dict[str, list[tuple[str, ast.expr]]] = {}
        self.also: dict[str, str] = {}
        self.returned: dict[str, list[ast.expr]] = {}
        self.ordered: dict[str, list[str]] = {}
        self.loops: dict[str, ast.expr] = {}
        self.pairs: dict[str, tuple[str, ast.expr]] = {}
        self.takers: dict[str, set[str]] = {}
        for tree in self.trees:
            for node, inside in walk(tree):
                self._take(node, inside)

    def _take(self, node: ast.AST, inside: str) -> None:
        match node:
            case ast.expr():
                self._expression(node, inside)
            case ast.For() | ast.If() | ast.Try() | ast.Match() | ast.With():
                self._flow(node)
            case _:
                self._definition(node, inside)

    def _definition(self, node: ast.AST, inside: str) -> None:
        """Collect assignments, imports, classes and functions."""
        match node:
            case ast.Assign():
                for target in node.targets:  # several targets, as in ``config["lr"] = lr = 1e-6``
                    self._assigned(target, node, inside)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self.values.setdefault(name, []).append((node.lineno, value))
                if not ELSEWHERE.search(inside):
                    self._member(name, value, node.lineno, inside)
            case ast.AnnAssign(annotation=ast.Name(id=name)) if inside.startswith("class "):
                self.nested.setdefault(inside.removeprefix("class "), []).append(name)
            case ast.ClassDef(name=name):
                self.origins[name] = OWN
            case ast.Import(names=names):
                self.modules.update((alias.asname or alias.name).split(".")[-1] for alias in names)
                self.origins.update((alias.asname or alias.name, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names):
                self.modules.update(alias.asname or alias.name for alias in names)
                self.origins.update((alias.asname or alias.name, module or OWN) for alias in names)
                self.named.update((alias.name, node.lineno) for alias in names if node.lineno)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._parameters(node)
                owner = inside.removeprefix("class ") if node.name == "__init__" else node.name
                self.ordered[owner] = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg != "self"]
            case ast.Return(value=ast.expr() as value) if inside:
                self.returned.setdefault(inside, []).append(value)
            case ast.AugAssign(target=ast.Name(id=owner), op=ast.BitOr(), value=value):
                self._change(owner, Change(node.lineno, inside, None, value))

    def _flow(self, node: ast.AST) -> None:
        """Collect the loops, branches and opened files in a statement."""
        match node:
            case ast.For(target=ast.Name(id=name)):
                self.loops[name] = node.iter
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=value)]),
                iter=ast.Call(func=ast.Attribute(value=whole, attr="items")),
            ):
                self.pairs[key] = value, whole
            case ast.If(test=test) if not _IS_MAIN.search(ast.unparse(test)):
                self._branch(node.body, test)
                self._branch(node.orelse, test, wanted=False)
            case ast.Try(handlers=handlers):
                for handler in handlers:
                    self._branch(handler.body, None)
            case ast.Match(cases=cases):
                for one in cases:
                    self._branch(one.body, None)
            case ast.With(items=[ast.withitem(ast.Call(args=[path, *_]), ast.Name(id=handle))]):
                self.opened |= dict.fromkeys(_filled_from(handle, node.body), path)

    def _expression(self, node: ast.expr, inside: str) -> None:
        match node:
            case ast.Call():
                self._call(node, inside)
            case ast.List(elts=[_, _, _, *_]):
                self.lists.append(node)
            case ast.Dict() if not ELSEWHERE.search(inside):
                self._dictionary(inside, node)

    def _call(self, node: ast.Call, inside: str) -> None:
        name = name_of(node.func)
        if name in ("add_argument", "option"):
            self._option(node)
        elif name.startswith("DEFINE_"):
            self._flag(node)
        elif not ELSEWHERE.search(inside) or CONFIGURES.search(name):
            self.calls.append((name, node))
            self.within[node] = inside
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            self._called(node.func.value.id, node, inside)
        if name in MAPPINGS and not ELSEWHERE.search(inside):
            self._dictionary(inside, as_dict(node))

    def _assigned(self, target: ast.expr, node: ast.Assign, inside: str) -> None:
        match target:
            case ast.Name(id=name):
                self.values.setdefault(name, []).append((node.lineno, node.value))
                if not ELSEWHERE.search(name) and not ELSEWHERE.search(inside):
                    self._member(name, node.value, node.lineno, inside)
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=part), attr=last):
                self.attributes.append((owner, f"{part}.{last}", node.value, node.lineno))
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                self.attributes.append((owner, attribute, node.value, node.lineno))
                if owner == "self" and inside == "__init__":
                    self.fields.setdefault(attribute, []).append(node.value)
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(key))):
                self._change(owner, Change(node.lineno, inside, key, node.value))
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Name(id=key)) if key in self.pairs:
                # copies some or all items of another mapping: ``for k, v in given.items(): owner[k] = v``
                named, whole = self.pairs[key]
                plain = isinstance(node.value, ast.Name) and node.value.id == named
                self._change(owner, Change(node.lineno, inside, None, whole if plain else node.value))
            case ast.Subscript(value=ast.Name(id=owner)):
                self._change(owner, Change(node.lineno, inside, None, target))

    def _change(self, owner: str, change: Change) -> None:
        self.changes.setdefault(owner, []).append(change)

    def _called(self, owner: str, call: ast.Call, inside: str) -> None:
        """Collect the changes in ``owner.update(…)`` and ``owner.setdefault(…)``."""
        match name_of(call.func), call.args:
            case "update", given:
                for value in (*given, as_dict(call)):
                    self._change(owner, Change(call.lineno, inside, None, value))
            case "setdefault", [ast.Constant(value=str(key)), value]:
                self._change(owner, Change(call.lineno, inside, key, value, least=True))

    def _branch(self, body: list[ast.stmt], test: ast.expr | None, wanted: bool = True) -> None:
        if body and body[0].lineno and len(self.branches) < BRANCHES:
            self.branches.append(Branch(body[0].lineno, body[-1].end_lineno or body[-1].lineno, test, wanted))

    def _dictionary(self, inside: str, node: ast.Dict) -> None:
        self.dicts.append((inside, node))
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.keyed.setdefault(key.value, []).append(value)

    def _member(self, name: str, value: ast.expr, line: int, inside: str) -> None:
        value = _default_of_field(value)
        if inside.startswith("class "):
            self.fields.setdefault(name, []).append(value)
            self.classes.setdefault(inside.removeprefix("class "), []).append((name, value, line))
        self.members.append((name, value, line))

    def _parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Collect the defaults of a function's parameters."""
        given = function.args
        if given.kwarg is not None:
            self.takers.setdefault(given.kwarg.arg, set()).add(function.name)
        every = [*given.posonlyargs, *given.args]
        plain = list(zip(every[len(every) - len(given.defaults) :], given.defaults, strict=True))
        for argument, value in (*plain, *zip(given.kwonlyargs, given.kw_defaults, strict=True)):
            if value is None:
                continue
            default = _default_of_field(value)
            self.parameters.setdefault(argument.arg, []).append((function.name, default))
            nothing = isinstance(default, ast.Constant) and _is_placeholder(argument.arg, default.value)
            if not ELSEWHERE.search(function.name) and argument.arg != "k" and not nothing:  # ``k`` may count lookups
                self.defaults.append((function.name, argument.arg, default, value.lineno))

    def _flag(self, call: ast.Call) -> None:
        """Collect an absl option, such as ``DEFINE_integer("k", 8, "…")``."""
        match call.args:
            case [ast.Constant(value=str(name)), value, *_]:
                self._offer(name, value, call.lineno)

    def _option(self, call: ast.Call) -> None:
        """Collect an option, such as ``add_argument("--k", default=8)``."""
        names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        given = {k.arg: k.value for k in call.keywords}
        named = next((n.lstrip("-").replace("-", "_") for n in names if n.startswith("--")), "")
        destination = given.get("dest")
        if isinstance(destination, ast.Constant) and isinstance(destination.value, str):
            named = destination.value
        self.asked.setdefault(named, call.lineno)
        self.also.update((n.lstrip("-").replace("-", "_"), named) for n in names if n.startswith("--"))
        action = given.get("action")
        if named and "default" in given:
            self._offer(named, given["default"], call.lineno)
        elif named and isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
            self._offer(named, ast.Constant(value=action.value == "store_false"), call.lineno)

    def _offer(self, name: str, value: ast.expr, line: int) -> None:
        """Add an option. An option from an imported module (line 0) does not replace an option of the script."""
        if line or name not in self.options:
            self.options[name] = (value, line)


def _filled_from(handle: str, body: list[ast.stmt]) -> list[str]:
    """Return the names to which the content of a file is assigned, as in ``cfg = yaml.safe_load(f)``."""
    return [
        target.id
        for line in body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)
        if any(isinstance(argument, ast.Name) and argument.id == handle for argument in line.value.args)
        for target in line.targets
        if isinstance(target, ast.Name)
    ]


def _default_of_field(value: ast.expr) -> ast.expr:
    """Return the default of a field, which is 8 for ``field(default=8)`` and ``Option(8)``."""
    if isinstance(value, ast.Call) and name_of(value.func) in _FIELDS:
        first = value.args[0] if value.args else value
        return next((k.value for k in value.keywords if k.arg == "default"), first)
    return value


MAPPINGS = frozenset("dict SimpleNamespace Namespace EasyDict DictConfig ConfigDict Munch".split())
"""Names of calls whose keyword arguments are the items of a mapping."""
_FIELDS = frozenset("field Field Option Argument ib attrib Factory HfArg".split())
"""Names of calls that declare the default of a field or an option, in dataclasses, pydantic, attrs and typer."""


def _is_placeholder(name: str, value: object) -> bool:
    """Return whether a parameter's default is not a setting. A switch, an index, or a number that avoids a division by
    0 is not a setting."""
    return (type(value) is int and value <= 1) or (
        name in ("eps", "epsilon") and isinstance(value, float) and value < NUMERICAL
    )
