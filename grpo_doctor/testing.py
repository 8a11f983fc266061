"""Helpers for tests of checks: series in a short notation, and functions that run a single check.

>>> series("1.0x3 0.02x2")
[1.0, 1.0, 1.0, 0.02, 0.02]
>>> series("1..3 ?x2 NaN")
[1.0, 2.0, 3.0, None, None, nan]
>>> series("1->0x3")
[1.0, 0.5, 0.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .diagnosis.catalogue import Catalogue, load, load_file
from .diagnosis.check import Check, Finding
from .diagnosis.declare import take_loaded
from .diagnosis.eager import diagnose_eagerly
from .diagnosis.examine import diagnose
from .diagnosis.live import LiveDoctor
from .record import StepRecord
from .run import Run, Sample, run_of


def series(words: str) -> list[float | None]:
    """Parse a series: ``0.5`` is a number, ``0.5x10`` ten equal numbers, ``1..5`` the integers from 1 to 5, and ``?``
    an unknown value. ``NaN`` and ``inf`` are numbers too.

    ``1->0.4x16`` gives 16 evenly spaced values from 1 to 0.4.
    """
    out: list[float | None] = []
    for word in words.split():
        value, _, times = word.partition("x")
        if "->" in value:
            first, last = map(float, value.split("->"))
            out += np.linspace(first, last, int(times)).tolist()
            continue
        if ".." in value:
            low, high = value.split("..")
            values: list[float | None] = [float(n) for n in range(int(low), int(high) + 1)]
        else:
            values = [None if value == "?" else float(value)]
        out += values * int(times or 1)
    return out


def records_of(first_step: int = 1, /, **columns: Any) -> list[StepRecord]:
    """Return records from columns, which are texts for `series` or lists of values. Columns of unequal length are an
    error."""
    values: dict[str, list[Any]] = {n: list(series(c) if isinstance(c, str) else c) for n, c in columns.items()}
    lengths = {len(v) for v in values.values()}
    if len(lengths) != 1:
        raise ValueError(f"columns differ in length: { {name: len(v) for name, v in values.items()} }")
    return [StepRecord(step=first_step + i, **{name: v[i] for name, v in values.items()}) for i in range(lengths.pop())]


def make_run(settings: Mapping[str, Any] | None = None, **columns: Any) -> Run:
    """Return a run from columns."""
    return run_of(records_of(**columns), "test", settings)


def check_of(code_or_function: str | Path | Callable[..., Any]) -> Check:
    """Return a check by its code or name, by its file, or by the function that declares it (in a test)."""
    if isinstance(code_or_function, Path):
        return load_file(code_or_function)
    if isinstance(code_or_function, str):
        found = load().find(code_or_function)
        if found is None:
            raise ValueError(f"no check is called {code_or_function!r}")
        return found
    for declared in take_loaded():
        if code_or_function in (declared.predicate, declared.conclusion):
            return declared
    raise ValueError(f"{code_or_function.__name__} is not decorated with @check or @conclude")


def run_check(
    code_or_function: str | Path | Callable[..., Any],
    settings: Mapping[str, Any] | None = None,
    *,
    samples: Mapping[int, list[Sample]] | None = None,
    thresholds: Mapping[str, Any] | None = None,
    eager: bool = False,
    **columns: Any,
) -> Finding | None:
    """Run one check on these columns; compiled, row-by-row and eager results must be equal.

    With ``eager``, the function is only called on whole numpy columns, so ``print``, breakpoints and ``if`` work in it.
    The run has the first of the run types that the check applies to.
    """
    check = check_of(code_or_function)
    alone = Catalogue([check], preview=True, compiled=not eager)
    limits = {check.code: thresholds or {}}
    records = records_of(**columns)
    run = run_of(records, "test", settings)
    run.run_type = check.run_types[0]
    for row, step in enumerate(run.steps.tolist()):
        if samples and step in samples:
            run.samples[row] = samples[step]
    at_once = diagnose_eagerly(run, alone, limits)[0].finding(check.code)
    if eager:
        return at_once
    whole = diagnose(run, catalogue=alone, thresholds=limits).finding(check.code)
    live = LiveDoctor(settings, catalogue=alone, thresholds=limits, run_type=run.run_type)
    for record in records:
        live.push(record, (samples or {}).get(record.step))
    stepwise = live.diagnosis().finding(check.code)
    if _essence(whole) != _essence(stepwise):
        raise AssertionError(f"{check.code} fed whole: {whole}\nfed step by step: {stepwise}")
    if _essence(whole) != _essence(at_once):
        raise AssertionError(f"{check.code} compiled: {whole}\ncalled eagerly: {at_once}")
    return whole


def find(
    code_or_function: str | Path | Callable[..., Any], settings: Mapping[str, Any] | None = None, **columns: Any
) -> Finding:
    """Return the findings of `run_check`; fail without findings."""
    found = run_check(code_or_function, settings, **columns)
    if found is None:
        raise AssertionError(f"{code_or_function} finds nothing")
    return found


def _essence(finding: Finding | None) -> str:
    """Return the parts of a result that must not depend on how a run was processed. They are text, so that NaN equals
    NaN."""
    if finding is None:
        return ""
    return repr(
        (
            finding.code, finding.severity, finding.confidence, finding.onset_step, finding.detected_step,
            finding.last_step, finding.cleared, finding.message, sorted(finding.evidence.items(), key=lambda kv: kv[0]),
        )
    )  # fmt: skip


__all__ = ["check_of", "find", "make_run", "records_of", "run_check", "series"]
