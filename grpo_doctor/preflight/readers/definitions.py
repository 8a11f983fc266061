"""What a script defines: values, options, fields and dictionaries, and what a name or an item of one stands for.

Nothing is run: a name is followed to the expression that it was given, in the script, in the modules beside it, or in
a configuration that the script loads.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from pathlib import Path

from ...sources import ReadError
from ..entry import Entry, Launch
from ..expression import evaluate
from .beside import beside, text_of
from .document import read_document
from .modules import as_dict, is_dict, name_of, walk

CONFIGURES = re.compile(
    r"(?:(?:GRPO|PPO|RLOO|GSPO|DAPO|OnlineDPO|ReinforcePlusPlus|RL)\w*(?:Config|Args|Arguments))$|RLHFArguments$"
)
"""Calls that configure reinforcement learning."""
PATIENCE = 500
"""Names that are looked up for one setting at most: names can stand for names without end."""
CALLS = 2_000
"""Calls of a script in which the value of a parameter is looked for."""
OWN = "own"
SETTINGS = re.compile(r"(?i)(?:\w*_)?(?:config|cfg|args|arguments|conf|hparams|params|flags)")
"""Names of what a script keeps its settings in."""
LONGEST_PATH = 12
"""Keys of a path into a configuration at most."""
NUMERICAL = 1e-4
"""Below this a function's ``epsilon`` keeps a division from 0; bounds of whole sequences begin above it."""
LINKS = 10
"""Names that stand for each other at most."""
DOCUMENTS = 4
"""Configurations that a script may load at most."""
_LOADS = re.compile(r"yaml|OmegaConf|toml|json\.load|hydra|(?i:load_config)")
_DOCUMENT = re.compile(
    r"(?!.*(?:deepspeed|accelerate|zero\d|tokenizer|dataset|result))[\w./\-]{1,120}\.(?:ya?ml|toml|json)"
)
ELSEWHERE = re.compile(r"(?i)eval|valid|test|infer|judge|teacher|sft|dpo|reward_model|critic|demo")
"""Names of functions, classes and dictionaries whose settings are not those of the training."""


