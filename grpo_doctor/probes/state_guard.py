"""Saves everything that a probe may change and restores it after every probe."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import Parameter

from .entry_points import Adapter
from .known_forwards import sampled
from .model_modes import one_thread
from .trainer_objects import reachable_objects

_TOKENIZER = ("padding_side", "truncation_side", "pad_token", "pad_token_id")


class Snapshot:
    """The state of an adapter's models, optimizer and tokenizer, of other trained objects that its entry points use,
    and of every random generator."""

    def __init__(self, adapter: Adapter) -> None:
        self.tokenizer, self.settings = adapter.tokenizer, adapter.settings
        self.saved: list[dict[str, Any]] = []
        self.known: set[int] = set()
        """Ids of the saved parameters, buffers and modules."""
        self.versions: dict[int, int] = {}
        """The version that autograd counts of each saved tensor, by id, when it last had its saved value."""
        found = reachable_objects([*adapter.seams.values()])
        self.whole = found.whole
        """Whether all objects that the entry points use were searched."""
        self.add([adapter.model, adapter.reference, adapter.base])
        self.add([m for m in found.modules if any(id(p) not in self.known for p in m.parameters())])
        optimizers = {id(o): o for o in (adapter.optimizer, *found.optimizers) if o is not None}
        self.optimizers = [(o, *_of_optimizer(o)) for o in optimizers.values()]
        trained = {id(p): p for o in optimizers.values() for g in o.param_groups for p in g["params"]}
        self.beside = [(p, p.detach().clone(), _copy_of(p.grad)) for n, p in trained.items() if n not in self.known]
        """Parameters that the optimizers train outside the models, such as the head of a critic."""
        self.counters = [(own, _numbers(own)) for one in found.own for own in (vars(one), *_inside(one, dict))]
        """The trainer's own counters, which determine whether samples are stale and which samples are drawn."""
        self.buffers = [(own, list(own)) for one in found.own for own in _inside(one, list, deque)]
        self.schedulers = [(s, _values(s)) for s in found.schedulers]
        self.saved_tokenizer = {n: getattr(self.tokenizer, n, None) for n in _TOKENIZER}
        self.saved_settings = copy.deepcopy(self.settings)
        self.random = self._of_random()

    def add(self, models: Sequence[torch.nn.Module | None]) -> None:
        """Add the current state of these models."""
        for model in models:
            if model is not None:
                self.saved.append(self._of_model(model))

    def _of_model(self, model: torch.nn.Module) -> dict[str, Any]:
        tensors = self._new([*model.parameters(), *model.buffers()])
        self.versions |= {id(t): t._version for t in tensors}
        return {
            "tensors": [(t, t.detach().clone()) for t in tensors],
            "parameters": [(t, t.requires_grad, _copy_of(t.grad)) for t in tensors if isinstance(t, Parameter)],
            "modules": [(m, _flags(m)) for m in self._new([*model.modules()])],
            "configs": [(c, copy.deepcopy(vars(c))) for c in _configs(model)],
        }

    def _new(self, some: list[Any]) -> list[Any]:
        new = [one for one in some if id(one) not in self.known]
        self.known.update(map(id, new))
        return new

    @staticmethod
    def _of_random() -> Any:
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda

    @torch.no_grad()
    def restore(self, whole: bool = True) -> None:
        """Restore everything; tensors are written only if they changed.

        Unless ``whole`` is true, only a sample of the values is compared if autograd counts no change of a tensor:
        comparing all weights of a model takes as long as a forward pass.
        """
        with one_thread():  # more threads do not speed up the comparison of memory
            for saved in self.saved:
                _restore_model(saved, {} if whole else self.versions)
            self.versions = {id(t): t._version for saved in self.saved for t, _ in saved["tensors"]}
        for own, numbers in self.counters:
            own.update({name: value for name, value in numbers.items() if _is_number(own.get(name))})
        for buffer, items in self.buffers:
            buffer.clear()
            buffer.extend(items)
        for parameter, value, gradient in self.beside:
            parameter.data.copy_(value)
            parameter.grad = _copy_of(gradient)
        for optimizer, groups, state in self.optimizers:
            for group, values in zip(optimizer.param_groups, groups, strict=True):
                group.update({k: copy.copy(v) for k, v in values.items()})
            optimizer.state.clear()
            optimizer.state.update({p: copy.deepcopy(s) for p, s in state.items()})
        for scheduler, values in self.schedulers:
            vars(scheduler).update({k: copy.copy(v) for k, v in values.items()})
        for name, value in self.saved_tokenizer.items():
            if value is not None and getattr(self.tokenizer, name, None) != value:
                setattr(self.tokenizer, name, value)
        if not _equal(self.settings, self.saved_settings):
            self.settings.clear()
            self.settings.update(copy.deepcopy(self.saved_settings))
        python, numpy, torch_state, cuda = self.random
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torch_state)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def _restore_model(saved: Mapping[str, Any], versions: Mapping[int, int]) -> None:
    """Restore tensors, gradients, modes and configurations of one model. Of tensors with these versions, only a sample
    of values is compared."""
    for tensor, value in saved["tensors"]:
        some = sampled if versions.get(id(tensor)) == tensor._version else torch.Tensor.detach
        if tensor.shape != value.shape or not torch.equal(some(tensor), some(value)):
            tensor.data.copy_(value)
    for parameter, required, gradient in saved["parameters"]:
        parameter.requires_grad_(required)
        parameter.grad = _copy_of(gradient)
    for module, flags in saved["modules"]:
        _put_back(module, flags)
    for config, values in saved["configs"]:
        if not _equal(vars(config), values):
            vars(config).clear()
            vars(config).update(copy.deepcopy(values))


