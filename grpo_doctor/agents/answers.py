"""Short answers for coding agents about a log, configuration, check or trainer, with next steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..advisories.in_logs import diagnose_with_advisories
from ..diagnosis.catalogue import load
from ..diagnosis.check import Finding
from ..diagnosis.examine import diagnose
from ..diagnosis.framework import framework
from ..diagnosis.verdict import Diagnosis
from ..readers import survey
from ..readers.mapping import refuse_unknown_fields, refuse_unknown_keys
from ..report.check_pages import page
from ..report.model import (
    level,
    missing,
    next_run,
    presentable,
    since,
    steps_for,
    story,
    withheld,
)

FINDINGS, RUNS = 8, 20
"""Maximum number of findings per run, and of runs per answer. An answer states the total numbers as well."""


def analyze(path: str, mapping: dict[str, str] | None = None) -> dict[str, Any]:
    """Diagnose every run of a log, folder or store.

    The answer states what happened, the onset, the cause, the confidence, and what to change.

    Args:
        path: log, folder, or store on this machine.
        mapping: log keys to record fields, if a metric has an unusual name: ``{"mine": "reward_mean"}``.

    Raises:
        ReadError: no training log could be read.
        ConfigError: the mapping contains an unknown field, or a key that no run has.
    """
    refuse_unknown_fields(mapping or {})
    found = survey(Path(path), mapping or {})
    if found.runs:
        refuse_unknown_keys(mapping or {}, {key for run in found.runs for key in run.keys})
    runs = [summarised(diagnose_with_advisories(run)) for run in found.runs[:RUNS]]
    return {
        "read": found.words(),
        "unreadable": [f"{answer.source}: {answer.why}" for answer in (*found.unreadable, *found.failed)],
        "not_read": [f"{answer.source}: {answer.why}" for answer in found.not_read],
        "runs": runs,
        "runs_in_all": len(found.runs),
    }


def summarised(diagnosis: Diagnosis) -> dict[str, Any]:
    """Summarise a diagnosis: headline, cause with remedy, and one line per other finding."""
    shown = presentable(diagnosis, samples=False)
    main, effects, others, notes = story(shown)
    rest = [*effects, *others, *notes]
    answer: dict[str, Any] = {
        "source": shown.source,
        "verdict": shown.verdict,
        "what_happened": shown.headline,
        "steps": shown.steps,
        "findings": [_line(f) for f in rest[:FINDINGS]],
        "findings_in_all": len(shown.findings),
        "not_judged_for_want_of": [needs for needs, _ in missing(shown)[:FINDINGS]],
        "notes": shown.notes[:FINDINGS],
        "next": _next(shown, main),
    }
    if main is not None:
        answer["cause"] = {**_line(main), "do": _do(main, framework(shown.run)), "confidence": main.confidence}
        answer["do_not"] = [f"{w.title}: {w.because}" for w in withheld(shown)]
    return answer


def _line(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": level(finding),
        "since": since(finding),
        "says": finding.message,
        "lines": finding.lines[:3],
    }


def _do(finding: Finding, who: str | None) -> list[str]:
    """Return the first remedy, with the steps for the framework of the log. Without a remedy, return the finding's next
    action."""
    if not finding.remedies:
        return [finding.action]
    remedy = finding.remedies[0]
    own, others = steps_for(remedy, who)
    return [remedy.title, *(f"{step.who}: {step.do}" for step in own or others)]


def _next(diagnosis: Diagnosis, main: Finding | None) -> list[str]:
    """Return the suggested next calls and actions."""
    steps = next_run(diagnosis)
    if main is not None:
        steps.append(f"explain {main.code}: what the check detects, false alarms, all remedies")
    if diagnosis.verdict in ("unproven", "unjudged"):
        steps.append("call preflight with the launch script or configuration: many runs fail because of them")
    return steps


def compare(base: str, new: str) -> list[dict[str, Any]]:
    """Compare two runs: changed settings, where they diverge, differences beyond noise, confirmed remedies.

    Args:
        base: log, folder or store of the run before the change.
        new: log, folder or store of the run after the change; runs with identical settings count as seeds of one
            setting.

    Raises:
        ReadError: a path cannot be read.
        ValueError: a path contains no run.
    """
    from ..compare import arms_of
    from ..compare import compare as compared
    from ..compare.summary import headline, shown, tables

    sides = [arms_of([diagnose(run) for run in survey(Path(path), {}).runs]) for path in (base, new)]
    for path, arms in zip((base, new), sides, strict=True):
        if not arms:
            raise ValueError(f"{path}: contains no run")
    found = [shown(compared(sides[0][0], arm), samples=False) for arm in sides[1]]
    return [
        {
            "verdict": one.verdict,
            "what_happened": headline(one),
            "cannot_compare_because": one.because,
            "notes": one.notes[:FINDINGS],
            "tables": {table.title: [dict(zip(table.head, row, strict=True)) for row in table.rows[:FINDINGS]]
                       for table in tables(one)},
        }
        for one in found[:RUNS]
    ]  # fmt: skip


def explain(code: str) -> str:
    """Explain a check: what it detects, why it matters, known false alarms, remedies and sources.

    Raises:
        ValueError: no check has this code or name.
    """
    catalogue = load()
    check = catalogue.find(code)
    if check is None:
        raise ValueError(f"unknown check {code!r}; use a code from the findings of analyze")
    return page(catalogue, check)


def preflight(path: str) -> list[dict[str, Any]]:
    """Check every training run that a script, notebook or configuration defines: batch arithmetic and problems.

    Nothing is executed.

    Raises:
        ReadError: the file cannot be read or has no reinforcement learning settings.
    """
    from ..preflight.judgement import judge
    from ..preflight.reading import read

    return [_with_arithmetic(judge(found, path)) for found in read(Path(path))]


def _with_arithmetic(diagnosis: Diagnosis) -> dict[str, Any]:
    answer = summarised(diagnosis)
    tables = presentable(diagnosis, samples=False).tables
    return {**answer, "arithmetic": {row[0]: row[1] for table in tables for row in table.rows}}


def probe(adapter: str) -> dict[str, Any]:
    """Test a trainer's padding, mask, advantage and loss code by calling it.

    The probe executes the adapter file and its imports. Raises `AdapterError` for an unusable adapter.
    """
    from ..probes import load_adapter, run_probes
    from ..probes.runner import TIME_LIMIT, loaded

    return summarised(run_probes(loaded(lambda: load_adapter(Path(adapter)), Path(adapter), TIME_LIMIT)))
