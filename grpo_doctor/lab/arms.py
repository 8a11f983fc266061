"""Defines the runs: faults, remedies that start at a given step, and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.engine import Engine
from ..engine.faults import FAULTS, faulty_engine
from ..engine.settings import Settings, settings_of

STEPS = 40
SMALL: Mapping[str, Any] = {
    "model": "embedded-small",
    "generation_batch_size": 32,
    "max_completion_length": 24,
    "learning_rate": 6e-4,
    "max_steps": STEPS,
}
"""Settings for the smallest runs in which the engine without a fault learns within 40 steps. A step takes 0.1
seconds."""
LARGE: Mapping[str, Any] = {**SMALL, "model": "embedded-large", "learning_rate": 5e-5}
"""Settings for the same task with the model with 46 million weights, on a GPU."""
REAL: Mapping[str, Any] = {
    "model": "smollm2",
    "task": "grpo_doctor.lab.task:KingdomTask",
    "generation_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 5,
    "learning_rate": 2e-4,
    "max_steps": 16,
}
"""Settings for a real language model with LoRA, on a task that it can sometimes solve at the start. A step takes some
seconds on one core."""
MOST_SEVERE: Sequence[str] = (
    "off-by-one-labels",
    "advantages-of-another-group",
    "lr-too-high",
    "prefilled-start-not-scored",
    "entropy-coefficient-huge",
    "nan-at-step",
    "length-bonus",
    "logit-clip",
    "template-mismatch",
    "min-new-tokens",
)
"""The faults that destroy most of the tiny model's score and are therefore tried on larger models. Two faults are
excluded. For the real model, the limit of five tokens is long enough to have no effect, and the double temperature
would need a separate reference run."""
TREATED = 3 / 8
"""Share of the run after which a remedy starts, if the fault has begun by then."""
HEALTHY = "healthy"
"""Name of the engine without a fault."""

Changes = Callable[[Settings], dict[str, Any]]

COMMON_ADVICE: dict[str, Changes] = {
    "raise-group-size": lambda s: {
        "num_generations": 2 * s.num_generations,
        "generation_batch_size": 2 * s.generation_batch_size,
    },
    "lower-learning-rate": lambda s: {"learning_rate": s.learning_rate / 10},
    "raise-kl-coefficient": lambda s: {"beta": 10 * s.beta},
    "entropy-bonus": lambda s: {"entropy_coef": 2 * s.entropy_coef or 0.01},
    "clip-harder": lambda s: {"epsilon": s.epsilon / 2, "max_grad_norm": s.max_grad_norm / 10},
    "temperature-one": lambda s: {"temperature": 1.0},
}
"""Common advice, as changes to the settings of a failing run."""

REFERENCE, ALONE, FIXED, ROLLED_BACK = "twin", "left-alone", "mended", "rolled-back"
"""Names of the arms without common advice. A rollback needs no training; see `grpo_doctor.lab.judge`."""


class Scale(NamedTuple):
    """The runs of one model: its settings, faults and remedies."""

    settings: Mapping[str, Any]
    faults: Sequence[str]
    treatments: Sequence[str]


SEEDS = 3
"""Number of seeds of each run."""
TINY = str(SMALL["model"])
SCALES: Mapping[str, Scale] = {
    TINY: Scale(SMALL, tuple(FAULTS), (FIXED, *COMMON_ADVICE)),
    str(LARGE["model"]): Scale(LARGE, MOST_SEVERE, (FIXED,)),
    str(REAL["model"]): Scale(REAL, MOST_SEVERE, (FIXED,)),
}
"""The models: the tiny model with every remedy for every fault, and the other models with fixes for the most severe
faults."""


class Job(NamedTuple):
    """One run. The reference run is the engine without the fault, from the first step."""

    fault: str
    arm: str
    seed: int
    model: str = TINY

    @property
    def path(self) -> str:
        """Path of the job's result, relative to the results folder of the model."""
        return f"{self.fault}/{self.seed}/{self.arm}.json"


def circumstances(fault: str) -> dict[str, Any]:
    """Return the correct settings without which the fault has no effect."""
    return {} if fault == HEALTHY else FAULTS[fault].circumstances


def reference_of(fault: str) -> str:
    """Return the name of this fault's reference run, which faults with the same circumstances share."""
    mine = circumstances(fault)
    return next(name for name in (HEALTHY, *FAULTS) if circumstances(name) == mine)


def faulty(job: Job) -> tuple[type[Engine], Settings]:
    """Return the engine class with the fault, and its settings."""
    engine, of_fault = faulty_engine([job.fault])
    return engine, _settings(of_fault, job)


def fixed(job: Job) -> tuple[type[Engine], Settings]:
    """Return the engine class without the fault, and the settings of its circumstances."""
    return Engine, _settings(circumstances(job.fault), job)


def treated(job: Job) -> tuple[type[Engine], Settings]:
    """Return the engine class and the settings of the run with a remedy.

    The records of runs with a remedy are not used, so measurements that need a forward pass are switched off.
    """
    if job.arm == FIXED:
        engine, settings = fixed(job)
    else:
        engine, settings = faulty(job)
        settings = settings_of(COMMON_ADVICE[job.arm](settings), job.arm, settings)
    return engine, settings_of({"record_every": settings.max_steps}, job.arm, settings)


def since(fault: str, steps: int) -> int:
    """Return the last step before the remedy, which is not earlier than the first step with the fault."""
    return max(int(TREATED * steps), begins(fault, steps))


def begins(fault: str, steps: int) -> int:
    """Return the first step that has the fault."""
    return 1 if fault == HEALTHY else FAULTS[fault].begins(steps)


def idle(job: Job) -> bool:
    """Return whether the arm would change nothing, because its settings are already in effect."""
    settings = faulty(job)[1]
    return job.arm in COMMON_ADVICE and settings_of(COMMON_ADVICE[job.arm](settings), job.arm, settings) == settings


def observed(faults: Sequence[str], seed: int, model: str = TINY) -> Iterator[Job]:
    """Yield the runs without a remedy: the reference runs, and the runs with a fault."""
    yield from (Job(name, REFERENCE, seed, model) for name in dict.fromkeys(map(reference_of, faults)))
    yield from (Job(name, ALONE, seed, model) for name in faults)


def treatments(faults: Sequence[str], seed: int, model: str = TINY) -> Iterator[Job]:
    """Yield the runs of a model with a remedy, one remedy after another."""
    jobs = (Job(name, arm, seed, model) for arm in SCALES[model].treatments for name in faults)
    yield from (job for job in jobs if not idle(job))


def _settings(of_fault: Mapping[str, Any], job: Job) -> Settings:
    return settings_of({**SCALES[job.model].settings, **of_fault, "seed": job.seed}, "lab")
