"""Runs a trainer's own training loop on prompts, responses and advantages that a probe chooses, up to its first updates.

Most trainers have no function that takes samples and advantages: one function samples, scores and normalises, another
computes the loss. Their code is therefore compiled with hooks at three places: where training data is read, where a
reward function receives its texts, and where advantages are assigned. Outside a pass, hooks change nothing.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.util
import inspect
import itertools
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from .crafted_inputs import complete, plain_ids, special_ids
from .entry_points import Ids, Prompt, Unseen
from .forced_draws import Ways
from .generations import Call, in_copies, recorded_generate, scripted_generate
from .intercept import Forward, forwards, replaced
from .discover import discover, is_advantage, is_prompt, resource
from .scripted_sampler import ScriptedSampler
from .script import Script, execute, read_before
from .trainer_objects import held

HOOKS = "_grpo_doctor_hooks"
READS = frozenset("choice choices enumerate iter len list next sample sorted tqdm zip".split())
"""Functions through whose arguments training data is read."""


MOST = 64
"""How often a pass may draw a sample before it is trained on."""


FEW = 8
"""Number of rows below which a list is not training data."""


class Finished(BaseException):
    """Ends a pass; not an `Exception`, which a trainer may catch."""


@dataclass
class Pass:
    """What one pass uses instead of the trainer's own data and advantages."""

    rows: list[Any]
    """The rows of the training data, by sample."""
    source: Any
    """The training data."""
    advantages: Tensor | None = None
    copies: int = 1
    whole: bool = False
    """Whether batches keep the trainer's own size: the samples then repeat."""
    drawn: int = 0
    texts: list[str] = field(default_factory=list)
    """What the tokenizer decoded after the first generation."""
    scored: Counter[str] = field(default_factory=Counter)
    """The number of rewards by function."""
    places: dict[int, int] = field(default_factory=dict)
    """The number of advantages that each place in the code has received."""
    zeroed: bool = False
    """Whether gradients were set to zero before the update."""
    done: bool = False
    """Whether every response was trained on."""

    def end(self) -> None:
        """End the pass if every response was trained on."""
        if self.done:
            raise Finished

    def draw(self, count: int) -> list[int]:
        """Return the next samples."""
        self.end()
        if self.drawn > MOST * len(self.rows):
            raise Unseen("the loop draws data again and again without training on it")
        first, self.drawn = self.drawn, self.drawn + count
        return [n % len(self.rows) for n in range(first, self.drawn)]


class Hooks:
    """The functions that the trainer's compiled code calls."""

    finished = Finished

    def __init__(self) -> None:
        self.now: Pass | None = None
        self.source: Any = None
        """The trainer's training data."""
        self.searching = False

    def data(self, value: Any, counted: bool = False) -> Any:
        """Return the samples of the pass in place of the training data, unless its rows are only counted."""
        if self.searching and not counted and _holds_rows(value):
            self.source = value
            raise Finished
        return value if self.now is None or counted or value is not self.source else Rows(self.now, len(value))

    def iterator(self, value: Any) -> Any:
        """Return an iterator that begins again in every pass."""
        return _Reopened(self, value)

    def scored(self, rewards: Any, function: str) -> Any:
        """Return rewards that differ within every group, because trainers skip a group of equal rewards."""
        if self.now is None:
            return rewards
        self.now.scored[function] += 1
        return _different(rewards, self.now.scored[function])

    def advantages(self, value: Any, place: int) -> Any:
        """Return the advantages of the pass in the form of the trainer's own."""
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
            return self.now.rows[int(key) % len(self.now.rows)]
        some = [self[int(n)] for n in (range(self.size)[key] if isinstance(key, slice) else key)]
        tabular = hasattr(self.now.source, "column_names") and some
        return {name: [row[name] for row in some] for name in some[0]} if tabular else some

    def select(self, indices: Any) -> list[Any]:
        """Return some rows, as in ``datasets``."""
        return [self[int(n)] for n in indices]

    def shuffle(self, *ignored: Any, **also_ignored: Any) -> Rows:
        """Keep the order."""
        return self


