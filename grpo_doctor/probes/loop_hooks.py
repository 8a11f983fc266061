"""Compiles a trainer's code with hooks where it reads training data, returns rewards and assigns advantages.

Outside a pass of the training loop, the hooks change nothing.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from .discover import discover, is_advantage
from .entry_points import NotObserved
from .script import Loop, Script, unreturned

HOOKS = "_grpo_doctor_hooks"
READS = frozenset("choice choices enumerate iter len list next sample sorted tqdm zip".split())
"""Functions that read training data that is passed as an argument."""
DRAWS = frozenset("choice choices permutation sample shuffle".split())
"""Functions of random generators that draw or shuffle."""

MOST = 64
"""Maximum number of times that a pass may draw a sample before the sample is trained on."""

FEW = 4
"""Number of rows below which a list does not count as training data."""


class Finished(BaseException):
    """Raised to end a pass. It is not a subclass of `Exception`, because a trainer may catch every `Exception`."""


@dataclass
class Pass:
    """The samples and advantages that one pass of the loop uses in place of the trainer's own, and the progress of the
    pass."""

    rows: list[Any]
    """The rows of the training data, by sample."""
    source: Any
    """The training data."""
    advantages: Tensor | None = None
    copies: int = 1
    whole: bool = False
    """Whether batches keep the trainer's own size, in which case the samples repeat."""
    drawn: int = 0
    order: Iterator[int] = field(default_factory=itertools.count)
    """The order that replaces random choices."""
    indexed: dict[int, int] = field(default_factory=dict)
    """The sample that the trainer read at each index."""
    texts: list[str] = field(default_factory=list)
    """The texts that the tokenizer decoded after the first generation."""
    scored: Counter[str] = field(default_factory=Counter)
    """The number of calls of each reward function."""
    places: dict[int, int] = field(default_factory=dict)
    """The number of advantages that were assigned at each place in the code."""
    used: int = 0
    """The number of texts and advantages at the last call of `progresses`."""
    zeroed: bool = False
    """Whether gradients were set to zero before the update."""
    done: bool = False
    """Whether every response was trained on."""

    def end(self) -> None:
        """End the pass if every response was trained on."""
        if self.done:
            raise Finished

    def progresses(self) -> bool:
        """Return whether samples were decoded or trained on since the last call."""
        before, self.used = self.used, len(self.texts) + sum(self.places.values())
        return self.used > before

    def draw(self, count: int) -> list[int]:
        """Return the next samples."""
        self.end()
        if self.drawn > MOST * len(self.rows):
            raise NotObserved("the loop draws data again and again without training on it")
        first, self.drawn = self.drawn, self.drawn + count
        return [n % len(self.rows) for n in range(first, self.drawn)]


