"""The decorators that declare a check in a check file, and the list of declared checks that the catalogue has not taken
yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..run import RunType
from .check import Check, CheckError, Kind

_loading: dict[str, Check] = {}
"""Checks that were declared by the files being loaded, until the catalogue takes these checks."""


PROBE = "_probe"
"""Ending of a probe file's name. The probe belongs to the check in the file of the same name without this ending."""


def probe_beside(file: str | Path) -> str:
    """Return the file that may contain the probe of the check in a file."""
    return f"{str(file).removesuffix('.py')}{PROBE}.py"


def take_loaded(file: Path | None = None) -> list[Check]:
    """Return the declared checks that have not been taken yet, from one file or from all files."""
    loaded = [c for c in _loading.values() if file is None or c.file == str(file) or Path(c.file).samefile(file)]
    for check in loaded:
        del _loading[check.code]
    return loaded


def _declare(part: str, code: str, function: Callable[..., Any], meta: dict[str, Any]) -> None:
    issue = _loading.get(code)
    if issue is None:
        issue = _loading[code] = Check(code, function, **meta)
    elif function.__code__.co_filename not in (issue.file, probe_beside(issue.file)):
        raise CheckError(
            f"{function.__code__.co_filename}: {code} is already used by {issue.file}; choose another code"
        )
    if getattr(issue, part) is not None:
        raise CheckError(f"{issue.file}: {code}: a check file may contain only one @{part}")
    if part == "predicate":
        issue.take_predicate(function)
    elif part == "conclusion":
        issue.take_conclusion(function)
    elif part == "across":
        issue.take_across(function, meta)
    else:
        issue.take_probe(function, meta)


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
        denies_learning: bool = False,
        about: tuple[str, ...] = (),
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        meta = {k: v for k, v in locals().items() if k not in ("code", "part")}
        meta["withholds"] = withholds or {}

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            _declare(part, code, function, dict(meta))
            return function

        return register

    return declare


check = _decorator("predicate")
check.__doc__ = """Declares a predicate over columns for the check ``code``.

Args:
    code: two or three capital letters and three digits; unique and never reused.
    severity: info, warning, error or critical, unless `fires` overrides it.
    confidence: low (a threshold), medium (a test and the order of events) or high (proven).
    kind: outcome, defect, risk or remark; see `Kind`.
    explains: codes of the findings that this one accounts for.
    explains_from: minimum severity for that, unless it is an outcome: a small loss of each batch
        explains nothing.
    withholds: remedy id to the reason why it does not apply while this finding is active.
    invalidates: what must not be used any longer (rewards, checkpoints since the onset, the supervised stage).
    run_types: the kinds of run that it judges.
    vital: it reports that a vital series is stuck (constant, at its minimum or maximum); the first two sentences
        of a report always mention it.
    denies_learning: it reports that the run does not learn, so it is a past finding if the run learns.
    about: the success series whose level or course its message reports; a headline does not repeat them.
"""
conclude = _decorator("conclusion")
conclude.__doc__ = (
    """Declares a conclusion from other findings: parameters are their codes, required unless defaulted."""
)
probe = _decorator("probe")
probe.__doc__ = """Declares a probe.

Parameters are the entry points and objects of `grpo_doctor.probes.Adapter` that it needs, required unless defaulted;
keyword-only parameters are thresholds. It returns `fires` on a defect, None where the property holds, and raises
`grpo_doctor.probes.Unjudged` if it cannot decide. A probe's finding has confidence high. Together with a @check its
docstring is the section "What this certifies, and what it does not", ``severity`` is that of the probe alone, and
``explains`` and ``remedies`` are added to those of the check.
"""
across = _decorator("across")
across.__doc__ = """Declares a check of two sides of a comparison: the parameter is a
`grpo_doctor.compare.Comparison`, keyword-only parameters are thresholds. It returns `fires`, whose conditions are plain
truth values, or None. Together with a @check its docstring is the section "Across runs".
"""
