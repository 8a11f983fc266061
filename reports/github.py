"""Writes findings as GitHub Actions annotations, the worst first, up to GitHub's limit per step."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_doctor import Diagnosis, Finding, Severity
from grpo_doctor.diagnosis.verdict import weight
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.report.model import Options, excuse, location, since

MOST = 10
"""Maximum number of annotations per step that GitHub shows."""
COMMAND = {Severity.INFO: "notice", Severity.WARNING: "warning", Severity.ERROR: "error", Severity.CRITICAL: "error"}


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Return one workflow command per line."""
    found = [
        (-weight(finding), finding.code != diagnosis.cause, _annotation(diagnosis, finding))
        for diagnosis in diagnoses
        for finding in diagnosis.findings
        if excuse(diagnosis, finding, options) is None
        and not (finding.cleared and finding.level == Severity.INFO)  # a cleared remark needs no action
    ]
    found += [(-Severity.WARNING, False, _unjudged(d)) for d in diagnoses if d.verdict == "unjudged"]
    lines = [line for *_, line in sorted(found, key=lambda item: item[:2])]
    hidden = "\n".join(f"{one.kind}: {one.text}" for one in options.suppressions)
    most = MOST - bool(hidden)
    if len(lines) > most:
        more = counted(len(lines) - most + 1, "finding")
        lines[most - 1 :] = [f"::notice title=grpo-doctor::{more} more; see the report"]
    if hidden:
        lines.append(f"::notice title=grpo-doctor%3A suppressions::{_data(hidden)}")
    return "\n".join(lines)


def _annotation(diagnosis: Diagnosis, finding: Finding) -> str:
    path, line = location(diagnosis, finding)
    title = f"{finding.code} {finding.name} {since(finding)}"
    words = f"{finding.message}\n{finding.action}"
    where = f"file={_property(path)},line={line},title={_property(title)}"
    return f"::{COMMAND[weight(finding)]} {where}::{_data(words)}"


def _unjudged(diagnosis: Diagnosis) -> str:
    return f"::warning title=nothing judged::{_data(f'{diagnosis.source}: {diagnosis.headline}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
