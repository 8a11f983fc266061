"""What the code around a `GRPOTrainer` says: reward functions that it cannot call, a loss that it never calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..entry import Launch

TRAINERS = ("GRPOTrainer", "RLOOTrainer")
PASSED = ("prompts", "completions")
"""Names under which TRL has passed its arguments to a reward function since the first version."""
MANY = 50
"""Reward functions of one trainer that are looked at."""


def add_code(launch: Launch, trees: Iterable[ast.Module]) -> None:
    """Adds what the syntax trees of a script say of its trainer, under keys that begin with ``code.``."""
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    given: list[ast.expr] = []
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    functions.setdefault(node.name, node)
                case ast.ClassDef() if any(_name(base) in TRAINERS for base in node.bases):
                    _loss_of(node, launch)
                case ast.Call() if _name(node.func) in TRAINERS:
                    given += [k.value for k in node.keywords if k.arg == "reward_funcs"]
    named = [item for value in given for item in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    for item in named[:MANY]:
        if isinstance(item, ast.Name) and item.id in functions:
            _signature_of(functions[item.id], launch)


def _loss_of(node: ast.ClassDef, launch: Launch) -> None:
    own = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "_compute_loss"), None)
    if own is not None:
        launch.add("code.own_loss", f"{node.name}._compute_loss", own.lineno)


def _signature_of(function: ast.FunctionDef | ast.AsyncFunctionDef, launch: Launch) -> None:
    """What a call by keywords would miss: without ``**kwargs`` every argument must be named."""
    arguments = function.args
    if arguments.kwarg is not None:
        return
    taken = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
    missed = [name for name in PASSED if name not in taken]
    if missed:
        launch.add(
            "code.refused_rewards", f"{function.name}, which takes no {' and no '.join(missed)}", function.lineno
        )
    else:
        launch.add("code.strict_rewards", function.name, function.lineno)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
