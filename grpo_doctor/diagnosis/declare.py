"""The decorators with which a leaf file declares its illness, and what was declared until the catalogue takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..run import RunType
from .check import Check, CheckError, Kind

_loading: dict[str, Check] = {}
"""Checks that the leaves loaded just now have declared; the catalogue takes them."""


def take_loaded(file: Path | None = None) -> list[Check]:
    """The checks that were declared and not yet taken: those of one file, or all."""
    loaded = [c for c in _loading.values() if file is None or c.file == str(file) or Path(c.file).samefile(file)]
    for check in loaded:
        del _loading[check.code]
    return loaded


def _declare(part: str, code: str, function: Callable[..., Any], meta: dict[str, Any]) -> None:
    illness = _loading.get(code)
    if illness is None:
        illness = _loading[code] = Check(code, function, **meta)
    elif illness.file != function.__code__.co_filename:
        raise CheckError(f"{function.__code__.co_filename}: {code} is taken by {illness.file}; choose a free code")
    if getattr(illness, part) is not None:
        raise CheckError(f"{illness.file}: {code}: a leaf holds at most one @{part}")
    if part == "predicate":
        illness.take_predicate(function)
    elif part == "conclusion":
        illness.take_conclusion(function)
    elif part == "across":
        illness.take_across(function, meta)
    else:
        illness.take_probe(function, meta)


def _decorator(part: str) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    def declare(
        code: str,
        *,
        severity: str = "warning",
        confidence: str = "low",
        kind: Kind = "risk",
        explains: tuple[str, ...] = (),
        explains_from: str = "info",
        withholds: Mapping[str, str] | None = None,
        invalidates: tuple[str, ...] = (),
        run_types: tuple[RunType, ...] = ("rl",),
        vital: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        meta = {k: v for k, v in locals().items() if k not in ("code", "part")}
        meta["withholds"] = withholds or {}

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            _declare(part, code, function, dict(meta))
            return function

        return register

    return declare


check = _decorator("predicate")
check.__doc__ = """Declares a predicate over columns for the illness ``code``.

Args:
    code: two or three capitals and three digits; never used twice, never reused.
    severity: info, warning, error or critical, where `fires` names no other.
    confidence: low (a threshold), medium (a test and the order in time) or high (proven).
    kind: outcome, defect, risk or remark; see `Kind`.
    explains: codes of the findings that this one accounts for.
    explains_from: severity from which it does, unless the run suffers from it: what is lost of each batch accounts for
        nothing while it is little.
    withholds: remedy id to the reason why it makes no sense while this finding holds.
    invalidates: what can no longer be trusted (rewards, checkpoints since the onset, the supervised stage).
    run_types: the kinds of run that it judges.
    vital: it says that a vital series is stuck (constant, at its floor or its ceiling), which the first two sentences
        of a report say whatever else holds.
"""
conclude = _decorator("conclusion")
conclude.__doc__ = (
    """Declares a conclusion from other findings: parameters are their codes, required unless defaulted."""
)
probe = _decorator("probe")
probe.__doc__ = """Declares a probe.

Parameters are the seams and objects of `grpo_doctor.probes.Adapter` that it needs, required unless defaulted;
keyword-only parameters are thresholds. It returns `fires` on a defect, None where the property holds, and raises
`grpo_doctor.probes.Unjudged` where it cannot tell. What a probe finds has confidence high. Beside a @check its
docstring is the section "What this certifies, and what it does not", ``severity`` is that of the probe alone, and
``explains`` and ``remedies`` are added to those of the check.
"""
across = _decorator("across")
across.__doc__ = """Declares what is asked of two sides of a comparison: the one parameter is a
`grpo_doctor.compare.Comparison`, keyword-only parameters are thresholds. It returns `fires`, whose conditions are plain
truth values, or None. Beside a @check its docstring is the section "Across runs".
"""
