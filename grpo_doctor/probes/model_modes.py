"""Sets random states and, inside a block, the number of threads or the mode of a model (no dropout, or eval mode
without gradient checkpointing)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from .intercept import language_model, replaced


def fixed_chance(seed: int = 0) -> None:
    """Set the random generators of torch, numpy and Python to this state.

    `torch.manual_seed` does the same for torch. Without an accelerator, however, `torch.manual_seed` queues a call with
    a slow stack trace for each kind of accelerator, and the queue keeps growing.
    """
    known: tuple[Any, ...] = (torch.cuda, torch.xpu)
    used = any(kind.is_initialized() for kind in known) or torch.backends.mps.is_available()
    (torch.manual_seed if used else torch.default_generator.manual_seed)(seed)
    np.random.seed(seed)
    random.seed(seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one CPU thread inside the block. With small matrices, several threads mostly wait for each other, especially
    on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def without_dropout(*models: torch.nn.Module | None) -> Iterator[None]:
    """Disable dropout inside the block, in any mode of the models."""
    kept = [
        (m, name, value)
        for model in models
        for m in (model.modules() if model is not None else ())
        for name, value in vars(m).items()
        if isinstance(value, float)
        and value > 0
        and ("dropout" in name or (name == "p" and "Dropout" in type(m).__name__))
    ]
    for module, name, _ in kept:
        setattr(module, name, 0.0)
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


@contextmanager
def forced_eval_mode(*models: torch.nn.Module) -> Iterator[None]:
    """Keep the models in eval mode without gradient checkpointing, whatever mode the code in the block sets."""
    modules = [m for model in models for m in model.modules()]
    training = [m.training for m in modules]
    checkpointing = [(m, m.gradient_checkpointing) for m in modules if hasattr(m, "gradient_checkpointing")]
    for module, _ in checkpointing:
        object.__setattr__(module, "gradient_checkpointing", False)
    with ExitStack() as stack:
        for model in dict.fromkeys(one for m in models for one in (m, language_model(m))):
            model.eval()
            for name in ("train", "gradient_checkpointing_enable"):
                stack.enter_context(replaced(model, name, lambda *args, own=model, **kwargs: own))
        try:
            yield
        finally:
            for module, mode in zip(modules, training, strict=True):
                module.training = mode
            for module, flag in checkpointing:
                object.__setattr__(module, "gradient_checkpointing", flag)
