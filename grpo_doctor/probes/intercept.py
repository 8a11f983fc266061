"""Models that are watched or scripted inside a block, whoever calls them and however.

Trainers call ``model(...)``, ``model.forward(...)`` or backbone and head apart, generate with the model inside a LoRA
wrapper, with a copy of it, or with a loop of their own. So not one object is changed but the class of the language
model inside the adapter's model, and its copies are seen too. Everything is undone when the block ends.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .craft import pad_left, pad_right
from .seams import Ids, Unjudged


def language_model(model: Any) -> Any:
    """The causal language model inside wrappers for data parallelism, compilation and adapters."""
    for _ in range(8):
        if isinstance(getattr(model, "_orig_mod", None), torch.nn.Module):
            model = model._orig_mod
        elif callable(getattr(model, "get_base_model", None)):
            model = model.get_base_model()
        elif isinstance(getattr(model, "module", None), torch.nn.Module):
            model = model.module
        else:
            break
    return model


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of one instance or class, replaced inside the block."""
    missing = object()
    put, drop = (setattr, delattr) if isinstance(target, type) else (object.__setattr__, object.__delattr__)
    before = vars(target).get(name, missing)
    put(target, name, value)
    try:
        yield
    finally:
        if before is missing:
            drop(target, name)
        else:
            put(target, name, before)


class _Inside:
    """Whether a call that is handled is under way: the calls that it makes itself are left alone."""

    def __init__(self) -> None:
        self.now = False


