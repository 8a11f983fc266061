"""What an agent is told of a log, a configuration, a check or a trainer: few words, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..diagnosis.catalogue import load
from ..diagnosis.check import Finding
from ..diagnosis.examine import diagnose
from ..diagnosis.verdict import Diagnosis
from ..readers import survey
from ..readers.mapping import refuse_unknown_fields, refuse_unknown_keys
from ..report.check_pages import page
from ..report.model import (
    first_step_to_take,
    framework,
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
"""Findings of a run and runs of an input that one answer holds; it says how many there are."""


def analyze(path: str, mapping: dict[str, str] | None = None) -> dict[str, Any]:
    """Every run of a log, a folder or a store, diagnosed: what happened, why, since when, how sure, what to change.

    Args:
        path: log, folder, or store on this machine.
        mapping: keys of the log to record fields, where the reward has an unusual name: ``{"mine": "reward_mean"}``.

    Raises:
        ReadError: nothing in it can be read as the log of a training.
        ConfigError: the mapping names a field that no record has, or a key that no run of the log holds.
    """
    refuse_unknown_fields(mapping or {})
    found = survey(Path(path), mapping or {})
    if found.runs:
        refuse_unknown_keys(mapping or {}, {key for run in found.runs for key in run.keys})
    runs = [told(diagnose(run)) for run in found.runs[:RUNS]]
    return {
        "read": found.words(),
        "unreadable": [f"{answer.source}: {answer.why}" for answer in (*found.unreadable, *found.failed)],
        "not_read": [f"{answer.source}: {answer.why}" for answer in found.not_read],
        "runs": runs,
        "runs_in_all": len(found.runs),
    }


def told(diagnosis: Diagnosis) -> dict[str, Any]:
    """One diagnosis: the sentence first, then the cause with what to do, the rest in a line each."""
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
    """The first remedy in the words of the framework that wrote the log, or what to find out first."""
    if not finding.remedies:
        return [first_step_to_take(finding)]
    remedy = finding.remedies[0]
    own, others = steps_for(remedy, who)
    return [remedy.title, *(f"{step.who}: {step.do}" for step in own or others)]


def _next(diagnosis: Diagnosis, main: Finding | None) -> list[str]:
    """What to ask or do after this answer."""
    steps = next_run(diagnosis)
    if main is not None:
        steps.append(f"explain {main.code}: what it sees, its false alarms, every remedy")
    if diagnosis.verdict in ("unproven", "unjudged"):
        steps.append("settings of the launch script or configuration: most lost runs are lost there")
    return steps


def compare(base: str, new: str) -> list[dict[str, Any]]:
    """Two runs side by side: what was changed, where they part, what differs beyond noise, which remedy is confirmed.

    Args:
        base: log, folder or store of the run before the change.
        new: the same of the run after it; runs of equal settings in it count as seeds of one.

    Raises:
        ReadError: one of them cannot be read.
        ValueError: one of them holds no run.
    """
    from ..compare import arms_of
    from ..compare import compare as compared
    from ..compare.summary import headline, shown, tables

    sides = [arms_of([diagnose(run) for run in survey(Path(path), {}).runs]) for path in (base, new)]
    for path, arms in zip((base, new), sides, strict=True):
        if not arms:
            raise ValueError(f"{path}: holds no run")
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
    """The page of a check: what it sees, why it matters, known false alarms, remedies, sources.

    Raises:
        ValueError: no check has this code or name.
    """
    catalogue = load()
    check = catalogue.find(code)
    if check is None:
        raise ValueError(f"no check is called {code!r}; codes stand in the findings of an analysis")
    return page(catalogue, check)


def settings(path: str) -> list[dict[str, Any]]:
    """Every training that a script, notebook or configuration describes: its arithmetic and what will not work.

    Nothing of it is run.

    Raises:
        ReadError: it cannot be read, or holds no settings of reinforcement learning.
    """
    from ..preflight.judgement import judge
    from ..preflight.reading import read

    return [_settings(judge(found, path)) for found in read(Path(path))]


def _settings(diagnosis: Diagnosis) -> dict[str, Any]:
    answer = told(diagnosis)
    tables = presentable(diagnosis, samples=False).tables
    return {**answer, "arithmetic": {row[0]: row[1] for table in tables for row in table.rows}}


def probe(adapter: str) -> dict[str, Any]:
    """Calls a trainer's own padding, mask, advantage and loss code and proves it right or wrong.

    This executes the adapter file and what it imports. Raises `AdapterError` where it cannot be used.
    """
    from ..probes import load_adapter, run_probes
    from ..probes.runner import TIME_LIMIT, loaded

    return told(run_probes(loaded(lambda: load_adapter(Path(adapter)), Path(adapter), TIME_LIMIT)))
