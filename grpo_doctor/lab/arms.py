"""What is run: faults, what is done about each from a step on, and seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.engine import Engine
from ..engine.faults import FAULTS, sick_engine
from ..engine.settings import Settings, settings_of

STEPS = 40
SEEDS = 3
SMALL: Mapping[str, Any] = {
    "model": "embedded-small",
    "generation_batch_size": 32,
    "max_completion_length": 24,
    "learning_rate": 6e-4,
    "max_steps": STEPS,
}
"""The smallest settings at which the healthy engine learns within 40 steps; a step costs a tenth of a second."""
SCALE: Mapping[str, Any] = {
    "model": "smollm2",
    "task": "grpo_doctor.lab.task:KingdomTask",
    "generation_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 5,
    "learning_rate": 2e-4,
    "max_steps": 16,
}
"""A real language model with LoRA, on a task that it begins to solve at once; a step costs some seconds of a core."""
MODELS = (str(SMALL["model"]), str(SCALE["model"]))
"""What may be trained: the tiny model with all that is done about its faults, or a real one with what is left alone."""
GRAVEST: Sequence[str] = (
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
"""The faults that leave next to nothing of the tiny model's score, but for the limit of five tokens, which is enough
here; and for the double temperature, whose twin would be a run of its own. They are tried on the real model."""
TREATED = 3 / 8
"""Share of a run after which something is done about its fault."""
HEALTHY = "healthy"
"""Name of the engine without a fault."""

Changes = Callable[[Settings], dict[str, Any]]

FOLK: dict[str, Changes] = {
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
"""What people try first, as changes of the settings that a sick run has."""

TWIN, ALONE, MENDED, ROLLED_BACK = "twin", "left-alone", "mended", "rolled-back"
"""The other arms. A roll-back needs no run of its own: see `grpo_doctor.lab.judge`."""


class Job(NamedTuple):
    """One run. The reference run is the engine without the fault, from the first step."""

    fault: str
    arm: str
    seed: int
    model: str = MODELS[0]

    @property
    def path(self) -> str:
        """Of its result below the lab's folder for this model."""
        return f"{self.fault}/{self.seed}/{self.arm}.json"


def circumstances(fault: str) -> dict[str, Any]:
    """Settings that are right in themselves and without which the fault does not show."""
    return {} if fault == HEALTHY else FAULTS[fault].circumstances


def twin_of(fault: str) -> str:
    """Under which name the healthy twin of this fault is run: faults in the same circumstances share it."""
    mine = circumstances(fault)
    return next(name for name in (HEALTHY, *FAULTS) if circumstances(name) == mine)


def sick(job: Job) -> tuple[type[Engine], Settings]:
    """The engine with the fault, and its settings."""
    engine, of_fault = sick_engine([job.fault])
    return engine, _settings(of_fault, job)


def mended(job: Job) -> tuple[type[Engine], Settings]:
    """The engine without the fault, in the circumstances of the fault."""
    return Engine, _settings(circumstances(job.fault), job)


def treated(job: Job) -> tuple[type[Engine], Settings]:
    """The engine and the settings from the step on at which something is done about the fault.

    Nobody reads the records of what comes then, so that nothing is measured for them that costs a pass.
    """
    if job.arm == MENDED:
        engine, settings = mended(job)
    else:
        engine, settings = sick(job)
        settings = settings_of(FOLK[job.arm](settings), job.arm, settings)
    return engine, settings_of({"record_every": settings.max_steps}, job.arm, settings)


def since(fault: str, steps: int) -> int:
    """The last of the steps of a run before something is done, when the fault has long begun."""
    return max(int(TREATED * steps), begins(fault, steps))


def begins(fault: str, steps: int) -> int:
    """The first of the steps of a run that is sick."""
    return 1 if fault == HEALTHY else FAULTS[fault].begins(steps)


def idle(job: Job) -> bool:
    """Whether the arm changes nothing, because what it sets is so already."""
    settings = sick(job)[1]
    return job.arm in FOLK and settings_of(FOLK[job.arm](settings), job.arm, settings) == settings


def observed(faults: Sequence[str], seed: int, model: str = MODELS[0]) -> Iterator[Job]:
    """The runs that nothing is done about: the twins, and the faults left alone."""
    yield from (Job(name, TWIN, seed, model) for name in dict.fromkeys(map(twin_of, faults)))
    yield from (Job(name, ALONE, seed, model) for name in faults)


def treatments(faults: Sequence[str], seed: int) -> Iterator[Job]:
    """The runs that something is done about: what mends them first, then what people try."""
    yield from (Job(name, MENDED, seed) for name in faults)
    folk = (Job(name, arm, seed) for arm in FOLK for name in faults)
    yield from (job for job in folk if not idle(job))


def _settings(of_fault: Mapping[str, Any], job: Job) -> Settings:
    base = SCALE if job.model == SCALE["model"] else SMALL
    return settings_of({**base, **of_fault, "seed": job.seed}, "lab")
