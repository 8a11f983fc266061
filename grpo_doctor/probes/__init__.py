"""Probes call a trainer's own functions with crafted inputs and prove or disprove a property in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .entry_points import (
    RESOURCES,
    SEAMS,
    Adapter,
    AdapterError,
    Batch,
    NotApplicable,
    NotFinite,
    NotObserved,
    Seams,
    Unjudged,
    load_adapter,
)

if TYPE_CHECKING:
    from . import composite as composite
    from . import crafted_inputs as crafted_inputs
    from . import extreme_logprobs as extreme_logprobs
    from . import forced_draws as forced_draws
    from . import generations as generations
    from . import gradient_effect as gradient_effect
    from . import intercept as intercept
    from . import loss_form as loss_form
    from . import loss_trials as loss_trials
    from . import model_modes as model_modes
    from . import multi_turn as multi_turn
    from . import reward_function as reward_function
    from . import sampling as sampling
    from . import sampling_filters as sampling_filters
    from . import scripted_sampler as scripted_sampler
    from . import updates as updates
    from .adapters import engine_adapter, transformers_adapter, trl_adapter, trl_adapter_from
    from .runner import holds, run_probes, suite
    from .script import trainer_parts
    from .scripted_sampler import ScriptedSampler
    from .trainer_loop import TrainerLoop

_LATER = {
    **dict.fromkeys(("engine_adapter", "transformers_adapter", "trl_adapter", "trl_adapter_from"), "adapters"),
    **dict.fromkeys(("holds", "run_probes", "suite"), "runner"),
    "ScriptedSampler": "scripted_sampler",
    "TrainerLoop": "trainer_loop",
    "trainer_parts": "script",
}

__all__ = [
    "RESOURCES",
    "SEAMS",
    "Adapter",
    "AdapterError",
    "Batch",
    "NotApplicable",
    "NotFinite",
    "NotObserved",
    "ScriptedSampler",
    "Seams",
    "TrainerLoop",
    "Unjudged",
    "engine_adapter",
    "holds",
    "load_adapter",
    "run_probes",
    "suite",
    "trainer_parts",
    "transformers_adapter",
    "trl_adapter",
    "trl_adapter_from",
]


def __getattr__(name: str) -> Any:
    """Load modules that need torch on first use, because reading a log does not need torch. Checks import only the
    definitions of the entry points."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    if find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(name)
    return import_module(f".{name}", __name__)
