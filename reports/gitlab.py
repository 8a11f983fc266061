"""Writes findings as a GitLab code quality report. Fingerprints contain no step, so findings keep their identity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grpo_doctor import Diagnosis, Finding, Severity
from grpo_doctor.diagnosis.verdict import weight
from grpo_doctor.report.model import Options, excuse, fingerprint, location, since

SEVERITY = {Severity.INFO: "info", Severity.WARNING: "minor", Severity.ERROR: "major", Severity.CRITICAL: "critical"}


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Return a list of issues."""
    issues = [
        _issue(diagnosis, finding)
        for diagnosis in diagnoses
        for finding in diagnosis.findings
        if excuse(diagnosis, finding, options) is None
    ]
    return json.dumps(issues, indent=2, ensure_ascii=False)


def _issue(diagnosis: Diagnosis, finding: Finding) -> dict[str, Any]:
    path, line = location(diagnosis, finding)
    return {
        "description": f"{finding.code} {since(finding)}: {finding.message}",
        "check_name": f"{finding.code} {finding.name}",
        "fingerprint": fingerprint(diagnosis.run.source, finding.code),
        "severity": SEVERITY[weight(finding)],
        "location": {"path": path, "lines": {"begin": line}},
    }
