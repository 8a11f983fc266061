"""The sides of a comparison: runs with the same settings except for the seed, and the declared settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ..diagnosis.verdict import Diagnosis
from ..readers.settings import declared
from ..run import BROADCAST, Run

SEEDS = frozenset("seed data_seed random_seed".split())
"""Settings that may differ between the runs of one arm."""
NAMES = re.compile(
    r"(?i)(^|[._])(run_?(name|id)|exp(eriment)?_?name|name|output_dir|logging_dir|log_?dir|default_local_dir|out|"
    r"timestamp|started|hostname|report_to|project(_name)?|tags|notes|config(_path)?|rows)$"
)
"""Settings that name a run and do not affect it."""
QUIET = re.compile(
    r"(?i)(^|[._])((save|log|logging|eval|test|record|kl_grad_share)_\w+|max_steps|total_\w+|num_train_epochs|epochs|"
    r"device|gradient_checkpointing|num_workers|dataloader_\w+)$"
)
"""Settings that need not change any metric of a shared step, such as the run length, the logging interval, and
paths."""

EXACT = 1e9
"""Absolute value below which numbers are compared with 9 digits. Larger numbers are ids and counts, and are compared
exactly."""


class Change(msgspec.Struct, frozen=True):
    """A setting that differs, with its value on each side. A value is None if the side does not declare the setting."""

    name: str
    base: Any
    new: Any

    @property
    def acts(self) -> bool:
        """Whether the setting should affect training. Both sides must declare the setting, and it must not concern
        length, logging or paths."""
        return self.base is not None and self.new is not None and not QUIET.search(self.name)


class Arm(msgspec.Struct, kw_only=True):
    """Runs with the same settings except for the seed: their name, their diagnoses, and the settings. With several
    runs, the settings exclude the seed."""

    name: str
    diagnoses: list[Diagnosis]
    settings: dict[str, Any]

    @property
    def runs(self) -> list[Run]:
        return [d.run for d in self.diagnoses]

    @property
    def seeds(self) -> int:
        """The number of runs in the arm."""
        return len(self.diagnoses)


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings that a run declares, or records as a constant, with one name per setting.

    The name that checks use replaces the trainer's name, unless both are declared with different values. A learning
    rate that is recorded but not declared is represented by its largest value.
    """
    known = {name: value for name, value in run.settings.items() if value is not None and not NAMES.search(name)}
    for name in list(known):
        canonical = declared(name)
        if canonical is not None and canonical != name and known.get(canonical, known[name]) == known[name]:
            known[canonical] = known.pop(name)
    for name in (*sorted(BROADCAST - {"groups"}), "learning_rate"):
        column = run.columns.get(name)
        values = column[np.isfinite(column)] if column is not None else np.empty(0)
        if name not in known and len(values) and (name == "learning_rate" or values.min() == values.max()):
            known[name] = float(values.max())
    return known


def arms_of(diagnoses: Sequence[Diagnosis]) -> list[Arm]:
    """Group runs by their settings, in order."""
    found: dict[str, Arm] = {}
    for diagnosis in diagnoses:
        settings = settings_of(diagnosis.run)
        key = repr(sorted((k, repr(_rounded(v))) for k, v in settings.items() if k not in SEEDS))
        if key in found:
            found[key].diagnoses.append(diagnosis)
        else:
            found[key] = Arm(name=diagnosis.source, diagnoses=[diagnosis], settings=settings)
    for arm in found.values():
        if arm.seeds > 1:
            arm.settings = {k: v for k, v in arm.settings.items() if k not in SEEDS}
            arm.name = f"{arm.name} and {arm.seeds - 1} more"
    return list(found.values())


def changes(base: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the settings that differ. Settings that both sides declare come first."""
    differing = [Change(name, base.get(name), new.get(name)) for name in {**base, **new}]
    differing = [c for c in differing if _rounded(c.base) != _rounded(c.new)]
    return sorted(differing, key=lambda c: (c.base is None or c.new is None, not c.acts, c.name))


def _rounded(value: Any) -> Any:
    """Return a setting without conversion noise: 1e-06 and 1.0000000000000002e-06 are the same number."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    try:
        return float(f"{float(value):.9g}") if abs(float(value)) < EXACT else value
    except (TypeError, ValueError):
        return value
