"""Finds advisories that affect a run, by the versions in its log and by its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from ..diagnosis.catalogue import Catalogue
from ..diagnosis.examine import diagnose
from ..diagnosis.framework import framework
from ..diagnosis.verdict import Diagnosis
from ..limits import OverBudgetError
from ..readers import ReadError
from ..readers.input import Input
from ..run import Run
from .database import normal
from .entry import Advisory
from .finding import declare, explain
from .matching import COMPARE, Match, matches
from .versions import applicable, stated

LINES = 2_000
"""Number of lines at the start of a log that are searched for versions."""
TEXTS = (".log", ".txt", ".out", ".err", ".ipynb", "")
"""Suffixes of logs that may print versions, and of the package list of a W&B run."""
SHARE = 0.5
"""Minimum share of the known values for which a condition of a signature must be true."""


def diagnose_with_advisories(
    run: Run,
    catalogue: Catalogue | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
) -> Diagnosis:
    """Diagnose a run, with the advisories for the versions in its log."""
    known = known_bugs(run, framework(run))
    declare(run.settings, known)
    diagnosis = diagnose(run, catalogue=catalogue, thresholds=thresholds)
    explain(diagnosis, known)
    return diagnosis


def known_bugs(run: Run, framework: str | None) -> list[Match]:
    """Return the advisories for the versions in a log, or in the files of a W&B run next to it."""
    said = _versions(run)
    if not said or not (versions := applicable(said, framework)):
        return []
    return matches(versions, run.settings, shows=lambda one: shows(run, one))


def _versions(run: Run) -> dict[str, str]:
    named = {key.removesuffix("_version"): value for key, value in run.settings.items() if key.endswith("_version")}
    found = {normal(name): str(version) for name, version in named.items()}
    if run.path is None:
        return found
    beside = [folder / "requirements.txt" for folder in (run.path.parent, run.path.parent / "files")]
    packages = [path for path in beside if path.parent.name == "files" and path.is_file()]
    for path in [run.path, *packages]:
        if path.suffix.lower() not in TEXTS:
            continue
        try:
            found |= stated(text for _, text in islice(Input(path).lines(), LINES))
        except (ReadError, OverBudgetError):
            continue  # the log was already read, so its versions stay unknown
    return found


def shows(run: Run, advisory: Advisory) -> bool | None:
    """Return whether every condition of an advisory's signature is true for at least half of the known values. Return
    None if a field is missing."""
    conditions = advisory.conditions["signature"]
    answers = [_holds(run, one.name, one.operator, one.value) for one in conditions]
    if not answers or None in answers:
        return None
    return all(answers)


def _holds(run: Run, name: str, sign: str, value: object) -> bool | None:
    column = run.column(name)
    if column is None or column.dtype == object or not isinstance(value, int | float):
        return None
    known = column[~np.isnan(column)]
    return bool(np.mean(COMPARE[sign](known, value)) >= SHARE) if len(known) else None
