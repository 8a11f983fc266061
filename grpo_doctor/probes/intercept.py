"""Records or scripts models inside a block, regardless of how they are called.

Trainers call ``model(...)``, ``model.forward(...)``, or the backbone and the head separately. They generate with the
model inside a LoRA wrapper, with a copy of the model, or with their own loop. Therefore, the class of the language
model is patched instead of one object, so that the patches also apply to copies. All patches are undone when the block
ends.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch._functorch import eager_transforms
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from .entry_points import Unjudged
from .output_heads import PRODUCTS, Heads

T = TypeVar("T")


def language_model(model: Any) -> Any:
    """Return the causal language model inside wrappers for data parallelism, compilation and adapters."""
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
    """Replace an attribute of one instance or class inside the block."""
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


@contextmanager
def kept_in(stack: list[T], item: T) -> Iterator[T]:
    """Keep an item at the end of a list inside the block."""
    stack.append(item)
    try:
        yield item
    finally:
        stack.pop()


class _Inside:
    """Re-entrancy guard: nested calls are not intercepted."""

    def __init__(self) -> None:
        self.now = False


def _outermost(function: Callable[..., Any], handle: Callable[..., Any], inside: _Inside, owner: Any) -> Any:
    """Wrap a function, or a method if ``owner`` is None, so that only outermost calls go to ``handle(call, module,
    *args, **kwargs)``."""

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
def around(name: str, models: Sequence[Any], handle: Callable[..., Any], *kinds: type) -> Iterator[_Inside]:
    """Redirect calls of a method to ``handle``, for these models, for all models of the same classes, and for the
    classes ``kinds``."""
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


# forward passes ----------------------------------------------------------------------------------------------------


class Forward(NamedTuple):
    """One forward pass of a language model."""

    module: Any
    input_ids: Tensor
    """(N, T)"""
    attention_mask: Tensor | None
    """(N, T); None if the model received no mask, or a mask of another shape."""
    logits: Tensor
    """(N, T or fewer, V); if there are fewer, they belong to the last positions."""
    states: Tensor | None = None
    """(N, T, H): the input of a head that is called separately. If the head computes its own gradient, the gradient on
    the logits is derived from the gradient on the states."""

    @property
    def gradient(self) -> Tensor | None:
        """(N, T or fewer, V): the gradient of the logits, or None if autograd did not keep it."""
        return self.logits.grad if self.logits.is_leaf or self.logits.retains_grad else None


def logits_in(output: Any) -> Any:
    """Return the logits (N, T, V) in the result of a forward pass, or None if the result has no logits."""
    if isinstance(output, Tensor):
        return output if output.ndim == 3 else None
    if hasattr(output, "keys"):
        found = output.get("logits")
        return found if isinstance(found, Tensor) else None
    if isinstance(output, tuple | list):
        return next((o for o in output if isinstance(o, Tensor) and o.ndim == 3 and o.is_floating_point()), None)
    found = getattr(output, "logits", None)
    return found if isinstance(found, Tensor) else None


BESIDE_PROMPTS: dict[tuple[int, ...], dict[str, Tensor]] = {}
"""Inputs that a trainer passes with each prompt in addition to ids: pixel values, image grids, audio features."""


def extra_inputs(model: Any, ids: Tensor, real: Tensor, given: dict[str, Any]) -> dict[str, Tensor]:
    """Return the inputs that generation from prompts (N, P) received in addition to ids. If all rows are copies of one
    prompt, remember its inputs."""
    takes = inspect.signature(language_model(model).forward).parameters
    beside = {n: v for n, v in given.items() if n in takes and n not in _TEXT and isinstance(v, Tensor)}
    if bool((ids == ids[:1]).all()):
        prompt = tuple(ids[0][real[0] > 0].tolist())
        BESIDE_PROMPTS[prompt] = {n: v[: len(v) // len(ids)] for n, v in beside.items()}
    return beside


def _remembered_inputs(ids: Tensor, real: Tensor) -> dict[str, Tensor]:
    """Return the inputs that `extra_inputs` remembered for the prompts with which the rows begin, concatenated."""
    rows = [tuple(row[r > 0].tolist()) for row, r in zip(ids, real, strict=True)] if BESIDE_PROMPTS else []
    known = [max((p for p in BESIDE_PROMPTS if row[: len(p)] == p), key=len, default=()) for row in rows]
    found = [BESIDE_PROMPTS[prompt] for prompt in known if prompt]
    names = dict.fromkeys(name for beside in found for name in beside)
    return {name: torch.cat([beside[name] for beside in found if name in beside]) for name in names}


_TEXT = ("input_ids", "inputs", "inputs_embeds", "attention_mask", "position_ids", "cache_position")


def logits_of(model: Any, ids: Tensor, real: Tensor, beside: dict[str, Tensor] | None = None) -> Tensor:
    """Return a model's logits (N, T, V) for ids (N, T) and their attention mask; position ids do not count padding.

    Images and similar inputs are passed with the ids: the given inputs or, if none are given, the inputs of the earlier
    generation from the same prompts. A model without an attention mask receives each row separately, without padding.
    """
    takes = inspect.signature(language_model(model).forward).parameters
    if "attention_mask" not in takes and not bool(real.all()):
        rows = [logits_of(model, row[None, r > 0], r[None, r > 0])[0] for row, r in zip(ids, real, strict=True)]
        table = rows[0].new_zeros(*ids.shape, rows[0].shape[-1])
        return table.masked_scatter(real[..., None] > 0, torch.cat(rows))
    given: dict[str, Any] = {
        "input_ids": ids,
        "attention_mask": real,
        "position_ids": (real.cumsum(-1) - 1).clamp(min=0),
    }
    given |= {"targets": ids, "start_pos": 0}  # without targets, some models return only the last logits
    known = {name: value for name, value in given.items() if name in takes}
    known |= _remembered_inputs(ids, real) if beside is None else beside
    output = model(**known) if "input_ids" in takes else model(ids, **known)
    logits: Tensor | None = logits_in(output)
    if logits is None or logits.shape[1] != ids.shape[1]:
        raise Unjudged("the model's forward pass returns no logits, or not the logits of all positions")
    return logits


def with_logits(output: Any, logits: Tensor) -> Any:
    """Return the result of a forward pass with other logits."""
    if isinstance(output, Tensor):
        return logits
    if isinstance(output, tuple | list):
        at = next(n for n, o in enumerate(output) if isinstance(o, Tensor) and o.ndim == 3 and o.is_floating_point())
        return type(output)([*output[:at], logits, *output[at + 1 :]])
    if hasattr(output, "keys"):
        output["logits"] = logits
    else:
        output.logits = logits
    return output


def _ids_and_mask(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor | None] | None:
    """Return the ids (N, T) and the attention mask of a forward call, or None for an encoder-decoder model."""
    if kwargs.get("decoder_input_ids") is not None or kwargs.get("encoder_outputs") is not None:
        return None
    ids = kwargs.get("input_ids")
    if ids is None:
        named = [value for name, value in kwargs.items() if name not in _BESIDE_IDS]
        ids = next((a for a in (*args, *named) if isinstance(a, Tensor) and not _is_float(a) and a.ndim == 2), None)
    if not isinstance(ids, Tensor) or ids.ndim != 2:
        return None
    at = next((n for n, a in enumerate(args) if a is ids), None)
    real = kwargs.get("attention_mask", args[at + 1] if at is not None and len(args) > at + 1 else None)
    return ids, real if isinstance(real, Tensor) and real.shape == ids.shape and _is_mask(real) else None


_BESIDE_IDS = ("attention_mask", "position_ids", "labels", "targets")
"""Arguments of a forward call that are shaped like ids but are not ids."""


def _is_float(given: Tensor) -> bool:
    return given.is_floating_point() or given.dtype == torch.bool


def _is_mask(given: Tensor) -> bool:
    """Return whether a tensor (N, T) contains 0 or 1 for every token, because a model may receive labels in place of a
    mask."""
    return bool(((given == 0) | (given == 1)).all())


@contextmanager
def forwards(models: Sequence[Any], handle: Callable[[Forward], Tensor | None]) -> Iterator[None]:
    """Redirect every forward pass with ids and logits inside the block to ``handle``, which may return other logits."""
    known = list(dict.fromkeys(language_model(m) for m in models if m is not None))
    handled = 0
    silent: set[tuple[Any, ...]] = set()
    """Signatures of calls in which a model returned no logits."""

    def whole(call: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal handled
        before, asked = handled, (id(module), len(args), *sorted(kwargs))
        with heads.opened() if asked in silent else nullcontext():
            output = call(*args, **kwargs)
        given, logits = _ids_and_mask(args, kwargs), logits_in(output)
        if given is None or handled != before:
            return output
        if logits is None and _is_loss(output):
            return _of_its_loss(call, module, args, kwargs, given, handle)
        if logits is None and asked not in silent:
            silent.add(asked)
            return whole(call, module, *args, **kwargs)
        if logits is None:
            return output
        handled += 1
        changed = handle(Forward(module, *given, logits))
        return output if changed is None else with_logits(output, changed)

    def handed(model: Any, given: tuple[Tensor, Tensor | None], states: Tensor | None, logits: Tensor) -> Tensor | None:
        nonlocal handled
        handled += 1
        return handle(Forward(model, *given, logits, states))

    with ExitStack() as stack:
        inside = stack.enter_context(around("forward", known, whole))
        heads = Heads(_ids_and_mask, handed, lambda: inside.now)
        for owner, name in dict.fromkeys(pair for m in known for pair in _own_methods(m)):
            stack.enter_context(replaced(owner, name, _watched_method(vars(owner)[name], whole)))
        apart = [(m, *ends) for m in known if (ends := _ends_of(m)) is not None]
        for each in apart:
            stack.enter_context(heads.watched(*each))
        for place, name in PRODUCTS if apart else ():
            stack.enter_context(replaced(place, name, heads.product(getattr(place, name))))
        stack.enter_context(replaced(eager_transforms, "grad_and_value_impl", _by_autograd))
        yield


def _by_autograd(function: Any, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute `torch.func.grad_and_value` with autograd, because function transforms do not keep the gradient on the
    logits."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    given = list(args)
    for n in numbers:
        given[n] = tree_map_only(Tensor, lambda t: t.detach().requires_grad_(), given[n])
    with torch.enable_grad():
        output = function(*given, **kwargs)
        value = output[0] if has_aux else output
        leaves, spec = tree_flatten(given[argnums] if isinstance(argnums, int) else tuple(given[n] for n in numbers))
        found = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return tree_unflatten(found, spec), tree_map_only(Tensor, Tensor.detach, output)


def _is_loss(output: Any) -> bool:
    """Return whether a forward pass returned only cross-entropy losses, one per token or their mean."""
    return isinstance(output, Tensor) and output.ndim < 3 and output.is_floating_point()


def _of_its_loss(
    call: Any,
    module: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    given: tuple[Tensor, Tensor | None],
    handle: Callable[..., Any],
) -> Any:
    """Recompute the result of a model that receives its labels and keeps its logits internal, from the input of the
    cross-entropy."""
    cross_entropy = torch.nn.functional.cross_entropy

    def seen(logits: Tensor, *rest: Any, **more: Any) -> Tensor:
        if logits.ndim == 2 and len(logits) == given[0].numel():
            rows = logits.view(*given[0].shape, -1)
            changed = handle(Forward(module, *given, rows))
            logits = (rows if changed is None else changed).view(len(logits), -1)
        return cross_entropy(logits, *rest, **more)

    with replaced(torch.nn.functional, "cross_entropy", seen):
        return call(*args, **kwargs)


def _own_methods(model: Any) -> list[tuple[type, str]]:
    """Return the public methods, except `forward`, of a model that is not from transformers. A forward method with a
    cache may be called ``inference`` or ``step``."""
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
    """Redirect the calls of a method to ``handle``; nested forward calls are not intercepted."""

    @functools.wraps(function)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return handle(functools.partial(function, self), self, *args, **kwargs)

    return wrapped


_AFTER_THE_HEAD = (
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
    "lm_head_multiplier",
    "output_multiplier",
)
"""Operations that transformers models apply after the head, and that are skipped if the head is called separately."""


def _ends_of(model: Any) -> tuple[Any, list[Any], Any] | None:
    """Return the modules that take the ids, the modules that return the hidden states, and the head, if these parts may
    be called separately. For a model that is not from transformers, these are the token embedding, every layer, and the
    layer with the width of the vocabulary."""
    if hasattr(model, "get_output_embeddings"):
        config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
        if any(getattr(config, name, None) not in (None, 1.0) for name in _AFTER_THE_HEAD):
            return None
        inner, last = getattr(model, "base_model", None), model.get_output_embeddings()
        apart = isinstance(inner, torch.nn.Module) and inner is not model and isinstance(last, torch.nn.Module)
        return (inner, [inner], last) if apart else None
    layers = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    table = next((m for m in layers if isinstance(m, torch.nn.Embedding)), None)
    wide = [m for m in layers if table is not None and getattr(m, "out_features", 0) == table.num_embeddings]
    return (table, [m for m in layers if m is not wide[-1]], wide[-1]) if wide else None


ENDING: list[bool] = []
"""Not empty while only the gradient with respect to the logits is needed."""


def ending_at_logits() -> AbstractContextManager[bool]:
    """Declare that only the gradient with respect to the logits is needed inside the block. Forward passes may then be
    cached."""
    return kept_in(ENDING, True)


@contextmanager
def watched(*models: Any) -> Iterator[list[Forward]]:
    """Record every forward pass with ids and logits inside the block, and keep the gradient of the logits.

    The trainer receives a copy of the logits, which it may divide by its temperature in place.
    """
    seen: list[Forward] = []

    def keep(forward: Forward) -> Tensor:
        if forward.logits.requires_grad:
            forward.logits.retain_grad()
        seen.append(forward)
        return forward.logits.clone()

    with ending_at_logits(), forwards(models, keep):
        yield seen


def back_to_logits(value: Tensor, seen: Sequence[Forward]) -> None:
    """Compute the gradient of a loss on the logits of these passes only. Computing a gradient of 0 for every weight of
    a model would take as long as a forward pass."""
    ends = [end for f in seen for end in (f.logits, f.states) if end is not None and end.requires_grad]
    if value.requires_grad and ends:
        torch.autograd.backward(value, inputs=ends)


@contextmanager
def scripted_logits(model: Any, row: Callable[[int, Forward], Tensor]) -> Iterator[None]:
    """Make every forward pass return the logits ``row(n, forward)`` (V,) at all positions; n is the number of earlier
    passes.

    Raises `Unjudged` at the end of the block if there was no forward pass.
    """
    count = 0

    def script(forward: Forward) -> Tensor:
        nonlocal count
        scripted = row(count, forward).to(forward.logits).expand_as(forward.logits).clone()
        count += 1
        return scripted

    with forwards([model], script):
        yield
    if not count:
        raise Unjudged("the sampler makes no forward pass of the adapter's model, so its logits cannot be scripted")


class Precision:
    """Records whether modules computed in half precision inside a block."""

    def __init__(self) -> None:
        self.half: torch.dtype | None = None

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.dtype in (torch.bfloat16, torch.float16):
            self.half = output.dtype


PRECISIONS: list[Precision] = []
"""The records of all open blocks."""


@contextmanager
def precision() -> Iterator[Precision]:
    """Record whether any module computes in half precision inside the block, because of the precision of its weights or
    of autocast."""
    with kept_in(PRECISIONS, Precision()) as found:
        handle = torch.nn.modules.module.register_module_forward_hook(found)
        try:
            yield found
        finally:
            handle.remove()
