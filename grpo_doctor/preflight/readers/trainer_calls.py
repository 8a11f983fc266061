"""Finds arguments that TRL's GRPOTrainer does not accept, and reward functions that do not read the responses."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from ..custom_names import NAMES
from ..frameworks import known_fields
from ..launch import Entry
from .dataset import Function
from .modules import name_of

_OF_TRAINER = NAMES["trainer_arguments"]
TRAINER = _OF_TRAINER["class"]
"""Class whose calls are inspected."""
ACCEPTED, REFUSED = (frozenset(_OF_TRAINER[kind]) for kind in ("accepted", "refused"))
_COUNTS = ("len",)
"""Functions that read only the number of completions."""
_PAIRS = ("zip", "enumerate")
_HARMLESS = frozenset(dir(builtins)) - {"globals", "open", "input", "eval", "exec"}
"""Names that a reward function may use while its arguments remain its only source of values."""


def refused_arguments(script: Sequence[ast.stmt], calls: Sequence[tuple[str, ast.Call]]) -> Iterator[Entry]:
    """Yield the arguments of GRPOTrainer that belong to GRPOConfig or that no version accepts.

    Nothing is yielded if the class does not come from TRL, if Unsloth replaces the class, if the script catches the
    error, or if another call has only accepted arguments.
    """
    built = [call for name, call in calls if name == TRAINER and call.keywords]
    if not _from_trl(script) or any(id(call) in _caught(script) for call in built):
        return
    refused = [[k.arg for k in call.keywords if k.arg and _is_refused(k.arg)] for call in built]
    if built and all(refused):
        yield Entry("code.refused_arguments", ", ".join(refused[0]), built[0].lineno)


def _is_refused(name: str) -> bool:
    return name in REFUSED or (name in known_fields() and name not in ACCEPTED)


def _from_trl(script: Sequence[ast.stmt]) -> bool:
    """Return whether the script imports GRPOTrainer from TRL and does not import Unsloth, which replaces the class."""
    found = False
    for node in script:
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            found |= module == _OF_TRAINER["package"] and any(alias.name == TRAINER for alias in node.names)
        else:
            module = node.names[0].name.split(".")[0] if isinstance(node, ast.Import) else ""
        if module == _OF_TRAINER["replaced_by"]:
            return False
    return found


def _caught(script: Sequence[ast.stmt]) -> set[int]:
    """Return the ids of the calls in statements that handle an error, and in their handlers."""
    tried = (node for node in script if isinstance(node, ast.Try) and node.handlers)
    return {id(part) for node in tried for part in ast.walk(node) if isinstance(part, ast.Call)}


def constant_rewards(
    rewards: Sequence[Function], whole: bool, calls: Sequence[tuple[str, ast.Call]]
) -> Iterator[Entry]:
    """Yield the reward functions that give all responses to a prompt the same reward, because they do not read the
    responses. ``whole`` is True if the script passes no other reward function.

    Nothing is yielded if the trainer gets other values per response from custom rollout code.
    """
    built = [call for name, call in calls if name == TRAINER]
    if any(k.arg is None or k.arg in _OF_TRAINER["rollouts"] for call in built for k in call.keywords):
        return
    found = [function for function in rewards if _ignores_responses(function)]
    if found:
        yield Entry("code.constant_rewards", ", ".join(f.name for f in found), found[0].lineno)
    if found and whole and len(found) == len(rewards):
        yield Entry("code.only_constant_rewards", True, found[0].lineno)


def _ignores_responses(function: Function) -> bool:
    """Return whether a function reads at most the number of its responses, and otherwise only its other arguments."""
    given = function.args
    named = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    read = [n for n in names if isinstance(n.ctx, ast.Load)]
    own = {*named, *(n.id for n in names if isinstance(n.ctx, ast.Store))}
    of_response = {"completion_ids", "completions_ids", given.kwarg.arg if given.kwarg else "kwargs"}
    if "completions" not in named or any(n.id in of_response for n in read):
        return False
    if any(n.id not in own and n.id not in _HARMLESS for n in read) or any(map(_has_state, ast.walk(function))):
        return False
    parents = {child: parent for parent in ast.walk(function) for child in ast.iter_child_nodes(parent)}
    return all(_unread(use, parents, read) for use in read if use.id == "completions")


def _has_state(node: ast.AST) -> bool:
    return isinstance(node, ast.Global | ast.Nonlocal | ast.Import | ast.ImportFrom | ast.Yield)


def _unread(use: ast.Name, parents: dict[ast.AST, ast.AST], read: Sequence[ast.Name]) -> bool:
    """Return whether a use of the responses reads only their number: ``len(completions)``, or a loop whose variable is
    not used."""
    held, place = parents[use], -1
    source: ast.AST = use
    if isinstance(held, ast.Call) and name_of(held.func) in _COUNTS:
        return True
    if isinstance(held, ast.Call) and name_of(held.func) in _PAIRS and use in held.args:
        place = held.args.index(use) if name_of(held.func) == "zip" else 1
        held, source = parents[held], held
    if not isinstance(held, ast.For | ast.comprehension) or held.iter is not source:
        return False
    target = held.target
    if place >= 0:
        target = target.elts[place] if isinstance(target, ast.Tuple) and place < len(target.elts) else target
    return (
        isinstance(target, ast.Name)
        and (place < 0 or target is not held.target)
        and not any(n.id == target.id for n in read)
    )
