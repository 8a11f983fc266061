"""Withholds remedies that contradict the settings or the log of a run, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..run import figure
from .check import Finding, Remedy
from .early_indicators import Columns


class Declared(NamedTuple):
    """A remedy that does not apply at some values of a setting. ``names`` are the names under which the setting may be
    declared."""

    remedy: str
    names: tuple[str, ...]
    senseless: Callable[[float], bool]
    because: str


class Sign(NamedTuple):
    """A metric that shows whether a remedy applies: its mean over the last `LATE` values must be between these
    limits."""

    remedy: str
    field: str
    above: float
    up_to: float
    level: str


LATE = 10
SIGNS = (
    Sign("raise-response-limit", "cut_share", 0.1, 1.0, "{:.0%} of the responses are truncated"),
    Sign("raise-learning-rate", "kl", 0.0, 3e-3, "the KL to the reference model is {:.2g} nats/token"),
    Sign("drop-zero-variance-groups", "dead_share", 0.5, 1.0, "{:.0%} of the groups have identical rewards"),
)
"""The signs for the remedies of a run that does not learn, in order of precedence. One of 68 public runs that learn has
a KL below 0.004."""
_COEFFICIENT = ("entropy_coef", "entropy_coeff")
DECLARED = (
    Declared("drop-entropy-bonus", _COEFFICIENT, lambda x: x == 0, "the entropy coefficient is already 0"),
    Declared("prove-entropy-sign", _COEFFICIENT, lambda x: x == 0, "the entropy coefficient is 0"),
    Declared("lower-kl-coefficient", ("kl_coef", "beta"), lambda x: x == 0, "the KL coefficient is already 0"),
    Declared("temperature-one", ("temperature",), lambda x: x == 1, "the temperature is already 1"),
    Declared("raise-group-size", ("group_size", "num_generations"), lambda x: x >= 8, "the group size is {value:g}"),
    Declared("centre-per-group", ("group_size", "num_generations"), lambda x: x == 1, "each group has one response"),
    Declared("clip-higher", ("num_iterations",), lambda x: x == 1, "the clip needs several updates per rollout"),
    Declared("fewer-updates-per-rollout", ("num_iterations",), lambda x: x == 1, "there is one update per rollout"),
    Declared("skip-exploding-updates", ("max_grad_norm", "grad_clip"), lambda x: x < 0.2, "the limit is {value:g}"),
    Declared("lower-learning-rate", ("learning_rate",), lambda x: x < 1e-7, "the learning rate is already {value:g}"),
    Declared("raise-learning-rate", ("learning_rate",), lambda x: x > 1e-4, "the learning rate is already {value:g}"),
)
CONSTANT = (
    "drop-zero-variance-groups",
    "raise-group-size",
    "temperature-one",
    "match-difficulty",
    "lower-learning-rate",
)
"""Remedies that are withheld if the reward has been constant since the first row, or if the task reward has never been
above 0. The listed remedies have no effect until the reward function works. A higher response limit is not in this
list, because it can make the reward function work."""
REFUTED = (
    ("too_low", "lower-learning-rate", "the learning rate is too low"),
    ("solved", "check-the-reward", "the task is solved"),
    ("graded", "check-the-reward", "the reward function distinguishes the responses of a batch"),
    ("form", "remove-length-reward", "the gain comes from formatting"),
    ("risen", "check-the-labels", "the loss has fallen before"),
    ("host", "lower-peak-memory", "the memory of the machine ran out, not that of a GPU"),
    ("gpu", "lower-host-memory", "the memory of a GPU ran out, not that of the machine"),
)
"""Name of a finding's evidence, the remedy that the evidence rules out, and the reason."""
OPPOSED = (("lower-learning-rate", "raise-learning-rate"), ("drop-entropy-bonus", "entropy-bonus"))
"""Pairs of contradictory remedies; a report gives only the remedy that comes first."""
BACK, LOADED = "roll-back", "check-the-weights"
OF_A_BONUS = frozenset({"drop-entropy-bonus", "prove-entropy-sign"})
"""Remedies that change an entropy bonus. Trainers add such a bonus only on request, so these remedies come last if no
coefficient is declared."""


