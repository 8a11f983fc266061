"""Reads a training script as a sequence of statements, and executes the statements that create the requested objects.

The sequence ends at the first ``backward``. It includes the block under ``if __name__``, the called functions of the
trainer (with their parameters), and the first iteration of each loop. Only statements on which the requested names
depend are run, so nothing is trained.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..report.redaction import one_line
from .entry_points import AdapterError

Function = ast.FunctionDef | ast.AsyncFunctionDef

_CONFIGURES = frozenset(
    "add_argument add_special_tokens add_tokens append bfloat16 cpu cuda enable_input_require_grads eval extend float "
    "freeze gradient_checkpointing_disable gradient_checkpointing_enable half makedirs mkdir requires_grad_ "
    "resize_token_embeddings set_defaults setdefault to update".split()
)
"""Methods that only change the object on which they are called, or that create a folder."""


class Own(NamedTuple):
    """A function of the trainer, in the script or in a file that it imports."""

    node: Function
    file: Path


class Statement(NamedTuple):
    """One statement of the sequence."""

    node: ast.stmt
    file: Path
    in_loop: bool = False


class Loop(NamedTuple):
    """A training loop, or a statement that calls a method that contains a training loop."""

    node: ast.stmt
    file: Path
    start: int
    """The number of statements of the sequence that precede the loop."""
    before: tuple[int, ...] = ()
    """The statements of the sequence that belong to every pass of the loop: those that sample its responses, if the
    loop does not sample itself, and those that create the lists and buffers that a pass fills."""


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file. Raises `AdapterError` if the file is unreadable or not Python."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
        compile(tree, str(path), "exec", dont_inherit=True)  # also detects errors such as duplicate parameters
    except OSError as error:
        raise AdapterError(f"{path}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AdapterError(f"{path}: not valid Python: {one_line(str(error))}") from None
    return tree


def roots(path: Path) -> list[Path]:
    """Return the folders from which a file may import: its own folder, the three folders above it, and their ``src``
    folders."""
    above = [path.absolute().parent, *list(path.absolute().parents)[1:4]]
    return [root for folder in above for root in (folder, folder / "src")]


def imported(path: Path, tree: ast.Module) -> dict[Path, str]:
    """Return the trainer's own files that a Python file imports, with the names of the modules."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            within = _package(path).split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join(filter(None, [*within, node.module]))
            names += [base, *(f"{base}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names += [a.name for a in node.names]
    plain = [name.strip(".") for name in names if name.strip(".")]
    ends = (".py", "/__init__.py")
    pairs = ((root / (name.replace(".", "/") + end), name) for name in plain for root in roots(path) for end in ends)
    return {file: name for file, name in reversed([*pairs]) if os.path.isfile(file) and file != path.absolute()}


class Script:
    """A trainer's script, with the trainer's other files that it imports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trees: dict[Path, ast.Module] = {path: parsed(path)}
        self.modules: dict[Path, str] = {}
        """The names of the imported modules."""
        left = [path]
        while left:
            file = left.pop(0)
            for other, name in imported(file, self.trees[file]).items():
                if other not in self.trees and len(self.trees) < MOST:
                    try:
                        self.trees[other] = parsed(other)
                    except AdapterError:
                        continue  # the trainer itself cannot import this file either
                    self.modules[other] = name
                    left.append(other)
        self._name_star_imports()
        self.functions: dict[str, Own] = {}
        self.methods: dict[str, Function] = {}
        """The methods of the trainer's classes, as ``Class.method``."""
        for file, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, Function):
                    self.functions.setdefault(node.name, Own(node, file))
                elif isinstance(node, ast.ClassDef):
                    own = {f"{node.name}.{f.name}": f for f in node.body if isinstance(f, Function)}
                    self.methods = own | self.methods
        self._kinds: dict[str, set[str]] = {"self": {name.partition(".")[0] for name in self.methods}}
        """The classes of which a variable or an attribute may be an instance."""
        for n in (n for tree in self.trees.values() for n in ast.walk(tree) if isinstance(n, ast.Assign)):
            kind = getattr(n.value.func, "id", "") if isinstance(n.value, ast.Call) else ""
            for name in (_variable(t) for t in n.targets if kind in self._kinds["self"]):
                self._kinds.setdefault(name, set()).add(kind)
        self.training = self._leading(_trains)
        self.sampling = self._leading(_samples)
        self.line: list[Statement] = []
        self.loops: list[Loop] = []
        """The training loops that the sequence has entered, outermost first."""
        if not self._add_until_backward(self.trees[path].body, path):
            self._enter_uncalled()
        self._find_passes()

    def _find_passes(self) -> None:
        """Find the statements before each loop that belong to its passes."""
        self.loops = [loop._replace(before=self._before(loop)) for loop in self.loops]
        for n in {n for loop in self.loops for n in loop.before}:
            self.line[n] = self.line[n]._replace(in_loop=True)

    def _name_star_imports(self) -> None:
        """Replace ``*`` by the names that are imported from the trainer's own files."""
        files = {name: file for file, name in self.modules.items()}
        for tree in self.trees.values():
            for node in (n for n in tree.body if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"):
                if (file := files.get(node.module or "")) is not None:
                    names = {n for s in self.trees[file].body for n in writes(s) if not n.startswith("_")}
                    node.names = [ast.alias(n) for n in sorted(names - {"*"})] or node.names

    def _leading(self, direct: Callable[[ast.AST], bool]) -> set[str]:
        """Return the names of the functions and methods that contain a node for which ``direct`` is true, or that call
        such a function or method."""
        every = {**{name: own.node for name, own in self.functions.items()}, **self.methods}
        found: set[str] = set()
        while more := {name for name, n in every.items() if name not in found and self._called(n, found, direct)}:
            found |= more
        return found

    def _called(
        self, node: ast.AST, leading: Iterable[str], direct: Callable[[ast.AST], bool] | None = None
    ) -> list[str]:
        """Return the functions among ``leading`` that code uses, and "" for each method among them and for each node
        for which ``direct`` is true. By default, the functions are those that train."""
        direct = direct or _trains
        modules = {name.rpartition(".")[2] for name in self.modules.values()}
        found = []
        for n in ast.walk(node):
            attribute = n.attr if isinstance(n, ast.Attribute) else ""
            kinds = self._kinds.get(_variable(n.value), ()) if isinstance(n, ast.Attribute) else ()
            if direct(n) or any(f"{kind}.{attribute}" in leading for kind in kinds):
                found.append("")
            elif attribute in leading and isinstance(n.value, ast.Name) and n.value.id in modules:  # type: ignore[attr-defined]
                found.append(attribute)
            elif isinstance(n, ast.Name) and n.id in leading and isinstance(n.ctx, ast.Load):
                found.append(n.id)
        return found

    def samples(self, node: ast.AST) -> bool:
        """Return whether code generates responses, directly or through calls of the trainer's functions."""
        return bool(self._called(node, self.sampling, _samples))

    def _before(self, loop: Loop) -> tuple[int, ...]:
        """Return the statements before a loop that belong to every pass of the loop."""
        own: list[int] = []
        if not self.samples(loop.node):
            used = self.needed(read_before(loop.node), end=loop.start)
            first = next((n for n, s in enumerate(self.line[: loop.start]) if s in used and self.samples(s.node)), None)
            own = [] if first is None else self._after(first, loop.start)
        nodes = [*(self.line[n].node for n in own), loop.node]
        full = set().union(*map(_filled, nodes))
        fresh = [
            n
            for n, s in enumerate(self.line[: loop.start])
            if n not in own and writes(s.node) & full and isinstance(getattr(s.node, "value", None), _CONTAINERS)
        ]
        return tuple(sorted([*own, *fresh]))

    def _after(self, first: int, end: int) -> list[int]:
        """Return a statement and the later statements that depend on it or change what it creates."""
        found, made = [], set[str]()
        for n in range(first, end):
            node = self.line[n].node
            if n == first or (reads(node) | _filled(node)) & made:
                found.append(n)
                made |= writes(node) | _filled(node)
        return found

    def _enter_uncalled(self) -> None:
        """Follow the last training function of the script if no code at the top level of the script calls a training
        function."""
        own = [n for n in self.training & self.functions.keys() if self.functions[n].file == self.path]
        last = max(own, key=lambda n: self.functions[n].node.lineno, default=None)
        if last is not None:
            self._enter(last, None)

    def _add_until_backward(self, body: list[ast.stmt], file: Path) -> bool:
        """Add statements to the sequence up to the first backward pass; return whether there is a backward pass."""
        for node in body:
            main = isinstance(node, ast.If) and "__name__" in {
                n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)
            }
            defines = isinstance(node, Function | ast.ClassDef)
            if not main and (defines or not self._called(node, self.training)):
                self._add(node, file)
            elif isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
                start = len(self.line)
                if isinstance(node, ast.For):
                    first = ast.parse("next(iter(_))", mode="eval").body
                    first.args[0].args[0] = node.iter  # type: ignore[attr-defined]
                    self._add(_assignment(node.target, first, node), file)
                if isinstance(node, ast.For | ast.While):
                    self.loops.append(Loop(node, file, start))
                if self._add_until_backward(node.body, file):
                    return True
            else:
                names = [n for n in self._called(node, self.training) if n in self.training]
                name = next((n for n in names if n in self.sampling), next(iter(names), None))
                if name is not None:
                    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
                    self._enter(name, next((c for c in calls if ast.unparse(c.func).endswith(name)), None))
                if not self.loops:
                    self.loops.append(Loop(node, file, len(self.line)))
                return True
        return False

    def _add(self, node: ast.stmt, file: Path) -> None:
        self.line.append(Statement(node, file, bool(self.loops)))

    def _enter(self, name: str, call: ast.Call | None) -> None:
        """Add a called function to the sequence, with its parameters."""
        own = self.functions[name]
        if any(s.node is own.node.body[0] for s in self.line):
            return
        if own.file != self.path:
            loaded = {n.id for n in ast.walk(own.node) if isinstance(n, ast.Name)}
            names = sorted(loaded & {n for s in self.trees[own.file].body for n in writes(s)})
            aliases = [ast.alias(n) for n in names]
            self._add(_located(ast.ImportFrom(self.modules[own.file], aliases, 0), own.node), own.file)
        for parameter, value in bound(own.node, call).items():
            if getattr(value, "id", None) != parameter:
                self._add(_assignment(ast.Name(parameter, ast.Store()), value, own.node), own.file)
        self._add_until_backward(own.node.body, own.file)

    def preceding(self, loop: Loop, names: Iterable[str], given: Iterable[str] = ()) -> list[Statement]:
        """Return the statements that create what a loop and these names need, without those that every pass of the
        loop executes."""
        own = [self.line[n] for n in loop.before]
        read = set().union(read_before(loop.node), *(reads(s.node) for s in own))
        return [s for s in self.needed({*names, *read}, given, loop.start) if s not in own]

    def needed(self, names: Iterable[str], given: Iterable[str] = (), end: int | None = None) -> list[Statement]:
        """Return the statements, among the first ``end``, on which these names depend. Statements that only create
        given objects are excluded."""
        wanted, have, taken = set(names), set(given), set[int]()
        while True:
            more = {
                n
                for n, s in enumerate(self.line[:end])
                if n not in taken and (writes(s.node) & (wanted - have) or _configured(s.node) & wanted)
            }
            if not more:
                return [s for n, s in enumerate(self.line) if n in taken]
            taken |= more
            wanted |= {name for n in more for name in reads(self.line[n].node)}

    def lacks(self, *names: str) -> set[str]:
        """Return the dependencies of these names that the sequence does not create, such as an argument of ``main``."""
        wanted = {n for s in self.needed(names) for n in reads(s.node)} | set(names)
        made = {n for s in self.line for n in writes(s.node)} | vars(builtins).keys()
        return wanted - made - {"__file__", "__name__"}

    def values(self) -> dict[str, ast.expr | None]:
        """Return the names that statements of the sequence assign, including names that both branches of a condition
        assign. Each name has its last value, or None if it has no single value."""
        found: dict[str, ast.expr | None] = {}
        for statement in self.line:
            node = statement.node
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            single = isinstance(node, ast.AnnAssign) or (
                isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            )
            if isinstance(node, ast.Assign | ast.AnnAssign) and not (
                isinstance(value, ast.Constant) and value.value is None
            ):
                found |= dict.fromkeys(writes(node), value if single else None)
            elif isinstance(node, ast.If):
                either = (set[str]().union(*map(writes, branch)) for branch in (node.body, node.orelse))
                found |= dict.fromkeys(set.intersection(*either))
        return found


_CONTAINERS = ast.List | ast.Dict | ast.Tuple | ast.Call

_FILLS = frozenset("append appendleft extend push put store".split())
"""Methods that add samples to a list or a buffer."""


def _trains(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr.endswith("backward")


def _samples(node: ast.AST) -> bool:
    """Return whether code is a call that draws tokens. A ``sample`` with arguments draws from training data."""
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else ""
    bare = isinstance(node, ast.Call) and not node.args and not node.keywords
    return name in ("generate", "multinomial") or (name == "sample" and bare)


def _filled(node: ast.AST) -> set[str]:
    """Return the names of lists and buffers to which code adds elements."""
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return {f.value.id for f in called if f.attr in _FILLS and isinstance(f.value, ast.Name)}


_CLOSED = Function | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
"""Code with its own local names."""

MOST = 40
"""Maximum number of the trainer's files that are read."""


def bound(node: Function, call: ast.Call | None) -> dict[str, ast.expr]:
    """Return the arguments of a call by parameter, and the defaults of all other parameters."""
    given = [*node.args.posonlyargs, *node.args.args]
    defaults = list(node.args.defaults)
    found = {a.arg: d for a, d in zip(given[len(given) - len(defaults) :], defaults, strict=True)}
    found |= {a.arg: d for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None}
    if call is not None and not any(isinstance(a, ast.Starred) for a in call.args):
        names = [a.arg for a in given if a.arg not in ("self", "cls")]
        found |= dict(zip(names, call.args, strict=False))
        found |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    return found


def writes(node: ast.AST) -> set[str]:
    """Return the names that a statement assigns or defines."""
    if isinstance(node, Function | ast.ClassDef):
        return {node.name}
    found = {n.id for n in _outside_functions(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for n in _outside_functions(node):
        if isinstance(n, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).split(".")[0] for a in n.names}
        elif isinstance(n, Function | ast.ClassDef):
            found.add(n.name)
    return found


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, except nodes inside functions and comprehensions."""
    yield node
    if not isinstance(node, _CLOSED):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


def reads(node: ast.AST) -> set[str]:
    """Return the names from outside a statement that it uses, including the names that its definitions use."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, ast.arg):
        return set()  # annotations are not evaluated
    if isinstance(node, ast.AugAssign):
        return reads(node.value) | writes(node.target) | reads(node.target)
    found: set[str] = set().union(*(reads(child) for child in ast.iter_child_nodes(node)))
    if isinstance(node, ast.ClassDef) or not isinstance(node, _CLOSED):
        return found
    parameters = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    return found - parameters - {n for child in ast.iter_child_nodes(node) for n in writes(child)}


def read_before(node: ast.stmt) -> set[str]:
    """Return the names from outside a statement that it uses, except names that it binds before it uses them."""
    if not isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
        return reads(node)
    heads: list[ast.AST] = [getattr(node, name) for name in ("test", "iter") if hasattr(node, name)]
    bound: list[ast.AST] = [node.target] if isinstance(node, ast.For) else []
    for item in getattr(node, "items", ()):
        heads.append(item.context_expr)
        bound += [item.optional_vars] if item.optional_vars else []
    branches = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
    branches += [handler.body for handler in getattr(node, "handlers", ())]
    first = set[str]().union(*(_read_in(branch) for branch in branches)) - set[str]().union(*map(writes, bound))
    return first.union(*map(reads, heads))


def _read_in(body: list[ast.stmt]) -> set[str]:
    """Return the names that a block uses before it binds them."""
    found, known = set[str](), set[str]()
    for node in body:
        found |= read_before(node) - known
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom | Function | ast.ClassDef):
            known |= writes(node)
        elif isinstance(node, ast.With):
            known |= set[str]().union(*(writes(s) for s in node.body if isinstance(s, ast.Assign | ast.AnnAssign)))
    return found


def _configured(node: ast.stmt) -> set[str]:
    """Return the names of objects that a statement changes by assigning an attribute or by calling a method that
    configures the object, or that adds elements to it."""
    if isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
        inner = set[str]().union(*(_configured(statement) for statement in (*node.body, *getattr(node, "orelse", ()))))
        each = writes(node.target) if isinstance(node, ast.For) else set[str]()
        return (inner - each) | (reads(node.iter) if isinstance(node, ast.For) and inner & each else set[str]())
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {_root(t) for t in targets if isinstance(t, ast.Attribute | ast.Subscript)} - {""}
    value = node.value if isinstance(node, ast.Expr) else None
    called = value.func if isinstance(value, ast.Call) else None
    configures = isinstance(called, ast.Attribute) and called.attr in _CONFIGURES
    return {_root(called)} - {""} if configures and called is not None else set()


def _variable(node: ast.expr) -> str:
    """Return the name of a variable or of an attribute."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _root(node: ast.expr) -> str:
    """Return the name with which a chain of attributes, subscripts and calls begins, or an empty string."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _assignment(target: ast.expr, value: ast.expr, where: ast.AST) -> ast.stmt:
    return _located(ast.Assign([target], value), where)


def _located(node: ast.stmt, where: ast.AST) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(node, where))


def _package(path: Path) -> str:
    """Return the name of the package that contains a file, or an empty string."""
    names = []
    for folder in path.absolute().parents:
        if not (folder / "__init__.py").exists():
            break
        names.append(folder.name)
    return ".".join(reversed(names))


def trainer_parts(path: str | Path, *names: str, **given: Any) -> ModuleType:
    """Execute the statements of a training script that create these names, and return a module that contains them.

    Objects in ``given`` replace the script's own. For example, ``trainer_parts("train.py", "optimizer", model=small)``
    does not load a model. The script gets no command-line arguments.
    """
    script = Script(Path(path))
    return execute(script, script.needed(names, given), given)


class _Unreturned(ast.NodeTransformer):
    """Replaces each ``return`` of a statement by another statement."""

    def __init__(self, instead: str) -> None:
        self.instead = instead

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return _located(ast.parse(self.instead).body[0], node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node


def unreturned(node: ast.stmt, instead: str) -> ast.Module:
    """Return a module with a copy of a statement, in which ``instead`` replaces every ``return`` of the enclosing
    function."""
    return ast.fix_missing_locations(ast.Module([_Unreturned(instead).visit(copy.deepcopy(node))], []))


def execute(
    script: Script,
    statements: Iterable[Statement],
    given: Mapping[str, Any],
    edit: Callable[[ast.Module], ast.Module] = lambda tree: tree,
) -> ModuleType:
    """Execute statements of a script in a new module that contains the given objects."""
    module = ModuleType(f"parts_of_{script.path.stem}")
    sys.modules[module.__name__] = module
    found = [str(root) for root in roots(script.path) if root.is_dir() and str(root) not in sys.path]
    sys.path[:0] = found[:1]  # the script's own folder comes first, as with `python train.py`
    sys.path += found[1:]
    vars(module).update(given, __file__=str(script.path), __package__=_package(script.path))
    arguments, sys.argv = sys.argv, [str(script.path)]
    try:
        for statement in statements:
            tree = edit(unreturned(statement.node, "raise RuntimeError('the script ends before it trains')"))
            flags = __future__.annotations.compiler_flag
            exec(compile(tree, str(statement.file), "exec", flags, dont_inherit=True), vars(module))
    finally:
        sys.argv = arguments
    return module
