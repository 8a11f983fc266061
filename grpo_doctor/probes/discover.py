"""Finds functions that look like entry points in a trainer's script and in the trainer's own imported files, and writes
an adapter. The code is parsed with `ast`, never executed."""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..report.redaction import one_line
from .script import Function, Loop, Script, bound, read_before, reads, writes

_NAMES = tomllib.loads(Path(__file__).with_name("trainer_names.toml").read_text(encoding="utf-8"))
ENTRY_POINTS: dict[str, dict[str, Any]] = _NAMES["entry_points"]
OBJECTS: dict[str, str] = _NAMES["objects"]


class Found(NamedTuple):
    """A function that looks like an entry point."""

    seam: str
    name: str
    """Name of the function, including the class of a method or the enclosing function."""
    line: int
    parameters: list[str]
    required: list[str]
    """The parameters without a default."""
    returns: dict[Any, str]
    """The returned names by index or key, if the function returns a tuple or a mapping."""
    node: Function
    file: Path
    inside: bool = False
    """Whether the function is nested in another function."""


def discover(script: Script) -> list[Found]:
    """Return the functions of a trainer that look like entry points, beginning with those of the script."""
    named = ((file, *one) for file, tree in script.trees.items() for one in _functions(tree))
    found = [f for file, name, node, inside in named if (f := _entry_point(name, node, file, inside)) is not None]
    if not any(f.seam == "reference_logprobs" for f in found):
        scores = (f for f in found if f.seam == "logprobs" and _scores_reference(f, script))
        found += [f._replace(seam="reference_logprobs") for f in scores]
    return found


def _scores_reference(found: Found, script: Script) -> bool:
    """Return whether the trainer's code calls a function that takes a model with the reference model."""
    model = next((p for p in found.parameters if resource(p) == "model"), None)
    if model is None:  # a method of a model's wrapper
        callers = [ast.unparse(c.func) for tree in script.trees.values() for c in _calls(tree, found)]
        return any(re.fullmatch(r".*(ref|base).*\..*", caller.lower()) for caller in callers)
    arguments = (bound(found.node, call).get(model) for tree in script.trees.values() for call in _calls(tree, found))
    names = (str(getattr(a, "id", getattr(a, "attr", ""))) for a in arguments)
    return any(resource(name) == "reference" for name in names)


def _calls(node: ast.AST, found: Found) -> Iterator[ast.Call]:
    """Yield the calls of a function."""
    name = found.name.rpartition(".")[2]
    for n in ast.walk(node):
        if isinstance(n, ast.Call) and name == (getattr(n.func, "id", None) or getattr(n.func, "attr", None)):
            yield n


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function, bool]]:
    """Yield functions, methods, and nested functions, as in a trainer's ``main``."""
    for node in (n for s in tree.body for n in (s.body if isinstance(s, ast.If) else [s])):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, False
            yield from ((f"{node.name}.{f.name}", f, True) for f in node.body if isinstance(f, ast.FunctionDef))
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{f.name}", f, False) for f in node.body if isinstance(f, ast.FunctionDef))