def _holds_rows(value: Any) -> bool:
    """Return whether an object is training data: a dataset, or a list of texts or records."""
    if not (isinstance(value, Dataset | list | tuple) or hasattr(value, "column_names")) or len(value) < FEW:
        return False
    return not isinstance(value, list | tuple) or isinstance(value[0], str | Mapping | tuple)


def _different(value: Any, first: int) -> Any:
    """Return a reward, or rewards, that alternate between 0 and 1."""
    if isinstance(value, bool | int | float):
        return float(first % 2)
    if isinstance(value, list | Tensor | np.ndarray) and all(isinstance(v, int | float) or v.ndim == 0 for v in value):
        rewards = [float((first + n) % 2) for n in range(len(value))]
        return (
            rewards
            if isinstance(value, list)
            else type(value)(rewards)
            if isinstance(value, Tensor)
            else np.array(rewards)
        )
    return value


def _count(value: Any, most: int) -> int:
    """Return the number of samples that a value of advantages is for."""
    if isinstance(value, Tensor | np.ndarray):
        size = int(np.prod(value.shape))
        return size if value.ndim != 2 or size == most or value.shape[0] == 1 else value.shape[0]
    return len(value) if isinstance(value, list | tuple) else 1


def _formed(value: Any, chosen: Tensor) -> Any:
    """Return advantages in the form of a value."""
    if isinstance(value, Tensor):
        like = chosen.to(value.device, value.dtype if value.is_floating_point() else torch.float32)
        return like.reshape(value.shape) if like.numel() == value.numel() else like[:, None].expand(value.shape).clone()
    if isinstance(value, np.ndarray):
        return _formed(torch.from_numpy(value), chosen).numpy()
    if isinstance(value, list | tuple):
        return type(value)(_formed(v, c[None]) for v, c in zip(value, chosen, strict=True))
    return float(chosen[0]) if isinstance(value, int | float | np.floating) else value