class Definitions:
    """What the trees of a script and of the modules beside it define; lines of the latter are 0."""

    def __init__(self, trees: list[ast.Module], text: str, path: Path | None) -> None:
        self.text, self.trees, self.path = text, trees, path
        self.said: dict[str, object] = {}  # by who starts it
        self.values: dict[str, list[tuple[int, ast.expr]]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.options: dict[str, tuple[ast.expr, int]] = {}
        self.asked: dict[str, int] = {}
        self.attributes: list[tuple[str, str, ast.expr, int]] = []
        self.calls: list[tuple[str, ast.Call]] = []
        self.dicts: list[tuple[str, ast.Dict]] = []
        self.members: list[tuple[str, ast.expr, int]] = []
        self.set_items: list[tuple[str, str, ast.expr, str]] = []
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
        self.returned: dict[str, list[ast.expr]] = {}
        self.ordered: dict[str, list[str]] = {}
        self.loops: dict[str, ast.expr] = {}
        self.takers: dict[str, set[str]] = {}
        self.at = self.steps = 0
        self.inside = ""
        for tree in self.trees:
            for node, inside in walk(tree):
                self._take(node, inside)

    def _take(self, node: ast.AST, inside: str) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:  # several as in ``config["lr"] = lr = 1e-6``
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
            case ast.Call():
                name = name_of(node.func)
                if name in ("add_argument", "option"):
                    self._option(node)
                elif name.startswith("DEFINE_"):
                    self._flag(node)
                elif not ELSEWHERE.search(inside) or CONFIGURES.search(name):
                    self.calls.append((name, node))
                    self.within[node] = inside
                if name in _MAPPINGS and not ELSEWHERE.search(inside):
                    self._dictionary(inside, as_dict(node))
            case ast.For(target=ast.Name(id=name)):
                self.loops[name] = node.iter
            case ast.With(items=[ast.withitem(ast.Call(args=[path, *_]), ast.Name(id=handle))]):
                self.opened |= dict.fromkeys(_filled_from(handle, node.body), path)
            case ast.List(elts=[_, _, _, *_]):
                self.lists.append(node)
            case ast.Dict() if not ELSEWHERE.search(inside):
                self._dictionary(inside, node)

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
                self.set_items.append((owner, key, node.value, inside))

    def _dictionary(self, inside: str, node: ast.Dict) -> None:
        self.dicts.append((inside, node))
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.keyed.setdefault(key.value, []).append(value)

    def meant(self) -> list[tuple[str, ast.expr, int]]:
        """Fields of classes of the modules beside it that the script itself builds, or has a parser fill in."""
        found: list[tuple[str, ast.expr, int]] = []
        seen: set[str] = set()
        waiting: list[tuple[str, int]] = []
        given: dict[str, set[str | None]] = {}
        for name, call in self.calls:
            if call.lineno:
                given.setdefault(name, set()).update(keyword.arg for keyword in call.keywords)
                named = (n.id for argument in call.args[:10] for n in ast.walk(argument) if isinstance(n, ast.Name))
                waiting += [
                    (word, call.lineno) for word in (name, *named) if word in self.classes or word in self.nested
                ]
        while waiting:
            name, line = waiting.pop(0)
            if name in seen:
                continue
            seen.add(name)
            for key, value, at in self.classes.get(name, []):
                if key not in given.get(name, ()):  # what the script passes itself is no default
                    found.append((key, value, at or line))
                waiting += [(n.id, line) for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in self.classes]
            waiting += [(inner, line) for inner in self.nested.get(name, [])]
        return found

    def _member(self, name: str, value: ast.expr, line: int, inside: str) -> None:
        value = _default_of_field(value)
        if inside.startswith("class "):
            self.fields.setdefault(name, []).append(value)
            self.classes.setdefault(inside.removeprefix("class "), []).append((name, value, line))
        self.members.append((name, value, line))

    def _parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """The defaults of a function's parameters."""
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
            nothing = isinstance(default, ast.Constant) and _says_nothing(argument.arg, default.value)
            if not ELSEWHERE.search(function.name) and argument.arg != "k" and not nothing:  # k: how many it looks up
                self.defaults.append((function.name, argument.arg, default, value.lineno))

    def _flag(self, call: ast.Call) -> None:
        """absl's ``DEFINE_integer("k", 8, "…")``."""
        match call.args:
            case [ast.Constant(value=str(name)), value, *_]:
                self._offer(name, value, call.lineno)

    def _option(self, call: ast.Call) -> None:
        """``add_argument("--k", default=8)``."""
        names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        given = {k.arg: k.value for k in call.keywords}
        named = next((n.lstrip("-").replace("-", "_") for n in names if n.startswith("--")), "")
        destination = given.get("dest")
        if isinstance(destination, ast.Constant) and isinstance(destination.value, str):
            named = destination.value
        self.asked.setdefault(named, call.lineno)
        action = given.get("action")
        if named and "default" in given:
            self._offer(named, given["default"], call.lineno)
        elif named and isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
            self._offer(named, ast.Constant(value=action.value == "store_false"), call.lineno)

    def _offer(self, name: str, value: ast.expr, line: int) -> None:
        """An option; those of the modules beside the script, whose lines are 0, change none of its own."""
        if line or name not in self.options:
            self.options[name] = (value, line)

    def lookup(self, node: ast.expr) -> ast.expr | None:
        """What a name, ``args.name``, ``CONFIG["name"]`` or ``CONFIG.get("name")`` stands for."""
        self.steps += 1
        if self.steps > PATIENCE:
            return None
        match node:
            case ast.Name(id=name):
                return self._latest(name)
            case ast.Attribute(attr=name):
                option = self.options[name][0] if name in self.options else None
                if option is not None and not _of_the_name(option, name) and not _nothing(option):
                    return option
                if isinstance(node.value, ast.Name) and node.value.id in self.modules:
                    return self._latest(name)
                kept = self._loaded(node, least=2) or agreed(self.fields.get(name, [])) or self._loaded(node)
                return kept or agreed(self._items_named(name)) or option
            case ast.Call(func=ast.Name(id=name), args=[_, *_, value]) if "env" in name.lower():
                return value  # a function of the script's own that asks the environment, with a default
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))) if owner in self.takers:
                return agreed(self._given(self.takers[owner], name))
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
                return self._item(owner, name) or self._loaded(node)
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(name)), *_]):
                return self._item(owner, name) or self._loaded(node)
        return None

    def _holds_settings(self, name: str) -> bool:
        """Whether a name was made an empty mapping of settings, as ``ppo = ConfigDict()``."""
        return any(
            isinstance(value, ast.Call) and name_of(value.func) in _MAPPINGS for _, value in self.values.get(name, ())
        )

    def _items_named(self, name: str) -> list[ast.expr]:
        return [value for value in self.keyed.get(name, []) if not _of_the_name(value, name)]

    def _loaded(self, node: ast.expr, least: int = 1) -> ast.expr | None:
        """What ``config["a"]["b"]`` or ``config.a.b`` is in a configuration that the script loads, told by so many of
        its keys at least."""
        if not self.documents:
            return None
        path = self.path_into(node)
        holder = self._document_of(node)
        for start in range(len(path) - least + 1):
            key = ".".join(path[start:])
            for document, _ in self.documents if holder is None else [(holder, 0)]:
                if key in document:
                    return ast.Constant(value=document[key].value)
        return None

    def path_into(self, node: ast.expr) -> list[str]:
        """The keys of ``config["a"].b``, those before it included where ``config`` itself is such an item."""
        path: list[str] = []
        for _ in range(LONGEST_PATH):
            match node:
                case (
                    ast.Attribute(value=inner, attr=key)
                    | ast.Subscript(value=inner, slice=ast.Constant(value=str(key)))
                ):
                    path.insert(0, key)
                case ast.Call(func=ast.Attribute(value=inner, attr="get"), args=[ast.Constant(value=str(key)), *_]):
                    path.insert(0, key)
                case ast.Name(id=name) if name in self.values:
                    inner = self.values[name][-1][1]
                case _:
                    break
            node = inner
        return path

    def _document_of(self, node: ast.expr) -> dict[str, Entry] | None:
        """The document that the name holds of which an expression takes an item, where a file was opened for it."""
        held: ast.expr | None = node
        for _ in range(LONGEST_PATH):
            match held:
                case ast.Name(id=name) if name in self.opened and self.path is not None:
                    word = evaluate(self.opened[name])
                    at = beside(self.path, word) if isinstance(word, str) else None
                    loaded = self._loads.get(at) if at is not None else None
                    return _by_key(loaded[1]) if loaded and isinstance(loaded[1], Launch) else None
                case ast.Name(id=name) if name in self.values:
                    held = self.values[name][-1][1]
                case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                    held = inner
                case _:
                    return None
        return None

    @cached_property
    def _loads(self) -> dict[Path, tuple[int, Launch | ReadError]]:
        """The configurations that it loads: the line that names each, and what it holds or why it cannot be read."""
        found: dict[Path, tuple[int, Launch | ReadError]] = {}
        for named, line in self._named_documents() if self.path else ():
            assert self.path is not None
            at = beside(self.path, named)
            if at is None or at in found or len(found) == DOCUMENTS or (text := text_of(at)) is None:
                continue
            try:
                found[at] = line, read_document(text, at, said=self.said)[0]
            except ReadError as error:
                found[at] = line, error
        return found

    @cached_property
    def documents(self) -> list[tuple[dict[str, Entry], int]]:
        """The configurations beside the script that it loads, by key, and the line that names each."""
        return [(_by_key(read), line) for line, read in self._loads.values() if isinstance(read, Launch)]

    def unread_documents(self) -> list[str]:
        """Of each configuration that it loads and that cannot be read, why."""
        return [f"{at.name} was not read: {e}" for at, (_, e) in self._loads.items() if isinstance(e, ReadError)]

    def _named_documents(self) -> list[tuple[str, int]]:
        """Paths of configurations: what options say, else what stands in the text, else what hydra is told, and what a
        module beside it opens for a name that the script imports."""
        opened = [(evaluate(self.opened[name]), line) for name, line in self.named.items() if name in self.opened]
        named: list[tuple[object, int]] = [*opened]
        if not _LOADS.search(self.text):
            return _documents_among(named)
        named += [(evaluate(value), line) for value, line in self.options.values()]
        for name, call in self.calls:
            given = {k.arg: evaluate(k.value) for k in call.keywords}
            if name in ("main", "initialize", "compose") and isinstance(given.get("config_name"), str):
                folder = given.get("config_path")
                named.append((f"{folder or '.'}/{given['config_name']}".removesuffix(".yaml") + ".yaml", call.lineno))
        named += self._paths
        return _documents_among(named)

    @cached_property
    def _paths(self) -> list[tuple[str, int]]:
        """The words of the script itself that may be the path of a document."""
        own = (node for tree in self.trees if tree.body and tree.body[0].lineno for node in ast.walk(tree))
        texts = ((_path(n), n.lineno) for n in own if isinstance(n, ast.Constant | ast.BinOp))
        return [(word, line) for word, line in texts if line and word and _DOCUMENT.fullmatch(word)]

    def _latest(self, name: str) -> ast.expr | None:
        """The value that a name was given last before the line that asks, else the first."""
        given = self.values.get(name, [])
        before = [value for line, value in given if line < self.at]
        found = before[-1] if before else given[0][1] if given else self._passed(name)
        return None if isinstance(found, ast.Name) and found.id == name else found

    def _passed(self, name: str) -> ast.expr | None:
        """What the script itself passes as a parameter of this name, else the parameter's default; if all agree."""
        passed = self._given({function for function, _ in self.parameters.get(name, [])}, name)
        return agreed([v for v in passed if not (isinstance(v, ast.Name) and v.id == name)]) or agreed(
            [value for _, value in self.parameters.get(name, [])]
        )

    def _given(self, functions: set[str], name: str) -> list[ast.expr]:
        """What the script's calls of these functions pass under a name."""
        calls = (call for function in functions for call in self._calls_of.get(function, ()))
        return [keyword.value for call in calls for keyword in call.keywords if keyword.arg == name]

    @cached_property
    def _calls_of(self) -> dict[str, list[ast.Call]]:
        """The calls of each function."""
        found: dict[str, list[ast.Call]] = {}
        for name, call in self.calls[:CALLS]:
            found.setdefault(name, []).append(call)
        return found

    def _item(self, owner: ast.expr, name: str, depth: int = 0) -> ast.expr | None:
        held = owner
        while isinstance(held, ast.Name | ast.Subscript | ast.Attribute) and depth < 10:
            step = self.lookup(held)
            if step is None or step is held:
                return None
            held, depth = step, depth + 1
        if isinstance(held, ast.Call) and is_dict(held):
            held = as_dict(held)
        if not isinstance(held, ast.Dict):
            return None
        keys = [k.value if isinstance(k, ast.Constant) else None for k in held.keys]
        return held.values[keys.index(name)] if name in keys else None

    def spread(self, node: ast.expr) -> ast.Dict | None:
        """The dictionary that ``**node`` passes on; of a name the last dictionary that it was given."""
        for _ in range(LINKS):
            match node:
                case ast.Dict():
                    return node
                case ast.Call() if is_dict(node):
                    return as_dict(node)
                case ast.Call() if len(returned := self.returned.get(name_of(node.func), [])) == 1:
                    node = returned[0]
                case ast.DictComp(
                    value=ast.Name(), generators=[ast.comprehension(iter=ast.Call(func=ast.Attribute(whole, "items")))]
                ):
                    node = whole  # of which a test picks what the trainer takes
                case ast.Name(id=name) if self.inside in self.takers.get(name, ()):
                    return self._passed_on(self.inside)
                case ast.Name(id=name):
                    given = [value for line, value in self.values.get(name, []) if line < self.at]
                    plain = [value for value in given if isinstance(value, ast.Dict) or is_dict(value)]
                    if not (plain or given):
                        return None
                    node = (plain or given)[-1]
                case ast.Subscript() if (held := self.lookup(node)) is not None:
                    node = held
                case _:
                    return None
        return None

    def _passed_on(self, function: str) -> ast.Dict | None:
        """The keywords with which the script calls a function of its own, where it does so in one place."""
        calls = [call for call in self._calls_of.get(function, ()) if call.keywords]
        if len(calls) != 1:
            return None
        self.at, self.inside = calls[0].lineno, self.within.get(calls[0], "")
        own = {name for name, given in self.parameters.items() if any(function == owner for owner, _ in given)}
        own.update(self.ordered.get(function, ()))
        return as_dict(calls[0], apart=own)