def _of_optimizer(optimizer: torch.optim.Optimizer) -> tuple[list[dict[str, Any]], dict[torch.Tensor, Any]]:
    """Return the settings of an optimizer's parameter groups, and the state of the optimizer."""
    groups = [{k: copy.copy(v) for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    return groups, {p: copy.deepcopy(s) for p, s in optimizer.state.items()}


def _values(scheduler: torch.optim.lr_scheduler.LRScheduler) -> dict[str, Any]:
    return {name: copy.copy(value) for name, value in vars(scheduler).items() if name != "optimizer"}


def _copy_of(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.clone()


def _configs(model: torch.nn.Module) -> list[Any]:
    found = (getattr(model, "config", None), getattr(model, "generation_config", None))
    return [c for c in found if c is not None and hasattr(c, "__dict__")]


def _equal(one: Any, other: Any) -> bool:
    """Return whether two configurations are equal, or False if the comparison of tensors has no truth value."""
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _numbers(own: dict[Any, Any]) -> dict[Any, int | float]:
    return {name: value for name, value in own.items() if _is_number(value)}


def _inside(one: Any, *kinds: type) -> list[Any]:
    """Return the attributes of an object whose type is exactly one of the given types."""
    return [value for value in vars(one).values() if type(value) in kinds]


class _Flags(NamedTuple):
    """The attributes of a module, with copies of the attributes that may be changed in place: hooks, buffers, lists of
    adapters.

    Tensors are stored separately. A library's marker that its hooks are installed must be restored together with the
    hooks.
    """

    attributes: dict[str, Any]
    copies: list[tuple[Any, Any]]


def _flags(module: torch.nn.Module) -> _Flags:
    own = vars(module)
    return _Flags(dict(own), [(v, copy.copy(v)) for v in own.values() if isinstance(v, dict | list | set)])


def _put_back(module: torch.nn.Module, flags: _Flags) -> None:
    own = vars(module)
    own.clear()
    own.update(flags.attributes)
    for value, items in flags.copies:
        if isinstance(value, list):
            value[:] = items
        elif value or items:  # almost all dictionaries are empty
            value.clear()
            value.update(items)
