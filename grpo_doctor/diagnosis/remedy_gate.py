"""Withholds remedies that contradict the settings or the log of a run, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ..run import figure
from .check import Finding, Remedy


class Declared(NamedTuple):
    """A remedy that does not apply at some values of a setting, declared under one of these names."""

    remedy: str
    names: tuple[str, ...]
    senseless: Callable[[float], bool]
    because: str


_COEFFICIENT = ("entropy_coef", "entropy_coeff")
DECLARED = (
    Declared("drop-entropy-bonus", _COEFFICIENT, lambda x: x == 0, "the entropy coefficient is already 0"),
    Declared("prove-entropy-sign", _COEFFICIENT, lambda x: x == 0, "the entropy coefficient is 0"),
    Declared("lower-kl-coefficient", ("kl_coef", "beta"), lambda x: x == 0, "the KL coefficient is already 0"),
    Declared("temperature-one", ("temperature",), lambda x: x == 1, "the temperature is already 1"),
    Declared("raise-group-size", ("group_size", "num_generations"), lambda x: x >= 8, "the group size is {value:g}"),
    Declared("clip-higher", ("num_iterations",), lambda x: x == 1, "the clip needs several updates per rollout"),
    Declared("fewer-updates-per-rollout", ("num_iterations",), lambda x: x == 1, "there is one update per rollout"),
    Declared("skip-exploding-updates", ("max_grad_norm", "grad_clip"), lambda x: x < 0.2, "the limit is {value:g}"),
    Declared("lower-learning-rate", ("learning_rate",), lambda x: x < 1e-7, "the learning rate is already {value:g}"),
    Declared("raise-learning-rate", ("learning_rate",), lambda x: x > 1e-4, "the learning rate is already {value:g}"),
)
CONSTANT = ("filter-dead-groups", "raise-group-size", "temperature-one", "match-difficulty", "lower-learning-rate")
"""Remedies that are withheld if the reward has been constant since the first row, because they have no effect until
the reward function works."""
OPPOSED = (("lower-learning-rate", "raise-learning-rate"), ("drop-entropy-bonus", "entropy-bonus"))
"""Pairs of remedies of which a report gives only the first one offered."""
BACK = "roll-back"


def senseless(settings: Mapping[str, Any], findings: Sequence[Finding], first: float) -> Iterator[tuple[str, str]]:
    """Remedies that do not apply to this run, each with the reason; ``first`` is the first step of its log."""
    for gate in DECLARED:
        value = next((settings[name] for name in gate.names if isinstance(settings.get(name), int | float)), None)
        if value is not None and gate.senseless(figure(value)):
            yield gate.remedy, gate.because.format(value=figure(value))
    if any(finding.evidence.get("throughout") for finding in findings):
        yield from ((remedy, "the reward is constant, so check the reward function first") for remedy in CONSTANT)
    if any(finding.evidence.get("most_dead") == 0 for finding in findings):
        yield "filter-dead-groups", "no group has zero variance"
    low = any(finding.evidence.get("too_low") for finding in findings)
    direction = "lower-learning-rate" if low else "raise-learning-rate"
    yield direction, f"the learning rate is {'too low' if low else 'not too low'}"
    suffered = [finding.onset_step for finding in findings if finding.kind == "outcome"]
    if suffered and max(suffered) <= first:
        yield BACK, "the problem has existed since the first step, so no earlier checkpoint is better"


def contradicting(given: Mapping[str, str]) -> dict[str, str]:
    """The remedies that contradict one of the given remedies, each with the reason; ``given`` maps a remedy to its
    finding."""
    pairs = [*OPPOSED, *((b, a) for a, b in OPPOSED)]
    return {other: f"{given[one]} requires the opposite" for one, other in pairs if one in given}


def unfounded(finding: Finding) -> bool:
    """Whether a rollback alone does not help with this finding: its cause is unknown, so the same settings fail
    again."""
    return finding.kind == "outcome" and not finding.explained_by


def built_in(remedy: Remedy, framework: str | None) -> bool:
    """Whether the trainer of this framework already does it."""
    return any(step.built_in for step in remedy.steps if step.who == framework)


def placed(remedy: Remedy, finding: Finding) -> Remedy:
    """Return the remedy; for a rollback, it names the cause to fix first and the step before which the checkpoint must
    be."""
    if remedy.id != BACK:
        return remedy
    cause = next(iter(finding.explained_by), finding.code)
    where = f"roll back to the checkpoint before step {finding.onset_step}"
    return msgspec.structs.replace(remedy, title=f"Fix the cause ({cause}), {where}, and reset the optimizer state")
