"""Finds problems in a training script: wrong signatures of reward functions, an overridden loss, missing columns, and a
mask without EOS."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from ..custom_names import NAMES
from ..launch import Entry
from .dataset import Datasets, Form, Function, reads_as
from .modules import name_of, statements
from .trainer_calls import constant_rewards, refused_arguments

TRAINERS = frozenset(name for name, prefix in NAMES["calls_beside"].items() if prefix == "trainer")
PASSED = ("prompts", "completions")
"""Keyword arguments that every TRL version passes to a reward function."""
GIVEN = frozenset(
    "prompts completions completion_ids completions_ids trainer_state log_extra log_metric environments".split()
)
"""Keyword arguments that at least one TRL version passes to a reward function, in addition to dataset columns."""
KEPT_BACK = frozenset(("prompt", "completion", "completion_ids"))
"""Dataset columns that TRL does not pass to reward functions."""
_OF_RESPONSES = re.compile(r"(?:completion|response|answer|action|gen\w*|output|loss|label)s?_mask")
_ASKS = ("signature", "getfullargspec", "fields", "hasattr", "getattr")
"""Functions that a script calls to find out which arguments a class accepts."""
_CONFIGURATION = re.compile(r"(?:Config|Arguments|\bcls|\bconfig_(?:cls|class|type))(?:\.__init__)?$")
"""Expressions for configuration classes whose arguments a script may filter."""
MANY = 50
"""Maximum number of reward functions to inspect per trainer."""


def code_of(script: Sequence[ast.stmt], calls: Sequence[tuple[str, ast.Call]]) -> list[Entry]:
    """Return facts about the trainer in a script, as entries whose keys begin with ``code.``."""
    found: list[Entry] = []
    for node in script:
        if isinstance(node, ast.ClassDef) and any(name_of(base) in TRAINERS for base in node.bases):
            _loss_of(node, found)
    functions = _functions_of(script)
    given = [k.value for name, call in calls if name in TRAINERS for k in call.keywords if k.arg == "reward_funcs"]
    named = [item for value in given for item in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    rewards = [functions[item.id] for item in named[:MANY] if isinstance(item, ast.Name) and item.id in functions]
    for reward in rewards:
        _signature_of(reward, found)
    own = any(isinstance(node, ast.ClassDef) and node.name == "GRPOTrainer" for node in script)
    built = [call for name, call in calls if name == "GRPOTrainer"]
    if len(built) == 1 and not own:
        rows = Datasets(script, functions).of(built[0])
        if rows.whole:
            _lacking(rows.columns, rewards, built[0].lineno, found)
        _of_form(rows.form, rewards, built[0].lineno, found)
        found += [*refused_arguments(script, calls), *constant_rewards(rewards, len(rewards) == len(named), calls)]
    _mask_without_eos(script, found)
    if (line := _drops_unknown(script, calls)) is not None:
        found.append(Entry("code.drops_unknown", True, line))
    return found


def _functions_of(script: Sequence[ast.stmt]) -> dict[str, Function]:
    """Return the functions of a script by name. Methods are excluded, and so are decorated or redefined functions."""
    methods = {id(part) for node in script if isinstance(node, ast.ClassDef) for part in node.body}
    functions: dict[str, Function] = {}
    ambiguous: set[str] = set()
    for node in script:
        if isinstance(node, Function) and id(node) not in methods:
            ambiguous |= {node.name} if node.decorator_list else {node.name} & functions.keys()
            functions[node.name] = node
        elif isinstance(node, ast.Assign):
            ambiguous |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name: function for name, function in functions.items() if name not in ambiguous}


def _drops_unknown(script: Iterable[ast.stmt], calls: Sequence[tuple[str, ast.Call]]) -> int | None:
    """Return the line at which a script filters configuration arguments, or catches the TypeError for an invalid
    argument; None if the script does neither."""
    for name, call in calls:
        if name in _ASKS and call.args and _CONFIGURATION.search(ast.unparse(call.args[0])[:200]):
            return call.lineno
    for node in script:
        if isinstance(node, ast.Try) and any(_of_types(handler) for handler in node.handlers):
            built = (part for inner in node.body for part in ast.walk(inner) if isinstance(part, ast.Call))
            if any(_CONFIGURATION.search(name_of(call.func)) for call in built):
                return node.lineno
    return None


def _of_types(handler: ast.ExceptHandler) -> bool:
    return handler.type is not None and "TypeError" in ast.unparse(handler.type)[:200]


def _lacking(columns: frozenset[str], rewards: list[Function], line: int, found: list[Entry]) -> None:
    """Report columns that the trainer or a reward function needs but that the dataset does not have."""
    if "prompt" not in columns:
        found.append(Entry("code.lacking_column", "prompt, which the trainer needs", line))
        return
    passed = (columns - KEPT_BACK) | GIVEN
    for function in rewards:
        taken = function.args
        plain = [*taken.posonlyargs, *taken.args]
        needed = [a.arg for a in plain[: len(plain) - len(taken.defaults)]]
        needed += [a.arg for a, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value is None]
        if lacking := [name for name in needed if name not in passed]:
            said = f"{' or '.join(lacking)}, which the reward function {function.name} needs"
            found.append(Entry("code.lacking_column", said, function.lineno))
            return


def _of_form(form: Form, rewards: list[Function], line: int, found: list[Entry]) -> None:
    """Report reward functions that read completions in the wrong form, and prompts without a chat template."""
    if form == "text":
        found.append(Entry("code.plain_prompts", True, line))
    for function in rewards:
        read = reads_as(function) if form else ""
        if read and (read == "messages") != (form == "messages"):
            given = "messages" if form == "messages" else "text"
            said = f"{function.name} reads each completion as {'a list of ' * (read == 'messages')}{read}, but the "
            said += f"prompts of the dataset are {given}, so completions are too"
            found.append(Entry("code.wrong_form", said, function.lineno))
            return


def _mask_without_eos(script: Iterable[ast.stmt], found: list[Entry]) -> None:
    """Report a response mask that excludes padding, if the padding token is unconditionally set to EOS."""
    perhaps = {id(inner) for node in script if isinstance(node, ast.If) for inner in statements(node)}
    padded = [node for node in script if id(node) not in perhaps and _pads_with_eos(node)]
    for node in script if padded else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _OF_RESPONSES.fullmatch(name):
                masks = any(_compares_with_padding(part, ast.NotEq, "ne") for part in ast.walk(value))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=where)]) if "label" in name:
                masks = _compares_with_padding(where, ast.Eq, "eq")  # labels[labels == pad_token_id] = -100
            case _:
                continue
        if masks:
            found.append(Entry("code.mask_without_eos", name, node.lineno))
            return


def _pads_with_eos(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="pad_token")], value=ast.Attribute(attr="eos_token")):
            return True
        case ast.Assign(targets=[ast.Attribute(attr="pad_token_id")], value=ast.Attribute(attr="eos_token_id")):
            return True
    return False


def _compares_with_padding(node: ast.AST, operation: type[ast.cmpop], method: str) -> bool:
    match node:
        case ast.Compare(ops=[sign], comparators=[other]) if isinstance(sign, operation):
            return name_of(other) in ("pad_token_id", "pad_id")
        case ast.Call(func=ast.Attribute(attr=called), args=[other]) if called == method:
            return name_of(other) in ("pad_token_id", "pad_id")
    return False


def _loss_of(node: ast.ClassDef, found: list[Entry]) -> None:
    own = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "_compute_loss"), None)
    if own is not None:
        found.append(Entry("code.own_loss", f"{node.name}._compute_loss", own.lineno))


def _signature_of(function: Function, found: list[Entry]) -> None:
    """Report a reward function that does not accept ``**kwargs``, with the keyword arguments that it does not
    accept."""
    arguments = function.args
    if arguments.kwarg is not None:
        return
    taken = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
    missed = [name for name in PASSED if name not in taken]
    if missed:
        named = f"`{function.name}` accepts neither {' nor '.join([*missed, '**kwargs'])}"
        found.append(Entry("code.refused_rewards", named, function.lineno))
    else:
        found.append(Entry("code.strict_rewards", f"`{function.name}` does not accept **kwargs", function.lineno))