class _Hooked(ast.NodeTransformer):
    """Adds the hooks to a trainer's code."""

    def __init__(self, rewards: Collection[str], advantages: Callable[[str], bool]) -> None:
        self.rewards, self.named, self.places = rewards, advantages, 0

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

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        parts = [p for t in node.targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
        named = [p for p in parts if self.named(_name(p))]
        more = [ast.Assign([p], self._given(ast.parse(ast.unparse(p), mode="eval").body)) for p in named]
        return [node, *more]

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        self.generic_visit(node)
        if self.named(node.arg or "") and isinstance(node.value, ast.Call | ast.BinOp | ast.ListComp):
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
        if _name(node.func) == "iter" and len(node.args) == 1:
            return self._call("iterator", node.args[0])
        if _name(node.func) in READS:
            node.args = [self._read(a, _name(node.func) == "len") for a in node.args]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = None if node.value is None else self.visit(node.value)
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

    def __init__(self, name: str, path: str, hooked: Callable[[ast.Module], ast.Module], hooks: Hooks) -> None:
        super().__init__(name, path)
        self.hooked, self.hooks = hooked, hooks

    def get_code(self, fullname: str) -> Any:
        """Compile the source."""
        tree = ast.parse(self.get_data(self.path))
        return compile(self.hooked(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        vars(module)[HOOKS] = self.hooks
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the trainer's own modules."""

    def __init__(self, modules: Mapping[str, Path], load: Callable[[str, str], _Loader]) -> None:
        self.modules, self.load = modules, load

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return where a module is loaded from, or None if it is not the trainer's."""
        file = self.modules.get(fullname)
        return (
            None
            if file is None
            else importlib.util.spec_from_file_location(fullname, file, loader=self.load(fullname, str(file)))
        )


class TrainerLoop:
    """A trainer's objects and its training loop.

    Attributes:
        parts: the module in which the script's statements were executed.
        rollout: the entry point, or None if the loop could not be run.
        step: the entry point, or None.
    """

    def __init__(self, path: str | Path, *names: str, **given: Any) -> None:
        script = Script(Path(path))
        if script.loop is None:
            raise Unseen(f"{path}: no training loop was found")
        self.hooks = Hooks()
        rewards = {f.name.rpartition(".")[2] for f in discover(script) if f.seam == "reward"}
        edit = _Hooked(rewards, is_advantage).visit

        def hooked(tree: ast.Module) -> ast.Module:
            return ast.fix_missing_locations(edit(tree))

        files = {name: file for file, name in script.modules.items()}
        finder = _Finder(files, lambda name, file: _Loader(name, file, hooked, self.hooks))
        engines: list[ScriptedSampler] = []

        def engine(*ignored: Any, **also_ignored: Any) -> ScriptedSampler:
            engines.append(ScriptedSampler.__new__(ScriptedSampler))
            return engines[-1]

        library = sys.modules.get("vllm") or ("vllm" in script.imports() and importlib.import_module("vllm"))
        sys.meta_path.insert(0, finder)
        with ExitStack() as stack:
            stack.callback(sys.meta_path.remove, finder)
            if library:
                stack.enter_context(replaced(library, "LLM", engine))
            needed = script.needed([*names, *read_before(script.loop.node)], given)
            before = [s for s in needed if not s.in_loop and not s.first_pass]
            self.parts = execute(script, before, {HOOKS: self.hooks, **given}, hooked)
        self._pass = _compiled(hooked(ast.Module([script.loop.node], [])), script.loop.file)
        self._find_objects()
        for each in engines:
            each.__init__(self.tokenizer, self.model)  # type: ignore[misc]
        self.copies, self.whole = 1, False
        self.prompts: list[str] | None = None
        self.rollout: Callable[..., Any] | None = None
        self.step: Callable[..., Any] | None = None
        if (reason := self._unusable(False)) and (other := self._unusable(True)):
            both = "; ".join(dict.fromkeys((reason, other)))
            warnings.warn(f"the training loop cannot be run by itself: {both}", stacklevel=2)
        else:
            self.rollout, self.step = self._rollout, self._step

    def _find_objects(self) -> None:
        """Find the model, its tokenizer, optimizer and reference by name, or else by what they are."""
        parts = self.parts
        found = held([lambda: parts])
        inside = [vars(self.parts), *(vars(o) for o in found.own)]
        named = [(name, value) for scope in inside for name, value in scope.items()]
        self.optimizers = found.optimizers

        def first(kind: str, fits: Callable[[Any], bool]) -> Any:
            by_name = (v for n, v in named if resource(n) == kind and fits(v))
            return next(by_name, next((v for _, v in named if fits(v)), None))

        trained = {id(p) for o in self.optimizers for group in o.param_groups for p in group["params"]}

        def is_policy(value: Any) -> bool:
            parameters = value.parameters() if isinstance(value, torch.nn.Module) and hasattr(value, "generate") else ()
            return any(id(p) in trained for p in parameters)

        own = first("model", is_policy)
        self.model = own if own is not None else first("model", lambda v: isinstance(v, torch.nn.Module))
        known = set(self.model.modules()) if self.model is not None else set()
        self.optimizer = first("optimizer", lambda v: any(v is o for o in self.optimizers))
        self.tokenizer = first("tokenizer", lambda v: hasattr(v, "decode") and hasattr(v, "eos_token_id"))
        kinds = (type(self.model), type(next(iter(known - {self.model}), None)))
        self.reference = next(
            (v for n, v in named if resource(n) == "reference" and isinstance(v, kinds) and v not in known), None
        )

    def _find_prompts(self) -> list[str]:
        """Find the training data; return prompts of unequal length in it."""
        self.hooks.searching = True

        def found(loader: Any) -> Iterator[Any]:
            self.hooks.source = loader.dataset
            raise Finished

        try:
            with ExitStack() as stack:
                for kind in _readers():
                    stack.enter_context(replaced(kind, "__iter__", found))
                exec(self._pass, vars(self.parts))
        except Finished:
            pass
        finally:
            self.hooks.searching = False
        if self.hooks.source is None:
            raise Unseen("the loop reads no dataset or list of rows")
        rows = [self.hooks.source[n] for n in range(min(64, len(self.hooks.source)))]
        self.rows = {_label(row): row for row in rows}
        if len(self.rows) < 2:
            raise Unseen("the training data has fewer than two different rows")
        labels = sorted(self.rows, key=len)
        return [labels[n * (len(labels) - 1) // 3] for n in range(4)]

    def _unusable(self, whole: bool) -> str | None:
        """Run the loop with batches of any size, or of its own size (``whole``); return why that is impossible."""
        self.whole = whole
        try:
            answers = complete(plain_ids(self.tokenizer, self.model), [4], special_ids(self.tokenizer).eos) * 2
            self.prompts = self.prompts or self._find_prompts()
            with ExitStack() as stack:
                for optimizer in self.optimizers:
                    stack.enter_context(replaced(optimizer, "step", lambda *a, **k: None))
                two, ways = self.prompts[:2], Ways()
                rows, swapped = (
                    _sampled(ways(functools.partial(self._step, some, answers, torch.tensor([1.0, -1.0])), int))
                    for some in (two, two[::-1])
                )
            if [*dict.fromkeys(rows)][:2] != [*dict.fromkeys(swapped)][1::-1]:
                raise Unseen("the loop samples other prompts than those of its data")
            self.copies = len([*itertools.takewhile(rows[0].__eq__, rows)])
        except Exception as error:  # noqa: BLE001  (the trainer's own code may raise anything)
            return f"{type(error).__name__}: {error}"
        return None

    def _run(self, now: Pass, done: Callable[[], bool]) -> None:
        """Run the loop until ``done`` after an update. Without advantages, nothing is trained."""

        def batches(loader: Any) -> Iterator[Any]:
            if loader.dataset is not self.hooks.source:
                if hasattr(loader.batch_sampler, "drop_last"):
                    loader.batch_sampler.drop_last = False  # it would drop samples of the probe
                return next(read[kind] for kind in type(loader).__mro__ if kind in read)(loader)
            return chosen(loader)

        def chosen(loader: Any) -> Iterator[Any]:
            own = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
            size = own if now.whole and own else len(now.rows)
            collate = loader.collate_fn or default_collate
            while True:
                yield collate([now.rows[n] for n in now.draw(size)])

        def sample(population: Any, k: int = 1, **ignored: Any) -> list[Any]:
            return [population[n % len(population)] for n in now.draw(k)]

        def choice(population: Any, size: Any = None, *ignored: Any, **also_ignored: Any) -> Any:
            among = range(population) if isinstance(population, int | np.integer) else population
            return sample(among)[0] if size is None else np.array(sample(among, int(np.prod(size)))).reshape(size)

        def updated(step: Any) -> Callable[..., Any]:
            def stepped(*args: Any, **kwargs: Any) -> Any:
                found = None if now.advantages is None else step(*args, **kwargs)
                now.done = done()
                if now.zeroed:
                    now.end()
                return found

            return stepped

        def zeroed(zero: Any) -> Callable[..., Any]:
            def set_to_zero(*args: Any, **kwargs: Any) -> Any:
                zero(*args, **kwargs)
                now.end()
                now.zeroed = True

            return set_to_zero

        read = _readers()
        with ExitStack() as stack:
            for target, name, value in (
                *((kind, "__iter__", batches) for kind in read),
                (random, "sample", sample),
                (random, "choices", sample),
                (random, "choice", choice),
                (np.random, "choice", choice),
                (random, "shuffle", lambda rows: None),
                (torch, "randperm", lambda n, **ignored: torch.arange(n)),
                (np.random, "shuffle", lambda rows: None),
                (np.random, "permutation", lambda n: np.arange(n) if isinstance(n, int) else np.asarray(n)),
                *(() if now.advantages is not None else ((Tensor, "backward", lambda *a, **k: None),)),
                *((optimizer, "step", updated(optimizer.step)) for optimizer in self.optimizers),
                *((one, "zero_grad", zeroed(one.zero_grad)) for one in (self.model, *self.optimizers)),
            ):
                stack.enter_context(replaced(target, name, value))
            self.hooks.now = now
            try:
                exec(self._pass, vars(self.parts))
            except Finished:
                pass
            except Exception:
                if not now.done:  # afterwards, only logging and saving follow
                    raise
            finally:
                self.hooks.now = None

    def _rows(self, prompts: Sequence[Prompt]) -> list[Any]:
        return [self.rows[str(p)] for p in prompts]

    def _rollout(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return the texts that the trainer decodes from the sampled ids, which its reward function receives."""
        now, special = (
            Pass(self._rows(prompts), self.hooks.source, None, self.copies, self.whole),
            special_ids(self.tokenizer),
        )
        with in_copies(self.copies), recorded_generate(self.model, special.pad) as calls:

            def noted(decode: Any) -> Callable[..., Any]:
                def decoded(*args: Any, **kwargs: Any) -> Any:
                    with replaced(self.tokenizer, "decode", own):
                        found = decode(*args, **kwargs)
                    now.texts += ([found] if isinstance(found, str) else found) if calls else []
                    return found

                return decoded

            own = self.tokenizer.decode
            with (
                replaced(self.tokenizer, "batch_decode", noted(self.tokenizer.batch_decode)),
                replaced(self.tokenizer, "decode", noted(own)),
            ):
                self._run(now, lambda: len(now.texts) >= len(prompts) * self.copies)
        given = [row for call in calls for row in call.input_ids]
        texts = [self._without_prompt(text, row) for text, row in itertools.zip_longest(now.texts, given)]
        return texts[:: self.copies][: len(prompts)]

    def _without_prompt(self, text: str, prompt: Tensor | None) -> str:
        """Return the response in a text with which a reward function also receives the prompt."""
        for hidden in (False, True) if prompt is not None else ():
            text = text.removeprefix(self.tokenizer.decode(prompt, skip_special_tokens=hidden))
        return text

    def _step(self, prompts: Sequence[Prompt], responses: Sequence[Ids], advantages: Tensor) -> list[Call]:
        """Run the loop until every response was trained on; return what was sampled."""
        now = Pass(self._rows(prompts), self.hooks.source, advantages, self.copies, self.whole)
        special, trained = special_ids(self.tokenizer), set[tuple[int, ...]]()
        samples = {(str(p), *r) for p, r in zip(prompts, responses, strict=True)}

        def count(forward: Forward) -> None:
            now.end()
            ids, real = forward.input_ids, forward.attention_mask
            real = ids != special.pad if real is None else real > 0
            rows = zip(ids, real, strict=True) if forward.logits.requires_grad else ()
            trained.update(tuple(row[mask].tolist()) for row, mask in rows)

        with (
            in_copies(self.copies),
            scripted_generate(self.model, responses, special.pad, special.eos) as calls,
            forwards([self.model], count),
        ):

            self._run(now, lambda: len(trained) >= len(samples))
        if not now.done:
            raise Unseen("the loop ends before every response was trained on")
        if not any(now.places.values()):
            raise Unseen("no variable of the loop is called like advantages")
        return calls


def _sampled(calls: Sequence[Call]) -> list[tuple[int, ...]]:
    """Return the prompts for which responses were sampled, in order."""
    pairs = ((ids, real) for call in calls for ids, real in zip(call.input_ids, call.attention_mask, strict=True))
    return [tuple(ids[real > 0].tolist()) for ids, real in pairs]


def _readers() -> dict[type, Callable[..., Iterator[Any]]]:
    """Return the classes of data loaders, with the method that reads their data."""
    kinds: list[Any] = [DataLoader, *DataLoader.__subclasses__()]
    return {kind: vars(kind)["__iter__"] for kind in kinds if "__iter__" in vars(kind)}


def _label(row: Any) -> str:
    """Return the text by which a row of training data is known: its prompt, or else its first text."""
    if not isinstance(row, Mapping):
        return str(row)
    texts = {n: v for n, v in row.items() if isinstance(v, str)}
    return next((v for n, v in texts.items() if is_prompt(n)), next(iter(texts.values()), str(row)))


class _Unreturned(ast.NodeTransformer):
    """Replaces `return` in a statement of a function by the end of the pass."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.parse(f"raise {HOOKS}.finished").body[0]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_Lambda = visit_FunctionDef  # type: ignore[assignment]


def _compiled(tree: ast.Module, file: Path) -> CodeType:
    """Compile a statement of a function for a module."""
    return compile(ast.fix_missing_locations(_Unreturned().visit(tree)), str(file), "exec", dont_inherit=True)
