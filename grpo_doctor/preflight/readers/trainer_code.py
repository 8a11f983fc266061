"""What the code around a `GRPOTrainer` says: reward functions that it cannot call, a loss that it never calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..entry import Entry
from .modules import name_of

TRAINERS = ("GRPOTrainer", "RLOOTrainer")
PASSED = ("prompts", "completions")
"""Names under which TRL has passed its arguments to a reward function since the first version."""
MANY = 50
"""Reward functions of one trainer that are looked at."""


def code_of(statements: Iterable[ast.stmt], calls: Iterable[tuple[str, ast.Call]]) -> list[Entry]:
    """What the statements and calls of a script say of its trainer, under keys that begin with ``code.``."""
    found: list[Entry] = []
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, node)
        elif isinstance(node, ast.ClassDef) and any(name_of(base) in TRAINERS for base in node.bases):
            _loss_of(node, found)
    given = [k.value for name, call in calls if name in TRAINERS for k in call.keywords if k.arg == "reward_funcs"]
    named = [item for value in given for item in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    for item in named[:MANY]:
        if isinstance(item, ast.Name) and item.id in functions:
            _signature_of(functions[item.id], found)
    return found


def _loss_of(node: ast.ClassDef, found: list[Entry]) -> None:
    own = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "_compute_loss"), None)
    if own is not None:
        found.append(Entry("code.own_loss", f"{node.name}._compute_loss", own.lineno))


def _signature_of(function: ast.FunctionDef | ast.AsyncFunctionDef, found: list[Entry]) -> None:
    """What a call by keywords would miss: without ``**kwargs`` every argument must be named."""
    arguments = function.args
    if arguments.kwarg is not None:
        return
    taken = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
    missed = [name for name in PASSED if name not in taken]
    if missed:
        named = f"{function.name}, which takes no {' and no '.join(missed)}"
        found.append(Entry("code.refused_rewards", named, function.lineno))
    else:
        found.append(Entry("code.strict_rewards", function.name, function.lineno))
