"""Finds objects that a trainer's functions use but that its adapter does not name: optimizers, their parameters, and
schedulers.

The search follows functions, closures, instances and the globals of the user's own files. It does not follow the code
of libraries. Of a library object, such as a trainer or a data loader, only attributes that are modules, optimizers,
schedulers, the user's own Python modules, or objects of the user's own classes are visited.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

MOST = 200_000
"""Maximum number of visited objects, because a dataset in memory may have millions of rows."""

WANTED = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)

_NO_STATE = (type, types.ModuleType, types.FunctionType)

_LIBRARIES = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__)))


class ReachableObjects(NamedTuple):
    """The objects that the search reached."""

    modules: list[torch.nn.Module]
    """Outermost modules with a parameter that one of the optimizers trains."""
    optimizers: list[torch.optim.Optimizer]
    schedulers: list[torch.optim.lr_scheduler.LRScheduler]
    own: list[Any]
    """Objects of the user's own classes, whose counters and buffers may change with every call."""
    whole: bool
    """Whether all reachable objects were visited."""


def reachable_objects(functions: Iterable[Callable[..., Any]]) -> ReachableObjects:
    """Return the optimizers, modules and schedulers that are reachable from functions, nearest first."""
    modules: list[torch.nn.Module] = []
    optimizers: list[torch.optim.Optimizer] = []
    schedulers: list[torch.optim.lr_scheduler.LRScheduler] = []
    kinds: list[tuple[type, list[Any]]] = list(zip(WANTED, (modules, optimizers, schedulers), strict=True))
    own: list[Any] = []
    everything, whole = _reached(functions)
    for one in everything:
        if issubclass(type(one), WANTED):  # isinstance could make a lazy proxy import a library
            next(found for kind, found in kinds if issubclass(type(one), kind)).append(one)
        elif hasattr(one, "__dict__") and not isinstance(one, _NO_STATE) and not of_library(type(one)):
            own.append(one)
    trained = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
    outer = [m for m in modules if any(id(p) in trained for p in m.parameters())]
    inner = {id(child) for m in outer for child in m.modules() if child is not m}
    return ReachableObjects([m for m in outer if id(m) not in inner], optimizers, schedulers, own, whole)


def _reached(functions: Iterable[Callable[..., Any]]) -> tuple[list[Any], bool]:
    """Return the objects that are reachable from functions, nearest first, and whether the list is complete."""
    known = {id(one): one for one in functions}
    left = deque(known.values())
    while left and len(known) < MOST:
        for other in _beyond(left.popleft()):
            if gc.is_tracked(other) and id(other) not in known and not of_library(other):
                known[id(other)] = other
                left.append(other)
    return list(known.values()), not left


def written_in(functions: Iterable[Callable[..., Any]]) -> tuple[list[str], list[str]]:
    """Return the texts and the regular expressions in the user's own code that is reachable from functions, nearest
    first."""
    texts: dict[str, None] = {}
    patterns: dict[str, None] = {}
    for one in _reached(functions)[0]:
        codes = [one.__code__] if isinstance(one, types.FunctionType) else []
        for code in codes:
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
            texts.update(dict.fromkeys(c for c in code.co_consts if isinstance(c, str)))
        if type(one) is dict or hasattr(one, "__dict__"):
            values = (one if type(one) is dict else vars(one)).values()
            patterns.update(dict.fromkeys(v.pattern for v in values if isinstance(v, re.Pattern)))
            texts.update(dict.fromkeys(v for v in values if type(v) is str))
    return list(texts), [p for p in patterns if isinstance(p, str)]


def _beyond(one: Any) -> Iterable[Any]:
    """Yield the objects that are directly reachable from an object."""
    kind = type(one)
    if kind.__module__ == "builtins" or kind is functools.partial or not of_library(kind):
        return gc.get_referents(one)
    kept = getattr(one, "__dict__", {}).values()
    return [v for v in kept if issubclass(type(v), WANTED) or not of_library(v if _is_module(v) else type(v))]


def _is_module(one: Any) -> bool:
    return type(one) is types.ModuleType


def of_library(one: Any) -> bool:
    """Return whether a module, class or function belongs to Python, an installed package or grpo-doctor."""
    kind = type(one)
    if kind is types.FunctionType:
        return _installed(one.__code__.co_filename)
    if kind is types.ModuleType or issubclass(kind, type):
        name = one.__name__ if kind is types.ModuleType else one.__module__
        module = sys.modules.get(str(name))
        if str(name).partition(".")[0] in sys.stdlib_module_names:
            return True
        return _installed(getattr(module, "__file__", None))
    return False


def _installed(file: str | None) -> bool:
    return file is not None and (file.startswith(_LIBRARIES) or "site-packages" in file or "dist-packages" in file)