def refused(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield remedies that a declared setting rules out, each with the reason."""
    for gate in DECLARED:
        value = next((settings[name] for name in gate.names if isinstance(settings.get(name), int | float)), None)
        if value is not None and gate.senseless(figure(value)):
            yield gate.remedy, gate.because.format(value=figure(value))


def signs(column: Columns) -> dict[str, tuple[bool, str]]:
    """Return, for every sign whose metric is recorded, whether the sign is present, and the level in words."""
    found = {}
    for sign in SIGNS:
        values = column(sign.field)
        known = np.empty(0) if values is None else values[np.isfinite(values)][-LATE:]
        if len(known):
            level = float(known.mean())
            found[sign.remedy] = sign.above < level <= sign.up_to, sign.level.format(level)
    return found


def senseless(
    settings: Mapping[str, Any],
    findings: Sequence[Finding],
    first: float,
    column: Columns,
    *,
    unpaid: bool = False,
    idle: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield remedies that do not apply to this run, each with the reason.

    ``first`` is the first step of the run's log. ``unpaid`` is true if the task reward was never above its minimum;
    ``idle`` is true if a reward component was never above its minimum.
    """
    yield from refused(settings)

    def shown(name: str) -> bool:
        return any(finding.evidence.get(name) for finding in findings)

    if unpaid or shown("throughout"):
        yield from (
            (remedy, "the reward carries no usable signal, so check the reward function first") for remedy in CONSTANT
        )
    for name, remedy, because in REFUTED:
        if shown(name) and not (name == "graded" and idle):
            yield remedy, because
    if any(finding.evidence.get("most_dead") == 0 for finding in findings):
        yield "drop-zero-variance-groups", "no group has zero variance"
    seen = signs(column)
    if not (cut := seen.get("raise-response-limit", (True, "")))[0]:
        yield "raise-response-limit", cut[1]
    moved, level = seen.get("raise-learning-rate", (False, "no metric shows that the learning rate is too low"))
    if not (moved or shown("too_low")):
        yield "raise-learning-rate", level
    suffered = [finding.onset_step for finding in findings if finding.kind == "outcome"]
    if suffered and max(suffered) <= first:
        for remedy in (BACK, "stop-on-non-finite"):
            yield remedy, "the problem has existed since the first step, so no earlier checkpoint is better"
    if first > 1 or (suffered and min(suffered) > first):
        yield LOADED, "the problem began during training"


def contradicting(given: Mapping[str, str]) -> dict[str, str]:
    """Return the remedies that contradict one of the given remedies, each with the reason; ``given`` maps a remedy to
    its finding."""
    pairs = [*OPPOSED, *((b, a) for a, b in OPPOSED)]
    return {other: f"{given[one]} recommends the opposite" for one, other in pairs if one in given}


def unfounded(finding: Finding) -> bool:
    """Return whether a rollback alone does not help with this finding: its cause is unknown, so the same settings fail
    again."""
    return finding.kind == "outcome" and not finding.explained_by


def built_in(remedy: Remedy, framework: str | None) -> bool:
    """Return whether the trainer of this framework already applies the remedy."""
    return any(step.built_in for step in remedy.steps if step.who == framework)


def on_request(remedy: Remedy, settings: Mapping[str, Any]) -> bool:
    """Return whether the remedy changes an entropy bonus that the run may not have."""
    return remedy.id in OF_A_BONUS and settings.keys().isdisjoint(_COEFFICIENT)


def placed(remedy: Remedy, finding: Finding) -> Remedy:
    """Return the remedy. A rollback names the cause to fix first, and the step before which the checkpoint must be."""
    if remedy.id != BACK:
        return remedy
    cause = next(iter(finding.explained_by), finding.code)
    where = f"roll back to the checkpoint before step {finding.onset_step}"
    return msgspec.structs.replace(remedy, title=f"Fix the cause ({cause}), {where}, and reset the optimizer state")