class Hooks:
    """The functions that the trainer's compiled code calls."""

    finished = Finished

    def __init__(self, script: Script) -> None:
        self.now: Pass | None = None
        self.source: Any = None
        """The trainer's training data."""
        self.searching: Callable[[], bool] = bool
        """Whether the training data is being searched."""
        self.modules = {name: file for file, name in script.modules.items()}
        rewards = {f.name.rpartition(".")[2] for f in discover(script) if f.seam == "reward"}
        self._edit = _Hooked(rewards)

    def added(self, tree: ast.Module) -> ast.Module:
        """Return the module with the hooks added."""
        hooked: ast.Module = self._edit.visit(tree)
        return ast.fix_missing_locations(hooked)

    def compiled(self, script: Script, loop: Loop) -> list[CodeType]:
        """Compile the statements of a pass with the hooks; a ``return`` ends the pass."""
        end = f"raise {HOOKS}.finished"
        nodes = [(script.line[n].node, script.line[n].file) for n in loop.before]
        trees = [(self.added(unreturned(node, end)), file) for node, file in (*nodes, (loop.node, loop.file))]
        return [compile(tree, str(file), "exec", dont_inherit=True) for tree, file in trees]

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Load the trainer's own modules with hooks inside the block."""
        finder = _Finder(self.modules, self)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)

    def data(self, value: Any, counted: bool = False) -> Any:
        """Return the samples of the pass in place of the training data. If only the length of the data is used, return
        the data itself."""
        if self.searching() and not counted and _holds_rows(value):
            self.source = value
            raise Finished
        if self.now is None or counted or self.source is None or value is not self.source:
            return value
        return Rows(self.now, len(value))

    def drawn(self, function: Any) -> Any:
        """Return a function that returns the next samples of the pass, in place of a function that draws or shuffles at
        random."""
        by_chance = isinstance(getattr(function, "__self__", None), _RANDOM)
        return _ordered(self.now)[function.__name__] if by_chance and self.now is not None else function

    def iterator(self, value: Any) -> Any:
        """Return an iterator that restarts in every pass."""
        return _Reopened(self, value)

    def listed(self, value: Any) -> Any:
        """Return a list of an iterable, or the samples of the pass, whose number is not fixed, in place of the training
        data."""
        found = self.data(value)
        return found if isinstance(found, Rows) else list(found)

    def scored(self, rewards: Any, function: str) -> Any:
        """Return rewards that differ within every group, because trainers skip a group of equal rewards."""
        if self.now is None:
            return rewards
        self.now.scored[function] += 1
        first, count = self.now.scored[function], _count(rewards, 0)
        return _formed(rewards, torch.tensor([float((first + n) % 2) for n in range(count)]))

    def advantages(self, value: Any, place: int) -> Any:
        """Return the advantages of the pass in the form of the trainer's advantages."""
        if self.now is None:
            return value
        if self.now.advantages is None:
            if len(self.now.texts) >= len(self.now.rows) * self.now.copies:
                raise Finished
            return value
        wanted = self.now.advantages.repeat_interleave(self.now.copies)
        count = _count(value, len(wanted))
        first = self.now.places.get(place, 0)
        self.now.places[place] = first + count
        chosen = wanted[[n % len(wanted) for n in range(first, first + count)]]
        return _formed(value, chosen)


class _Reopened:
    """An iterator over training data that begins again in every pass."""

    def __init__(self, hooks: Hooks, value: Any) -> None:
        self.hooks, self.value = hooks, value
        self.passed: Any = self
        self.left: Iterator[Any] = iter(())

    def __iter__(self) -> _Reopened:
        return self

    def __next__(self) -> Any:
        if self.passed is not self.hooks.now:
            self.passed, self.left = self.hooks.now, iter(self.hooks.data(self.value))
        return next(self.left)


class Rows(Dataset):  # type: ignore[type-arg]
    """The samples of a pass as a dataset of any size, whose columns can be read by name."""

    def __init__(self, now: Pass, size: int) -> None:
        self.now, self.size = now, size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return (self.now.rows[n] for n in iter(lambda: self.now.draw(1)[0], None))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return [row[key] for row in self.now.rows]
        if isinstance(key, int | np.integer):
            if int(key) not in self.now.indexed:  # in the order in which rows are read, because indices may be random
                self.now.indexed[int(key)] = self.now.draw(1)[0]
            return self.now.rows[self.now.indexed[int(key)]]
        some = [self[int(n)] for n in (range(self.size)[key] if isinstance(key, slice) else key)]
        tabular = hasattr(self.now.source, "column_names") and some
        return {name: [row[name] for row in some] for name in some[0]} if tabular else some

    def select(self, indices: Any) -> list[Any]:
        """Return the rows at these indices, as a dataset of ``datasets`` does."""
        return [self[int(n)] for n in indices]

    def shuffle(self, *ignored: Any, **also_ignored: Any) -> Rows:
        """Keep the order."""
        return self


_RANDOM = (random.Random, np.random.RandomState, np.random.Generator)


def _ordered(now: Pass) -> dict[str, Callable[..., Any]]:
    """Return replacements for the functions that draw or shuffle, by name. The replacements keep the order of the
    samples."""

    def sample(population: Any, k: int = 1, **ignored: Any) -> list[Any]:
        return [population[next(now.order) % len(population)] for _ in range(k)]

    def choice(population: Any, size: Any = None, *ignored: Any, **also_ignored: Any) -> Any:
        among = range(population) if isinstance(population, int | np.integer) else population
        return sample(among)[0] if size is None else np.array(sample(among, int(np.prod(size)))).reshape(size)

    return {
        "sample": sample,
        "choices": sample,
        "choice": choice,
        "permutation": lambda rows, **ignored: np.arange(rows) if isinstance(rows, int) else np.asarray(rows),
        "shuffle": lambda rows, *ignored: None,
    }


