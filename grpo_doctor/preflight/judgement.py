"""Checks a configuration: runs the checks of settings on a run of one row, and reports settings that were not read or
checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..advisories import Match, matches
from ..advisories.finding import declare, explain
from ..advisories.versions import applicable
from ..diagnosis.catalogue import PREFLIGHT, Catalogue, load_family
from ..diagnosis.check import DECLARED, Check, Severity
from ..diagnosis.examine import diagnose
from ..diagnosis.verdict import Diagnosis
from ..run import BROADCAST, RunBuilder
from .batch_arithmetic import decisive, origin_key, table, to_declare, work_out
from .configuration import Configuration
from .memory import memory

WANTED = frozenset(
    "group_size learning_rate use_peft temperature kl_coef generation_batch eval_batch updates_per_rollout "
    "prompts_per_update max_new_tokens evaluation group_baseline world_size".split()
)
"""Settings that every reinforcement learning run has. Only rules that need one of these settings, and do not find it,
are reported as skipped."""
JUDGED = ("rl", "preference")
"""The kinds of training whose settings are checked."""
SHOWN = 12
"""Maximum number of names in a note. The coverage of a report lists all names."""


def judge(
    found: Configuration,
    source: str,
    catalogue: Catalogue | None = None,
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
    declared: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """Return the diagnosis of a configuration. Each finding names the line of its setting.

    Settings with several values are not checked.
    """
    every = catalogue or load_family(PREFLIGHT)
    rules = Catalogue((c for c in every.checks.values() if judges_settings(c)), every.preview)
    found.settings |= declared or {}
    found.keys |= dict.fromkeys(declared or {}, "--set")
    work_out(found)
    known = known_bugs(found)
    declare(found.settings, known)
    builder = RunBuilder(source, "configuration")
    builder.run.run_type = found.run_type
    builder.run.settings = dict(found.framework.capabilities if "framework" in found.settings else {})
    builder.run.settings |= {name: value for name, value in found.settings.items() if name not in found.swept}
    builder.add({"step": 0}, 1)
    run = builder.finish()
    run.notes += _notes(found)
    if found.run_type in JUDGED and not found.framework.can("beside_the_weights"):
        run.tables.append(decisive(found))
    if found.run_type == "rl" and not found.framework.can("beside_the_weights"):
        run.tables += [table(found), *filter(None, [memory(found)])]
    diagnosis = diagnose(run, catalogue=rules, thresholds=thresholds)
    explain(diagnosis, known)
    for finding in diagnosis.findings:
        keys = [name for name in _settings_of(rules.checks[finding.code]) if name in found.lines]
        finding.lines = [found.lines[keys[0]]] if keys else []
        finding.evidence["setting"] = origin_key(found, keys[0]) if keys else ""
    diagnosis.next_run = []
    diagnosis.coverage.skipped = [s for s in diagnosis.coverage.skipped if _is_reported(s["needs"], found)]
    diagnosis.coverage.unread_keys = list(dict.fromkeys(found.unread))
    diagnosis.verdict = _verdict(found, diagnosis)
    diagnosis.headline = _headline(found, diagnosis)
    return diagnosis


def known_bugs(found: Configuration) -> list[Match]:
    """Return the advisories that match the package versions and settings of a configuration."""
    package = found.framework.package
    if found.run_type not in JUDGED or not package:
        return []
    settings = {name: value for name, value in found.settings.items() if name not in found.swept}
    versions = applicable(found.versions, package)
    return matches(versions, settings, complete=found.complete, used=[package])


def judges_settings(check: Check) -> bool:
    """Return whether a check is a preflight check that needs only settings."""
    told = [any(_setting(field) for field in need.fields) for need in check.needs]
    return check.family == PREFLIGHT and check.predicate is not None and bool(told) and all(told)


def _setting(field: str) -> bool:
    return field.startswith(DECLARED) or field in BROADCAST


def _settings_of(check: Check) -> Iterable[str]:
    return (_bare(field) for fields in check.arguments for field in fields)


def _is_reported(needs: list[str], found: Configuration) -> bool:
    """Return whether to report a skipped rule. A rule is reported if all its missing settings are in `WANTED`.

    A skipped rule about an optional key, such as an entropy target, is not reported.
    """
    if found.framework.can("beside_the_weights"):
        return False
    if "settings.eval_batch" in needs and str(found.settings.get("evaluation", "no")) == "no":
        return False
    return all(any(_bare(field) in WANTED for field in need.split(" or ")) for need in needs)


def _bare(field: str) -> str:
    return field.removeprefix(DECLARED)


def _verdict(found: Configuration, diagnosis: Diagnosis) -> Any:
    """Return the verdict by the rules for runs, except that a configuration without findings is unproven instead of
    healthy, because the run has not started yet."""
    if found.run_type not in JUDGED or not diagnosis.coverage.ran:
        return "unjudged"
    worst = max((f.level for f in diagnosis.findings), default=Severity.INFO)
    return "failing" if worst >= Severity.ERROR else "suspect" if worst is Severity.WARNING else "unproven"


def _headline(found: Configuration, diagnosis: Diagnosis) -> str:
    said = len(found.keys)
    what = found.framework.label
    if found.run_type == "none" and found.elsewhere:
        return f"This file has no reinforcement learning settings: {'; '.join(found.elsewhere[:3])}."
    if found.run_type == "evaluation":
        return "This file configures no training, only evaluation."
    if found.run_type not in JUDGED:
        supervised = " The file looks like a configuration of supervised training."
        return (
            "No reinforcement learning settings found (searched for group size, KL, clipping and batch size under the "
            f"names of all known frameworks).{supervised if found.run_type == 'supervised' else ''}"
        )
    ran = diagnosis.coverage.ran
    counted = {level: sum(f.severity == level for f in diagnosis.findings) for level in ("error", "warning", "info")}
    problems = ", ".join(f"{n} {level}{'s' * (n != 1 and level != 'info')}" for level, n in counted.items() if n)
    return (
        f"Read {said} setting{'s' * (said != 1)} of {what} and found {problems or '0 problems'} ({ran} "
        f"rule{'s' * (ran != 1)} checked, {len(diagnosis.coverage.skipped)} skipped)."
    )


def _notes(found: Configuration) -> list[str]:
    """Return notes about unread and missing settings, one line each."""
    notes = list(found.notes)
    if found.assumed:
        what = found.framework.label
        values = [f"{name}={value}" for name, value in found.assumed.items()]
        notes.append(f"not in the file; defaults of {what}: {_listed(values)}")
    if found.swept:
        notes.append(f"not checked, because they vary in a sweep: {_listed(list(found.swept.values()))}")
    if found.run_type == "rl" and (unknown := to_declare(found)):
        notes.append(f"unknown settings; declare those that you know: --set {' --set '.join(unknown)}")
    if found.unresolved:
        notes.append(f"could not be resolved: {_listed(list(found.unresolved.values()))}")
    return notes


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
