"""Python by its syntax tree: the calls that configure a trainer, and what their arguments come to. Never imported.

``GRPOConfig(num_generations=args.k)`` is followed to the default of ``--k``, to a constant, to a field of a dataclass
or to an item of a dictionary. Where a script builds no such configuration, its constants, dictionaries and options
are the settings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ...sources import ReadError
from ..entry import PER_PROMPT, Launch, Unresolved
from ..expression import known
from .modules import as_dict, is_dict, name_of, parsed, plain, siblings, statements, walk
from .trainer_code import code_of

CONFIGURES = re.compile(
    r"(?:(?:GRPO|PPO|RLOO|GSPO|DAPO|OnlineDPO|ReinforcePlusPlus|RL)\w*(?:Config|Args|Arguments))$|RLHFArguments$"
)
"""Calls that configure reinforcement learning."""
SUPERVISED = re.compile(r"(?:SFT|DPO|KTO|ORPO|Reward|CPO|GKD)Config$|^(?:Seq2Seq)?TrainingArguments$")
"""Calls that configure another kind of training."""
BESIDE = {
    "LoraConfig": "lora",
    "get_peft_model": "lora",
    "from_pretrained": "model",
    "GRPOTrainer": "trainer",
    "RLOOTrainer": "trainer",
}
"""Calls beside a configuration that say something of it, and the prefix of their keys."""
PATIENCE = 500
"""Names that are looked up for one setting at most: names can stand for names without end."""
CALLS = 2_000
"""Calls of a script in which the value of a parameter is looked for."""
MANY = 20
"""Configurations of one script that are read."""
LIBRARIES = frozenset("trl unsloth swift verl transformers openrlhf axolotl".split())
"""Where the configurations of frameworks come from; a class of the same name from elsewhere is the author's own."""
OWN = "own"
SETTINGS = re.compile(r"(?i)(?:\w*_)?(?:config|cfg|args|arguments|conf|hparams|params|flags)")
"""Names of what a script keeps its settings in."""
LOOSE = {
    "generate": "sampling",
    "GenerationConfig": "sampling",
    "SamplingParams": "sampling",
    "LoraConfig": "lora",
    "get_peft_model": "lora",
    "AdamW": "optim",
    "Adam": "optim",
}
"""Calls of a hand-written trainer whose arguments are settings, and the prefix of their keys."""
TELLING = frozenset("group_size num_generations kl_coef kl_coeff clip_eps clip_epsilon num_rollouts n_rollouts".split())
"""Arguments that make any call one of those."""
ELSEWHERE = re.compile(r"(?i)eval|valid|test|infer|judge|teacher|sft|dpo|reward_model|critic|demo")
"""Names of functions, classes and dictionaries whose settings are not those of the training."""


def read_python(text: str, path: Path | None = None) -> list[Launch]:
    """A launch for every configuration that a script builds, with what it imports from modules beside it.

    Raises `ReadError`.
    """
    return read_modules([(plain(text), 0)], path)


def read_modules(sources: list[tuple[str, int]], path: Path | None = None) -> list[Launch]:
    """The same for pieces of one script, each with the lines before it; a piece that does not parse is noted."""
    script, notes = _script(sources, path)
    if len(script.configuring) > MANY:
        notes.append(f"{len(script.configuring) - MANY} more configurations were not read")
    launches = [script.launch(call) for call in script.configuring[:MANY]] or [script.loose()]
    code = code_of([node for tree in script.trees for node in statements(tree)], script.calls)
    for launch in launches:
        launch.entries += code
    for launch in launches:
        launch.notes += notes
        launch.complete &= not notes
    return launches


def started(text: str, path: Path, given: Mapping[str, Any]) -> Launch:
    """What a script comes to when it is started with options: its first configuration, else its options' defaults.

    Raises `ReadError`.
    """
    script, notes = _script([(plain(text), 0)], path)
    for name, value in given.items():
        if name in script.options and isinstance(value, bool | int | float | str):
            script.options[name] = (ast.Constant(value=value), 0)
    if script.configuring:
        launch = script.launch(script.configuring[0])
    else:
        launch = Launch(script.imports)
        for name, (value, line) in script.options.items():
            script.add(launch, name, value, line)
    launch.notes += notes
    return launch