def _holds_rows(value: Any) -> bool:
    """Return whether an object is training data: a dataset, or a list of texts or records."""
    if not (isinstance(value, Dataset | list | tuple) or hasattr(value, "column_names")) or len(value) < FEW:
        return False
    return not isinstance(value, list | tuple) or isinstance(value[0], str | Mapping | tuple)


def _count(value: Any, most: int) -> int:
    """Return the number of samples to which a value with advantages or rewards belongs."""
    if isinstance(value, Tensor | np.ndarray):
        size = int(np.prod(value.shape))
        return size if value.ndim != 2 or size == most or value.shape[0] == 1 else value.shape[0]
    return len(value) if isinstance(value, list) else 1


def _formed(value: Any, chosen: Tensor) -> Any:
    """Return these numbers in the type and shape of a value."""
    if isinstance(value, Tensor):
        like = chosen.to(value.device, value.dtype if value.is_floating_point() else torch.float32)
        return like.reshape(value.shape) if like.numel() == value.numel() else like[:, None].expand(value.shape).clone()
    if isinstance(value, np.ndarray):
        return _formed(torch.from_numpy(value), chosen).numpy()
    if isinstance(value, list):
        return [_formed(v, c[None]) for v, c in zip(value, chosen.expand(len(value)), strict=True)]
    return float(chosen[0]) if isinstance(value, int | float | np.floating) else value


class _Hooked(ast.NodeTransformer):
    """Adds the hooks to a trainer's code."""

    def __init__(self, rewards: Collection[str]) -> None:
        self.rewards, self.places = rewards, 0

    def _call(self, name: str, *args: ast.expr) -> ast.expr:
        return ast.Call(ast.Attribute(ast.Name(HOOKS, ast.Load()), name, ast.Load()), list(args), [])

    def _given(self, value: ast.expr) -> ast.expr:
        self.places += 1
        return self._call("advantages", value, ast.Constant(self.places))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        for n in ast.walk(node) if node.name in self.rewards else ():
            if isinstance(n, ast.Return) and n.value is not None:
                n.value = self._call("scored", n.value, ast.Constant(node.name))
        return node

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> Any:
        self.generic_visit(node)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if node.value else []
        parts = [p for t in targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
        named = [p for p in parts if is_advantage(_name(p))]
        more = [ast.Assign([p], self._given(ast.parse(ast.unparse(p), mode="eval").body)) for p in named]
        return [node, *more]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self.visit_Assign(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        if is_advantage(node.arg or "") and isinstance(node.value, ast.Call | ast.BinOp | ast.ListComp):
            node.value = self._given(node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._read(node.iter)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._read(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = _name(node.func)
        if name in ("iter", "list") and isinstance(node.func, ast.Name) and len(node.args) == 1:
            return self._call("iterator" if name == "iter" else "listed", node.args[0])
        if name in DRAWS:
            node.func = self._call("drawn", node.func)
        if name in READS:
            node.args = [self._read(a, name == "len") for a in node.args]
        return node

    def _read(self, value: ast.expr, counted: bool = False) -> ast.expr:
        given = (value, ast.Constant(True)) if counted else (value,)
        return self._call("data", *given) if isinstance(value, ast.Name | ast.Attribute) else value


def _name(node: ast.AST) -> str:
    """Return the name of a variable, an attribute or a constant key."""
    key = node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else ""
    return str(getattr(node, "id", getattr(node, "attr", key)))


class _Loader(SourceFileLoader):
    """Loads one of the trainer's own modules with hooks, without a bytecode cache."""

    def __init__(self, name: str, path: str, hooks: Hooks) -> None:
        super().__init__(name, path)
        self.hooks = hooks

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source."""
        tree = self.hooks.added(ast.parse(self.get_data(self.path)))
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        vars(module)[HOOKS] = self.hooks
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the trainer's own modules."""

    def __init__(self, modules: Mapping[str, Path], hooks: Hooks) -> None:
        self.modules, self.hooks = modules, hooks

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the location from which a module is loaded, or None if the module is not the trainer's."""
        if (file := self.modules.get(fullname)) is None:
            return None
        loader = _Loader(fullname, str(file), self.hooks)
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)