def _outermost(function: Callable[..., Any], handle: Callable[..., Any], inside: _Inside, owner: Any) -> Any:
    """A function, or a method where ``owner`` is None, whose calls go to ``handle(call, module, *args, **kwargs)``."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if inside.now:
            return function(*args, **kwargs)
        inside.now = True
        try:
            if owner is not None:
                return handle(function, owner, *args, **kwargs)
            return handle(functools.partial(function, args[0]), *args, **kwargs)
        finally:
            inside.now = False

    return wrapped


@contextmanager
def _around(name: str, models: Sequence[Any], handle: Callable[..., Any], *kinds: type) -> Iterator[_Inside]:
    """Calls of a method of these models, of all models of their classes and of ``kinds``, go to ``handle``."""
    inside = _Inside()
    owners = [next((k for k in type(m).__mro__ if name in vars(k)), None) for m in models]
    with ExitStack() as stack:
        for owner in dict.fromkeys([*kinds, *owners]):
            if owner is not None and owner is not torch.nn.Module:
                stack.enter_context(replaced(owner, name, _outermost(vars(owner)[name], handle, inside, None)))
        for model in models:
            own = vars(model).get(name)  # set on the instance, as accelerate does for autocast
            if own is not None:
                stack.enter_context(replaced(model, name, _outermost(own, handle, inside, model)))
        yield inside


# forwards ---------------------------------------------------------------------------------------------------------


class Forward(NamedTuple):
    """One forward of a language model."""

    module: Any
    input_ids: Tensor
    """(N, T)"""
    attention_mask: Tensor | None
    """(N, T); None where the model got none, or one of another shape."""
    logits: Tensor
    """(N, T or fewer, V): of the last positions where there are fewer."""


def _logits_in(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output if output.ndim == 3 else None
    if hasattr(output, "keys"):
        found = output.get("logits")
        return found if isinstance(found, Tensor) else None
    if isinstance(output, tuple | list):
        return next((o for o in output if isinstance(o, Tensor) and o.ndim == 3 and o.is_floating_point()), None)
    found = getattr(output, "logits", None)
    return found if isinstance(found, Tensor) else None


def logits_of(model: Any, ids: Tensor, real: Tensor) -> Tensor:
    """Logits (N, T, V) of a model for ids (N, T) and their attention mask, positions counted without padding."""
    takes = inspect.signature(language_model(model).forward).parameters
    given = {"input_ids": ids, "attention_mask": real, "position_ids": (real.cumsum(-1) - 1).clamp(min=0)}
    if "input_ids" in takes:
        output = model(**{name: value for name, value in given.items() if name in takes})
    else:
        output = model(ids)
    logits = _logits_in(output)
    if logits is None:
        raise Unjudged("the model's forward returns no logits")
    return logits


def _with_logits(output: Any, logits: Tensor) -> Any:
    if isinstance(output, Tensor):
        return logits
    if isinstance(output, tuple | list):
        at = next(n for n, o in enumerate(output) if isinstance(o, Tensor) and o.ndim == 3 and o.is_floating_point())
        return type(output)([*output[:at], logits, *output[at + 1 :]])
    output = copy.copy(output)
    if hasattr(output, "keys"):
        output["logits"] = logits
    else:
        output.logits = logits
    return output


def _given(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor | None] | None:
    """Ids (N, T) and attention mask that a forward was given."""
    ids = kwargs.get("input_ids")
    if ids is None:
        ids = next((a for a in args if isinstance(a, Tensor) and not a.is_floating_point() and a.ndim == 2), None)
    if not isinstance(ids, Tensor) or ids.ndim != 2:
        return None
    at = next((n for n, a in enumerate(args) if a is ids), None)
    real = kwargs.get("attention_mask", args[at + 1] if at is not None and len(args) > at + 1 else None)
    return ids, real if isinstance(real, Tensor) and real.shape == ids.shape else None


@contextmanager
def forwards(models: Sequence[Any], handle: Callable[[Forward], Tensor | None]) -> Iterator[None]:
    """Every forward with ids and logits inside the block goes to ``handle``, which may return other logits."""
    pending: list[tuple[Tensor, Tensor | None]] = []
    known = list(dict.fromkeys(language_model(m) for m in models if m is not None))
    handled = 0

    def whole(call: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal handled
        before = handled
        output = call(*args, **kwargs)
        given, logits = _given(args, kwargs), _logits_in(output)
        if given is None or logits is None or handled != before:
            return output
        handled += 1
        changed = handle(Forward(module, *given, logits))
        return output if changed is None else _with_logits(output, changed)

    with ExitStack() as stack:
        inside = stack.enter_context(_around("forward", known, whole))
        for owner, name in dict.fromkeys(pair for m in known for pair in _own_methods(m)):
            stack.enter_context(replaced(owner, name, _watched_method(vars(owner)[name], whole)))

        def backbone(module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            given = None if inside.now else _given(args, kwargs)
            if given is not None:
                pending[:] = [given]

        def head(module: Any, args: Any, output: Any) -> Any:
            if inside.now or not pending or not isinstance(output, Tensor) or output.ndim != 3:
                return None
            ids, real = pending[0]
            return handle(Forward(module, ids, real, output)) if len(output) == len(ids) else None

        for model in known:
            inner, last = getattr(model, "base_model", None), _head_of(model)
            if isinstance(inner, torch.nn.Module) and inner is not model and last is not None:
                stack.callback(inner.register_forward_hook(backbone, with_kwargs=True).remove)
                stack.callback(last.register_forward_hook(head).remove)
        yield


def _own_methods(model: Any) -> list[tuple[type, str]]:
    """Public methods beside `forward` of a model that is not of transformers: one with a cache may be called
    ``inference`` or ``step``."""
    kinds = [k for k in type(model).__mro__ if issubclass(k, torch.nn.Module) and k is not torch.nn.Module]
    if any(k.__module__.startswith(("transformers.", "peft.")) for k in kinds):
        return []
    return [
        (kind, name)
        for kind in kinds
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_") and name != "forward"
    ]


def _watched_method(function: Callable[..., Any], handle: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose calls go to ``handle``, which leaves alone those that make a forward themselves."""

    @functools.wraps(function)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return handle(functools.partial(function, self), self, *args, **kwargs)

    return wrapped


def _head_of(model: Any) -> torch.nn.Module | None:
    found = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    return found if isinstance(found, torch.nn.Module) else None


@contextmanager
def watched(*models: Any) -> Iterator[list[Forward]]:
    """Every forward inside the block that was given ids and returned logits; their gradients are kept."""
    seen: list[Forward] = []

    def keep(forward: Forward) -> None:
        if forward.logits.requires_grad:
            forward.logits.retain_grad()
        seen.append(forward)

    with forwards(models, keep):
        yield seen