def _script(sources: list[tuple[str, int]], path: Path | None) -> tuple[_Script, list[str]]:
    """The pieces as one script, and notes of what does not parse."""
    trees, notes = [], []
    for text, before in sources:
        try:
            tree, left_out = parsed(text)
        except ReadError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            where = f"line {error.lineno + before}" if isinstance(error, SyntaxError) and error.lineno else "it"
            notes.append(f"{where} is not Python and was not read")
            continue
        trees.append(ast.increment_lineno(tree, before) if before else tree)
        notes += [f"line {line + before} is not Python and was not read" for line in left_out]
    if notes and not any(tree.body for tree in trees):
        raise ReadError(f"not Python: {notes[0]}")
    return _Script(trees, "\n".join(text for text, _ in sources), siblings(trees, path) if path else []), notes


class _Script:
    """What a script defines, and the calls that configure its training."""

    def __init__(self, trees: list[ast.Module], text: str, siblings: list[ast.Module]) -> None:
        self.text, self.trees = text, [*trees, *siblings]
        self.values: dict[str, list[tuple[int, ast.expr]]] = {}
        self.fields: dict[str, list[ast.expr]] = {}
        self.options: dict[str, tuple[ast.expr, int]] = {}
        self.attributes: list[tuple[str, str, ast.expr, int]] = []
        self.calls: list[tuple[str, ast.Call]] = []
        self.dicts: list[tuple[str, ast.Dict]] = []
        self.members: list[tuple[str, ast.expr, int]] = []
        self.set_items: list[tuple[str, str, ast.expr]] = []
        self.origins: dict[str, str] = {}
        self.modules: set[str] = set()
        self.classes: dict[str, list[tuple[str, ast.expr, int]]] = {}
        self.parameters: dict[str, list[tuple[str, ast.expr]]] = {}
        self.returned: dict[str, list[ast.expr]] = {}
        self.at = self.steps = 0
        for tree in self.trees:
            for node, inside in walk(tree):
                self._take(node, inside)
        self.configuring = self._configuring(CONFIGURES) or self._configuring(SUPERVISED)
        self.beside = [(BESIDE[name], call) for name, call in self.calls if name in BESIDE][:MANY]

    def _configuring(self, names: re.Pattern[str]) -> list[ast.Call]:
        """The calls of these names; those of the modules beside the script only where it has none itself."""
        found = [call for name, call in self.calls if names.search(name) and _says(call)]
        return [call for call in found if call.lineno] or found

    def _take(self, node: ast.AST, inside: str) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                self.values.setdefault(name, []).append((node.lineno, node.value))
                if not ELSEWHERE.search(name) and not ELSEWHERE.search(inside):
                    self._member(name, node.value, node.lineno, inside)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                assert node.value is not None
                self.values.setdefault(name, []).append((node.lineno, node.value))
                if not ELSEWHERE.search(inside):
                    self._member(name, node.value, node.lineno, inside)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=attribute)]):
                self.attributes.append((owner, attribute, node.value, node.lineno))
                if owner == "self" and inside == "__init__":
                    self.fields.setdefault(attribute, []).append(node.value)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(key)))]):
                self.set_items.append((owner, key, node.value))
            case ast.ClassDef(name=name):
                self.origins[name] = OWN
            case ast.Import(names=names):
                self.modules.update((alias.asname or alias.name).split(".")[-1] for alias in names)
                self.origins.update((alias.asname or alias.name, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names):
                self.modules.update(alias.asname or alias.name for alias in names)
                self.origins.update((alias.asname or alias.name, module or OWN) for alias in names)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._parameters(node)
            case ast.Return(value=ast.expr()) if inside:
                assert node.value is not None
                self.returned.setdefault(inside, []).append(node.value)
            case ast.Call():
                name = name_of(node.func)
                if name in ("add_argument", "option"):
                    self._option(node)
                elif name.startswith("DEFINE_"):
                    self._flag(node)
                elif not ELSEWHERE.search(inside) or CONFIGURES.search(name):
                    self.calls.append((name, node))
                if name == "dict" and not ELSEWHERE.search(inside):
                    self.dicts.append((inside, as_dict(node)))
            case ast.Dict() if not ELSEWHERE.search(inside):
                self.dicts.append((inside, node))

    def _member(self, name: str, value: ast.expr, line: int, inside: str) -> None:
        value = _default_of_field(value)
        if inside.startswith("class "):
            self.fields.setdefault(name, []).append(value)
            self.classes.setdefault(inside.removeprefix("class "), []).append((name, value, line))
        self.members.append((name, value, line))

    def _parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """The defaults of a function's parameters."""
        given = function.args
        every = [*given.posonlyargs, *given.args]
        plain = list(zip(every[len(every) - len(given.defaults) :], given.defaults, strict=True))
        for argument, value in (*plain, *zip(given.kwonlyargs, given.kw_defaults, strict=True)):
            if value is None:
                continue
            default = _default_of_field(value)
            self.parameters.setdefault(argument.arg, []).append((function.name, default))
            if not ELSEWHERE.search(function.name) and argument.arg != "k":  # of a function, how many it looks up
                self.members.append((argument.arg, default, value.lineno))

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
                if name in self.options:
                    return self.options[name][0]
                of_module = isinstance(node.value, ast.Name) and node.value.id in self.modules
                return self._latest(name) if of_module else _agreed(self.fields.get(name, []))
            case ast.Call(func=ast.Name(id=name), args=[_, value]) if "env" in name.lower():
                return value  # a function of the script's own that asks the environment, with a default
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
                return self._item(owner, name)
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(name)), *_]):
                return self._item(owner, name)
        return None

    def _latest(self, name: str) -> ast.expr | None:
        """The value that a name was given last before the line that asks, else the first."""
        given = self.values.get(name, [])
        before = [value for line, value in given if line < self.at]
        found = before[-1] if before else given[0][1] if given else self._passed(name)
        return None if isinstance(found, ast.Name) and found.id == name else found

    def _passed(self, name: str) -> ast.expr | None:
        """What the script itself passes as a parameter of this name, else the parameter's default; if all agree."""
        owners = {function for function, _ in self.parameters.get(name, [])}
        passed = [
            k.value for called, call in self.calls[:CALLS] if called in owners for k in call.keywords if k.arg == name
        ]
        return _agreed([v for v in passed if not (isinstance(v, ast.Name) and v.id == name)]) or _agreed(
            [value for _, value in self.parameters.get(name, [])]
        )

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

    def launch(self, call: ast.Call) -> Launch:
        """The settings of one configuration, and what stands beside it: adapter, model, trainer."""
        self.at = call.lineno
        name = name_of(call.func)
        giver = call.func.value if isinstance(call.func, ast.Attribute) else None
        come_as = giver.id if isinstance(giver, ast.Name) and giver.id in self.origins else name
        module = self.origins.get(come_as, "trl").split(".")[0]
        known_as = name if module in LIBRARIES else "script"
        launch = Launch(f"{known_as} {self.imports}", line=call.lineno)
        for owner, attribute, value, line in self.attributes:
            if owner in self._names_of(call):
                self.add(launch, attribute, value, line)
        self._keywords(launch, "", call)
        for field, value, line in self.classes.get(name, []):
            self.add(launch, field, value, line)
        for prefix, beside in self.beside:
            self._keywords(launch, f"{prefix}.", beside)
        if "lora" not in self.text.lower() and "peft" not in self.text.lower():
            launch.add("lora.absent", True, 0)
        if known_as == "script":
            launch.entries += self.loose().entries
        return launch

    @cached_property
    def imports(self) -> str:
        """The libraries of trainers that the script names."""
        return " ".join(name for name in ("unsloth", "trl", "swift", "verl") if re.search(rf"\b{name}\b", self.text))

    def _names_of(self, call: ast.Call) -> set[str]:
        return {name for name, given in self.values.items() for _, value in given if value is call}

    def _keywords(self, launch: Launch, prefix: str, call: ast.Call) -> None:
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.add(launch, prefix + keyword.arg, keyword.value, keyword.value.lineno)
                continue
            spread = self._spread(keyword.value)
            if spread is not None:
                self._items(launch, prefix, spread)
                for owner, key_set, value in self.set_items:
                    if isinstance(keyword.value, ast.Name) and owner == keyword.value.id:
                        self.add(launch, prefix + key_set, value, value.lineno)
            elif not prefix:
                launch.complete = False
                if not self._telling(launch):
                    launch.notes.append(f"line {call.lineno}: what ** passes on was not read")

    def _items(self, launch: Launch, prefix: str, spread: ast.Dict, depth: int = 0) -> None:
        """The items of a dictionary; of two with one key the last counts, as of ``{**defaults, "k": 8}``."""
        for key, value in reversed(list(zip(spread.keys, spread.values, strict=True))):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.add(launch, prefix + key.value, value, value.lineno)
            elif key is None and (inner := self._spread(value)) is not None and depth < 5:
                self._items(launch, prefix, inner, depth + 1)
            elif key is None and not prefix:
                launch.complete = False

    def _telling(self, launch: Launch) -> bool:
        """Takes what can only be meant by an unreadable ``**``: the one dictionary of the script with such keys."""
        held = [d for _, d in self.dicts if TELLING & {k.value for k in d.keys if isinstance(k, ast.Constant)}]
        if len(held) != 1:
            return False
        for key, value in zip(held[0].keys, held[0].values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.add(launch, key.value, value, value.lineno)
        return True

    def _spread(self, node: ast.expr) -> ast.Dict | None:
        """The dictionary that ``**node`` passes on; of a name the last dictionary that it was given."""
        if isinstance(node, ast.Call) and len(returned := self.returned.get(name_of(node.func), [])) == 1:
            node = returned[0]
        if isinstance(node, ast.Name):
            given = [value for line, value in self.values.get(node.id, []) if line < self.at]
            given = [value for value in given if isinstance(value, ast.Dict) or is_dict(value)]
            node = given[-1] if given else node
        elif isinstance(node, ast.Subscript):
            node = self.lookup(node) or node
        if isinstance(node, ast.Call) and is_dict(node):
            return as_dict(node)
        return node if isinstance(node, ast.Dict) else None

    def add(self, launch: Launch, key: str, node: ast.expr, line: int) -> None:
        """One setting, as far as its expression can be worked out."""
        self.steps = 0
        told, value = known(node, self.lookup)
        launch.add(key, value if told else Unresolved(ast.unparse(node)[:200]), line)

    def loose(self) -> Launch:
        """The settings of a script without a configuration: its options, constants, fields, dictionaries, calls."""
        launch = Launch(f"script {self.imports}", complete=False)
        self.at = 1 << 30
        for name, (value, line) in self.options.items():
            if not ELSEWHERE.search(name):
                self.add(launch, name, value, line)
        for name, value, line in self.members:
            if not isinstance(value, ast.Dict):
                self.add(launch, name if len(name) == 1 else name.lower(), value, line)
        for owner, attribute, value, line in self.attributes:
            if SETTINGS.fullmatch(owner) and not ELSEWHERE.search(owner):
                self.add(launch, attribute, value, line)
        for inside, node in self.dicts:
            for key, item in zip(node.keys, node.values, strict=True):
                plain = isinstance(key, ast.Constant) and isinstance(key.value, str)
                if plain and not isinstance(item, ast.Dict) and not ELSEWHERE.search(inside):
                    assert isinstance(key, ast.Constant)
                    self.add(launch, str(key.value), item, item.lineno)
        for name, call in self.calls:
            if name in LOOSE or any(k.arg in TELLING or PER_PROMPT.fullmatch(k.arg or "") for k in call.keywords):
                self._keywords(launch, f"{LOOSE.get(name, 'call')}.", call)
        return launch


def _says(call: ast.Call) -> bool:
    return bool(call.keywords)


def _default_of_field(value: ast.expr) -> ast.expr:
    """``field(default=8)`` and ``Option(8)`` as 8."""
    if isinstance(value, ast.Call) and name_of(value.func) in _FIELDS:
        first = value.args[0] if value.args else value
        return next((k.value for k in value.keywords if k.arg == "default"), first)
    return value


_FIELDS = frozenset("field Field Option Argument ib attrib Factory HfArg".split())
"""What stands for the value of a field or an option, in dataclasses, pydantic, attrs and typer."""


def _agreed(found: list[ast.expr]) -> ast.expr | None:
    """The expression that all of them are; None where they differ."""
    return found[0] if len({ast.dump(f) for f in found[:20]}) == 1 else None