def _documents_among(named: list[tuple[object, int]]) -> list[tuple[str, int]]:
    return [(word, line) for word, line in named if isinstance(word, str) and _DOCUMENT.fullmatch(word)][:PATIENCE]


def _by_key(document: Launch) -> dict[str, Entry]:
    """The entries of a document by their keys; of two with one key the first counts."""
    return {entry.key: entry for entry in reversed(document.entries)}


def _filled_from(handle: str, body: list[ast.stmt]) -> list[str]:
    """The names that a file is loaded into: ``cfg = yaml.safe_load(f)``."""
    return [
        target.id
        for line in body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)
        if any(isinstance(argument, ast.Name) and argument.id == handle for argument in line.value.args)
        for target in line.targets
        if isinstance(target, ast.Name)
    ]


def _path(node: ast.Constant | ast.BinOp) -> str:
    """The path that a word is, or that ``ROOT / "configs" / "grpo.yaml"`` ends in."""
    match node:
        case ast.Constant(value=str(word)):
            return word
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(word))):
            before = _path(left) if isinstance(left, ast.Constant | ast.BinOp) else ""
            return f"{before}/{word}" if before else word
    return ""


def _default_of_field(value: ast.expr) -> ast.expr:
    """``field(default=8)`` and ``Option(8)`` as 8."""
    if isinstance(value, ast.Call) and name_of(value.func) in _FIELDS:
        first = value.args[0] if value.args else value
        return next((k.value for k in value.keywords if k.arg == "default"), first)
    return value


_MAPPINGS = frozenset("dict SimpleNamespace Namespace EasyDict DictConfig ConfigDict Munch".split())
"""Calls whose keywords are items."""
_FIELDS = frozenset("field Field Option Argument ib attrib Factory HfArg".split())
"""What stands for the value of a field or an option, in dataclasses, pydantic, attrs and typer."""


def _of_the_name(value: ast.expr, name: str) -> bool:
    """Whether an expression only passes on what something of the same name is."""
    return name_of(value) == name or (
        isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and value.slice.value == name
    )


def _says_nothing(name: str, value: object) -> bool:
    """Whether a parameter's default is no setting: a switch or an index, or what keeps a division from 0."""
    return (type(value) is int and value <= 1) or (
        name in ("eps", "epsilon") and isinstance(value, float) and value < NUMERICAL
    )


def _nothing(value: ast.expr) -> bool:
    """Whether an option has no default."""
    return isinstance(value, ast.Constant) and value.value is None


def agreed(found: list[ast.expr]) -> ast.expr | None:
    """The expression that all of them are; None where they differ."""
    return found[0] if len(found) == 1 or len({ast.dump(f) for f in found[:20]}) == 1 else None