@contextmanager
def scripted_logits(model: Any, row: Callable[[int], Tensor]) -> Iterator[None]:
    """Every forward gives the logits ``row(n)`` (V,) at all positions, n being how many forwards came before.

    Raises `Unjudged` at the block's end where there was none.
    """
    count = 0

    def script(forward: Forward) -> Tensor:
        nonlocal count
        scripted = row(count).to(forward.logits).expand_as(forward.logits).clone()
        count += 1
        return scripted

    with forwards([model], script):
        yield
    if not count:
        raise Unjudged("the sampler makes no forward of the adapter's model, so its logits cannot be scripted")


class Precision:
    """In which precision the modules of a block computed."""

    def __init__(self) -> None:
        self.half: torch.dtype | None = None

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.dtype in (torch.bfloat16, torch.float16):
            self.half = output.dtype


@contextmanager
def precision() -> Iterator[Precision]:
    """Tells whether any module computed in half precision inside the block, by its own weights or under autocast."""
    found = Precision()
    handle = torch.nn.modules.module.register_module_forward_hook(found)
    try:
        yield found
    finally:
        handle.remove()


# generation -------------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """What a generation was given."""

    input_ids: Tensor
    attention_mask: Tensor
    module: Any
    served: list[Ids]
    """What it answered, row by row."""
    looped: bool = False
    """Whether the trainer has a sampling loop of its own, in place of ``generate``."""


@contextmanager
def generations(model: Any, handle: Callable[..., Any]) -> Iterator[None]:
    """Every ``generate`` inside the block goes to ``handle(generate, module, *args, **kwargs)``: of the adapter's
    model, of the language model in it, and of any other model of transformers."""
    library = sys.modules.get("transformers.generation.utils")
    known = [] if model is None else list(dict.fromkeys([language_model(model), model]))
    kinds = [] if library is None else [library.GenerationMixin]
    with _around("generate", [m for m in known if m is language_model(m) or "generate" in vars(m)], handle, *kinds):
        yield


SERVING: list[Callable[[Tensor, Tensor, Any], list[Ids]]] = []
"""What answers a `ScriptedSampler` now, the innermost last."""