def _entry_point(name: str, node: Function, file: Path, inside: bool) -> Found | None:
    given = [*node.args.posonlyargs, *node.args.args]
    without = len(given) - len(node.args.defaults)
    optional = [a.arg for a in given[without:]]
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    parameters = [a.arg for a in (*given, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
    needed = [a.arg for a in given[:without]] + [a.arg for a, default in keywords if default is None]
    required = [p for p in needed if p not in ("self", "cls", *optional)]
    for seam, like in ENTRY_POINTS.items():
        called, taken = like["called"], like.get("takes", ".*")
        parts = [p for parameter in parameters for p in (parameter, parameter.rsplit("_", 1)[-1])]
        if re.fullmatch(f"{seam}|{called}", node.name.lower()) and (
            taken == ".*" or any(re.fullmatch(taken, part.lower()) for part in parts)
        ):
            told = _by_its_calls(seam, node, parameters)
            if seam == "render" and not _tokenises(node, parameters):
                return None
            if told is None:
                return None
            return Found(told, name, node.lineno, parameters, required, _returned(node), node, file, inside)
    return None


def _tokenises(node: Function, parameters: list[str]) -> bool:
    """Return whether a function converts a prompt to ids and not only to text."""
    called = {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return any(resource(p) == "tokenizer" for p in parameters) or any(re.search("tok|encode", c) for c in called)


def _returned(node: Function) -> dict[Any, str]:
    """Return the names in the last tuple or mapping that a function returns, by position, excluding nested
    functions."""
    left: list[ast.AST] = list(node.body)
    found: dict[Any, str] = {}
    while left:
        one = left.pop(0)
        value = one.value if isinstance(one, ast.Return) else None
        if isinstance(value, ast.Tuple) and len(value.elts) > 1:
            found = {n: one_line(ast.unparse(e)) for n, e in enumerate(value.elts)}
        elif isinstance(value, ast.Dict):
            found = {k.value: str(k.value) for k in value.keys if isinstance(k, ast.Constant)}
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left[:0] = ast.iter_child_nodes(one)
    return found


def _by_its_calls(seam: str, node: Function, parameters: list[str]) -> str | None:
    """Classify a function by its calls: an optimizer step, only a backward pass, or neither (a loss).

    Return None if the function calls neither and does not return a loss. Examples are an update of a controller and a
    weight sync to the sampler. An objective that takes the model is a loss.
    """
    if seam == "objective":
        return "loss" if any(resource(p) == "model" for p in parameters) else seam
    if seam not in ("step", "backward", "loss"):
        return seam
    called = {n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    if "backward" in called:
        return "step" if "step" in called else "backward"
    if seam != "step":
        return "loss"
    returned = "".join(
        ast.unparse(n.value) for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None
    )
    return "step" if "step" in called else "loss" if "loss" in returned.lower() else None


class ScriptObjects:
    """The objects and settings that a script's statements create, and the expressions with which an adapter obtains
    them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.used: set[str] = set()
        """Names from the script that the adapter uses."""
        self.made = {name for statement in script.line for name in writes(statement.node)}
        self.before: list[str] = []
        """Lines of the adapter before its functions: imports, and settings for one response per prompt."""
        self.instances: dict[str, str] = {}
        """The trainer's classes, each with the name of one of its instances."""
        self.objects: dict[str, str] = {}
        self.settings = self._declared()
        classes = {n.name: n for t in script.trees.values() for n in t.body if isinstance(n, ast.ClassDef)}
        for name, value in script.values().items():
            kind = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
            if kind in classes:
                self.instances.setdefault(
                    f"{kind} of the reference" if re.search("ref|base", name.lower()) else kind, name
                )
            elif _is_number(value) or (known := resource(name)) is None or script.lacks(name):
                continue
            elif known != "prompts" or isinstance(value, ast.List):
                self.objects[known] = self.taken(name)
        for kind, name in self.instances.items():
            for own, value in _kept_by(classes[kind.split()[0]]).items():
                if isinstance(value, ast.Constant | ast.Name):
                    self.settings |= {setting: f"{self.taken(name)}.{own}" for setting in _declared(own)}
                known = resource(own) if kind in classes else {"model": "reference"}.get(resource(own) or "")
                if known is not None and known not in self.objects:
                    self.objects[known] = f"{self.taken(name)}.{own}"
        for node in (n for n in script.trees[script.path].body if isinstance(n, Function)):
            bare = len(node.args.args) == len(node.args.defaults) and not node.args.kwonlyargs
            if bare and re.fullmatch("(load|get|make)_prompts", node.name):
                self.objects["prompts"] = f"list({self.taken(node.name)}())[:4]"

    def _declared(self) -> dict[str, str]:
        """Return the settings that numbers in the script declare. A setting is unknown if several names declare
        different values for it."""
        found: dict[str, dict[float, str]] = {}
        for name, value in self.script.values().items():
            for setting in _declared(name, value.value) if _is_number(value) else ():  # type: ignore[union-attr]
                found.setdefault(setting, {})[value.value] = name  # type: ignore[union-attr]
        return {setting: self.taken(*names.values()) for setting, names in found.items() if len(names) == 1}

    def taken(self, name: str) -> str:
        """Return how the adapter refers to a name of the script."""
        self.used.add(name)
        return f"trainer.{name}"

    def needs_data(self, *names: str) -> bool:
        """Return whether names depend on the training loop of the script or on objects that the script does not
        create."""
        return bool(self.script.lacks(*names)) or any(s.in_loop for s in self.script.needed(names))

    def expression(self, value: ast.expr) -> str | None:
        """Return an expression of the script in the form that the adapter uses, or None if the expression depends on
        the trainer's data."""
        names = reads(value) - vars(builtins).keys()
        if not names <= self.made or self.needs_data(*names):
            return None
        renamed = {name: ast.parse(self.taken(name), mode="eval").body for name in names}
        return ast.unparse(_Replaced(renamed).visit(copy.deepcopy(value)))

    def arguments(self, found: Found, without: tuple[str, ...] = ()) -> dict[str, ast.expr]:
        """Return the arguments with which the trainer calls a function, in the script or in another function of the
        trainer. The arguments of that other function are resolved too."""
        call = next(
            (c for s in self.script.line for c in _calls(s.node, found) if not isinstance(s.node, Function)), None
        )
        if call is not None:
            return bound(found.node, call)
        for name, own in self.script.functions.items():
            inner = next(_calls(own.node, found), None)
            if inner is not None and name not in (found.name, *without):
                outer = found._replace(name=name, node=own.node)
                given = self.arguments(outer, (*without, found.name))
                if given:
                    own_arguments = bound(found.node, inner)
                    return {p: _Replaced(given).visit(copy.deepcopy(v)) for p, v in own_arguments.items()}
        return {}


class _Replaced(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.values.get(node.id, node)


def _kept_by(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the attributes that the methods of a class assign, with the assigned values."""
    pairs = ((t, n.value) for n in ast.walk(node) if isinstance(n, ast.Assign) for t in n.targets)
    parts = ((one, value) for t, value in pairs for one in (t.elts if isinstance(t, ast.Tuple) else [t]))
    return {p.attr: v for p, v in parts if isinstance(p, ast.Attribute) and getattr(p.value, "id", "") == "self"}


def _is_number(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _declared(name: str, value: float = 1.0) -> list[str]:
    """Return the settings whose value a variable or attribute with this name usually contains; the list may be empty.
    Under some names, small values are constants for numerical stability."""
    known, least = _NAMES["settings"], _NAMES["least"]
    return [known[words] for words in known if re.fullmatch(words, name.lower()) and value >= least.get(words, value)]


def resource(name: str) -> str | None:
    known = {**OBJECTS, r"(train_|rl_)?prompts": "prompts"}
    return next((to for words, to in known.items() if re.fullmatch(words, name.lower())), None)


_MISSING = {
    "model": "the module whose forward and generate these functions call",
    "tokenizer": "its tokenizer",
    "optimizer": "the policy's optimizer",
    "reference": "the reference model, if it is a separate model",
    "prompts": "2 to 8 of your prompts, of unequal length",
}
"""Objects that an adapter should provide, with the description for the user if the object was not found."""


def adapter_for(script: Script, found: list[Found]) -> str:
    """Return the text of an adapter file for these functions. The file contains the parts that were found, and comments
    for missing parts.

    If the functions that sample and train cannot be called one by one, the training loop as a whole replaces them.
    """
    has, chosen = ScriptObjects(script), dict[str, Found]()
    written: dict[str, list[str]] = {}
    for f in sorted(found, key=lambda f: f.file != script.path):
        lines = _function(f, has)
        if f.seam not in written or (written[f.seam][0].startswith("#") and not lines[0].startswith("#")):
            chosen[f.seam], written[f.seam] = f, lines
    called = {seam for seam, lines in written.items() if not lines[0].startswith("#")}
    separate = "rollout" in called and called & _TRAINS
    sampled = any(script.samples(tree) for tree in script.trees.values())
    loop = script.loops[0] if script.loops and sampled and not separate else None
    replaced = set(written) - _BESIDE_THE_LOOP if loop is not None else set()
    objects = [*_objects(has, loop is not None)]
    if "reward" in chosen:
        objects.append(
            '# graded = [("what is 2 + 10?", "12", "<answer>12</answer>", "<answer>13</answer>")]  # <- yours'
        )
    functions = []
    for seam in dict.fromkeys(f.seam for f in found if f.seam not in replaced):
        others = [f for f in found if f.seam == seam and f is not chosen[seam]]
        functions += ["", "", *written[seam], *(f"# or {f.name}, {_place(f)}" for f in others)]
    used = has.used if loop is None else {name for name in has.used if not has.needs_data(name)}
    names = "".join(f', "{name}"' for name in sorted(used))
    needed = script.needed(used if loop is None else used | read_before(loop.node))
    numbers = sorted({s.node.lineno for s in needed if s.file == script.path and (loop is None or not s.in_loop)})
    file = f"Path(__file__).with_name({script.path.name!r}){names}"
    text = "\n".join(
        [
            f'"""Adapter for {_plain(script.path.name)}, written by `grpo-doctor probe --discover`.',
            "",
            *textwrap.wrap(f"{_EXECUTED.format(lines=', '.join(map(str, numbers)) or 'none')} {_ADVICE}", 116),
            "",
            "from pathlib import Path",
            "from typing import Any",
            "",
            f"from grpo_doctor.probes import {'trainer_parts' if loop is None else 'TrainerLoop'}",
            "",
            *([f"trainer = trainer_parts({file})"] if loop is None else _loop_lines(loop, file)),
            *dict.fromkeys(has.before),
            "",
            *objects,
            *functions,
        ]
    )  # fmt: skip
    compile(text, "adapter", "exec", dont_inherit=True)
    return text + "\n"


_TRAINS = {"loss", "step", "backward", "objective"}
_BESIDE_THE_LOOP = {"advantages", "reward", "env_mask", "tool_mask", "penalize", "render_sft", "collate_sft"}
"""Entry points that an adapter calls in addition to the training loop."""


def _loop_lines(loop: Loop, file: str) -> list[str]:
    """Return the lines of an adapter that uses the training loop as a whole."""
    return [
        f"loop = TrainerLoop({file})  # the loop in line {loop.node.lineno} of {_plain(loop.file.name)}",
        "trainer, rollout, step = loop.parts, loop.rollout, loop.step",
    ]


def _objects(has: ScriptObjects, by_loop: bool) -> Iterator[str]:
    """Yield the lines of an adapter that assign its objects and settings."""
    for name, words in {**_MISSING, **dict.fromkeys(has.objects.keys() - _MISSING.keys(), "")}.items():
        known = f"loop.{name}" if by_loop and name in _MISSING else has.objects.get(name)
        yield f"{name}: Any = {known}" if known else f"# {name} = ...  # <- {words}"
    settings = ", ".join(f'"{name}": {value}' for name, value in has.settings.items())
    yield f"settings = {{{settings}}}" if settings else '# settings = {"temperature": 1.0}  # <- as declared'


_EXECUTED = (
    "`grpo-doctor probe` executes this file, what it imports, and of the script only the lines that make the names "
    "below: {lines}."
)
_ADVICE = (
    "To replace an object of the script, pass yours as a keyword, `model=mine`. Comments marked <- name what was not "
    'found: complete them, and remove the #."""'
)


def _place(found: Found) -> str:
    return f"line {found.line} of {_plain(found.file.name)}"


def _owner(found: Found, has: ScriptObjects) -> tuple[str, list[str]]:
    """Return the expression with which an adapter calls a function, and the arguments that are missing for the call."""
    owner, _, name = found.name.rpartition(".")
    if found.inside:
        reached = name in has.made and not has.needs_data(name)
        return (
            (has.taken(name), [])
            if reached
            else (name, [f"{name} out of {owner}, which cannot be called from outside"])
        )
    if owner:
        takes_model = any(resource(p) == "model" for p in found.parameters)
        of_reference = found.seam == "reference_logprobs" and not takes_model
        instance = has.instances.get(f"{owner} of the reference" if of_reference else owner)
        if instance is None:
            return f"trainer.{name}", [f"an instance of {owner}"]
        return f"{has.taken(instance)}.{name}", []
    if found.file == has.script.path:
        return has.taken(name), []
    module = has.script.modules[found.file]
    alias = f"{module.rpartition('.')[2]}_file"  # a module may have the same name as an entry point
    has.before.append(f"import {module} as {alias}")
    return f"{alias}.{name}", []


def _function(found: Found, has: ScriptObjects) -> list[str]:
    """Return the lines of an entry point, as comments if something is missing."""
    point = ENTRY_POINTS[found.seam]
    signature, known = point["signature"], _NAMES["given"].get(point.get("given"), {})
    if "labels" in found.parameters and found.seam.endswith("logprobs"):
        known = {"input_ids": "input_ids[:, :-1]", "labels": "input_ids[:, 1:]", **known}
    used, before = has.used.copy(), has.before.copy()
    called, unknown = _owner(found, has)
    whole = found.seam != "reward" or _takes_all(found, known)
    if found.seam == "reward" and "completions" in found.parameters and found.node.args.kwarg and not unknown:
        return [f"reward = {called}  # TRL's form works unchanged"]
    given, arguments = has.arguments(found), dict[str, str]()
    for parameter in found.parameters:
        value = _argument(found, parameter, known, has, whole)
        value = has.expression(given[parameter]) if value is None and parameter in given else value
        if value is not None:
            arguments[parameter] = value
        elif parameter in found.required:
            arguments[parameter] = resource(parameter) or "..."
            unknown.append(resource(parameter) or parameter)
    if found.seam == "rollout":
        has.before += _once(found, called, arguments, has)
    used_by = {value.strip("[]") for value in arguments.values()}
    unknown += [n for n in point.get("essential", ()) if not {n, n[0]} & used_by and n not in unknown]
    call = f"{called}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    first = "[0]"
    if found.returns and "returned" in point:
        fits = [n for n, name in found.returns.items() if re.fullmatch(point["returned"], name.lower())]
        call += f"[{fits[0]!r}]" if fits else "[...]"
        unknown += [] if fits else [f"which of ({_plain(', '.join(found.returns.values()))})"]
        first = "" if fits and ".decode(" in found.returns[fits[0]] else first  # for a single text
    one = found.seam == "rollout" and "p" in arguments.values()
    body = (
        f"[{call}{first} for p in prompts]"
        if one
        else call
        if whole
        else f"[{call} for p, r, a in zip(prompts, responses, answers)]"
    )
    if found.seam == "advantages" and "rewards.shape[1]" in arguments.values():  # the rewards are not in groups yet
        body = f"{call.replace('=rewards,', '=rewards.flatten(),')}.reshape(rewards.shape)"
    elif found.seam == "advantages" and _of_one_group(found):
        has.before.append("import torch")
        body = f"torch.stack([torch.as_tensor({call.replace('=rewards', '=group')}) for group in rewards])"
    lines = [f"def {found.seam}({signature}):  # {_place(found)}", f"    return {body}"]
    if not unknown:
        return lines
    has.used, has.before = used, before
    return [f"# <- to fill in: {', '.join(dict.fromkeys(unknown))}", *(f"# {line}" for line in lines)]


_ALL = {"p": "prompts", "r": "responses", "a": "answers"}
"""Parameter names of a reward function, for one response and for all responses."""


def _takes_all(found: Found, known: dict[str, str]) -> bool:
    """Return whether a reward function takes all responses in one call."""
    judged = [p for p in found.parameters if (_value(p, known) or _value(p.removesuffix("s"), known)) in _ALL]
    return bool(judged) and all(p.endswith("s") and _value(p, known) is None for p in judged)


def _argument(found: Found, parameter: str, known: dict[str, str], has: ScriptObjects, whole: bool) -> str | None:
    """Return the expression that an adapter passes for a parameter (a probe's value or an object of the script), or
    None without such an expression. Objects of the trainer's own classes do not count as objects of the script."""
    given = (*found.node.args.posonlyargs, *found.node.args.args, *found.node.args.kwonlyargs)
    kind = next((a.annotation for a in given if a.arg == parameter), None)
    classes = {n.name for tree in has.script.trees.values() for n in tree.body if isinstance(n, ast.ClassDef)}
    if kind is not None and reads(kind) & classes:
        return None
    value = _value(parameter, known)
    if value is None and found.seam == "reward" and parameter.endswith("s"):
        one = _value(parameter[:-1], known)
        value = (_ALL if whole else {k: f"[{k}]" for k in _ALL}).get(one or "")
    if value is not None:
        return value
    kept = resource(parameter)
    if kept == "model" and found.seam == "reference_logprobs":
        kept = "reference"
    return None if kept in (None, "prompts") else kept if kept in has.objects else None


def is_prompt(name: str) -> bool:
    """Return whether a column of training data has a usual name for prompts."""
    return _value(name, _NAMES["given"]["judged"]) == "p"


def is_advantage(name: str) -> bool:
    """Return whether a variable has a usual name for advantages."""
    return re.fullmatch(_NAMES["advantages"], name.lower()) is not None


def _value(parameter: str, known: dict[str, str]) -> str | None:
    return next((value for words, value in known.items() if re.fullmatch(words, parameter.lower())), None)


def _once(found: Found, called: str, arguments: dict[str, str], has: ScriptObjects) -> list[str]:
    """Return statements that make a rollout produce one response per prompt. If an argument sets the number of
    responses, change the argument in place."""
    calls = [n for n in ast.walk(found.node) if isinstance(n, ast.Call)]
    times = [k.value for c in calls for k in c.keywords if k.arg == "num_return_sequences"]
    times += [a for c in calls if getattr(c.func, "attr", "") in ("repeat", "repeat_interleave") for a in c.args]
    owner = called.rpartition(".")[0]
    lines = []
    for count in times:
        root = count.value if isinstance(count, ast.Attribute) else count
        name = root.id if isinstance(root, ast.Name) else ""
        if root is count and arguments.get(name, "p") not in ("p", "prompts"):
            arguments[name] = "1"
        elif isinstance(count, ast.Attribute) and (name == "self" or name in arguments):
            lines.append(f"{owner if name == 'self' else arguments[name]}.{count.attr} = 1  # response per prompt")
        elif root is count and name in has.made:
            lines.append(f"{has.taken(name)} = 1  # response per prompt")
    return lines


def _of_one_group(found: Found) -> bool:
    """Return whether an advantage function takes the rewards of one group. Such a function averages over all rewards,
    takes no group size, and forms no groups."""
    grouped = any(_value(p, _NAMES["given"]["advantages"]) == "rewards.shape[1]" for p in found.parameters)
    made = (n for n in ast.walk(found.node) if isinstance(n, ast.Call))
    calls = [(getattr(n.func, "attr", ""), n) for n in made]
    means = [call for name, call in calls if name == "mean"]
    forms = any(name in ("view", "reshape", "groupby") for name, _ in calls)
    return bool(means) and not grouped and not forms and not any(c.args or c.keywords for c in means)


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).replace('"""', "'''").replace("\\", "/")