@contextmanager
def scripted_generate(model: Any, responses: Sequence[Ids], pad: int, end: int | None = None) -> Iterator[list[Call]]:
    """Generation returns its prompts followed by these responses, in order, over all calls of the block.

    A sampler with a loop of its own, that never calls ``generate``, is given logits that leave it no other choice.
    """
    calls: list[Call] = []
    served = 0
    generates = False

    def serve(ids: Tensor, real: Tensor, module: Any) -> list[Ids]:
        nonlocal served
        rows = [list(responses[(served + n) % len(responses)]) for n in range(len(ids))]
        served += len(ids)
        calls.append(Call(ids, real, module, rows, not generates))
        return rows

    def generate(call: Any, module: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        nonlocal generates
        generates = True
        ids = kwargs.get("input_ids", kwargs.get("inputs", inputs))
        times = int(asked(kwargs, "num_return_sequences") or 1)
        ids = ids.repeat_interleave(times, 0)
        real = kwargs.get("attention_mask")
        real = (ids != pad).long() if real is None else real.repeat_interleave(times, 0)
        tokens = torch.cat([ids, pad_right(serve(ids, real, module), pad, ids.device)], 1)
        if not asked(kwargs, "return_dict_in_generate"):
            return tokens
        with torch.no_grad():
            logits = logits_of(module, tokens, torch.cat([real, (tokens[:, ids.shape[1] :] != pad).to(real)], 1))
        return _Generated(tokens, logits[:, ids.shape[1] - 1 : -1], float(asked(kwargs, "temperature") or 1.0))

    def extend(given: list[Ids]) -> None:
        ids, real = pad_left(given, pad)
        calls[-1] = calls[-1]._replace(input_ids=ids, attention_mask=real)

    loop = _Loop(serve, extend, pad, pad if end is None else end)

    def script(forward: Forward) -> Tensor | None:
        return None if generates or forward.logits.requires_grad else loop(forward)

    SERVING.append(serve)
    try:
        with generations(model, generate), forwards([model] if model is not None else [], script):
            yield calls
    finally:
        SERVING.remove(serve)


def asked(kwargs: dict[str, Any], name: str) -> Any:
    """What a call of ``generate`` asks for, by argument or by its configuration."""
    value = kwargs.get(name)
    return getattr(kwargs.get("generation_config"), name, None) if value is None else value


@contextmanager
def recorded_generate(model: Any, pad: int) -> Iterator[list[Call]]:
    """What every generation inside the block was given and answered."""
    calls: list[Call] = []

    def generate(call: Any, module: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        given = () if inputs is None else (inputs, *args)
        found = call(*given, **kwargs)
        ids = kwargs.get("input_ids", kwargs.get("inputs", inputs))
        tokens = found if isinstance(found, Tensor) else found.sequences
        times = len(tokens) // len(ids)
        real = kwargs.get("attention_mask")
        real = (ids != pad).long() if real is None else real
        new = tokens[:, ids.shape[1] :].tolist()
        calls.append(Call(ids.repeat_interleave(times, 0), real.repeat_interleave(times, 0), module, new))
        return found

    with generations(model, generate):
        yield calls


def copies_that_generate(sample: Callable[[], Any], model: Any, pad: int) -> list[torch.nn.Module]:
    """The models that a sampler generates with and that are not the adapter's own."""
    with scripted_generate(model, [[pad]], pad) as calls:
        sample()
    own = set(model.modules()) if isinstance(model, torch.nn.Module) else set()
    found = (language_model(call.module) for call in calls)
    return [m for m in dict.fromkeys(found) if isinstance(m, torch.nn.Module) and m not in own]


class _Loop:
    """The logits for a sampling loop: one token of each row's response a forward, with or without a cache.

    A loop that begins at the shortest prompt puts the rest of the longer ones in place of what was sampled: only after
    them a row's response begins.
    """

    def __init__(
        self, serve: Callable[..., list[Ids]], extend: Callable[[list[Ids]], None], pad: int, end: int
    ) -> None:
        self.serve, self.extend, self.pad, self.end = serve, extend, pad, end
        self.rows: list[Ids] = []
        self.given: list[Ids] = []
        self.said: list[int] = []
        """How many tokens of its response each row has said."""
        self.shape = (0, 0)

    def __call__(self, forward: Forward) -> Tensor:
        ids, real = forward.input_ids, forward.attention_mask
        count, width = ids.shape
        if self.rows and count == self.shape[0] and (width == 1 or width == self.shape[1] + 1):
            self._go_on(ids[:, -1].tolist())
        else:
            real = (ids != self.pad).long() if real is None else real
            self.rows, self.said = self.serve(ids, real, forward.module), [0] * count
            self.given = [row[r > 0].tolist() for row, r in zip(ids, real, strict=True)]
        self.shape = (count, width)
        scripted = torch.full_like(forward.logits, -1e4)
        for n, row in enumerate(self.rows):
            scripted[n, :, row[self.said[n]] if self.said[n] < len(row) else self.end] = 1e4
        return scripted

    def _go_on(self, fed: Sequence[int]) -> None:
        extended = False
        for n, (token, row) in enumerate(zip(fed, self.rows, strict=True)):
            said = self.said[n]
            over = said >= len(row)
            # whatever fills up a row that has ended; a lone end token may have been one of the prompt's
            filled = over and (len(row) > 1 or token in (self.end, self.pad))
            if filled or (not over and token == row[said]):
                self.said[n] += 1
            else:  # not what was sampled: the row is still in its prompt
                self.given[n] += [*row[:said], token]
                self.said[n] = 0
                extended = True
        if extended:
            self.extend(self.given)


class _Generated:
    """What ``generate`` returns as a mapping: logits and scores (N, V) a step are the model's own for these tokens."""

    def __init__(self, sequences: Tensor, logits: Tensor, temperature: float) -> None:
        self.sequences = sequences
        self.logits = tuple(logits.unbind(1))
        self.scores = tuple((logits / temperature).unbind(1))
        self.past_key_values = None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)
