"""Writes findings as SARIF 2.1.0, for code scanning. Fingerprints contain no step, so alerts are not duplicated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from grpo_doctor import Diagnosis, Finding, Severity, __version__
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import weight
from grpo_doctor.record import portable
from grpo_doctor.report.model import Options, authored, excuse, fingerprint, location, when

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.ERROR: "error", Severity.CRITICAL: "error"}
PRECISION = {"low": "medium", "medium": "high", "high": "very-high"}


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Render one SARIF run for all logs."""
    rules = list(dict.fromkeys(f.code for d in diagnoses for f in d.findings))
    results = [_result(d, f, rules, options) for d in diagnoses for f in d.findings]
    unjudged = [d for d in diagnoses if d.verdict == "unjudged"]
    run = {
        "tool": {"driver": {"name": "grpo-doctor", "version": __version__, "rules": [_rule(code) for code in rules]}},
        "automationDetails": {"id": "grpo-doctor/"},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notice(d) for d in unjudged],
                "toolConfigurationNotifications": [
                    {"level": "note", "message": {"text": f"{s.kind}: {s.text}"}} for s in options.suppressions
                ],
            }
        ],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(code: str) -> dict[str, Any]:
    check = load().checks.get(code)
    if check is None:  # a check in the user's own folder
        return {"id": code}
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in check.name.split("-")),
        "shortDescription": {"text": check.title},
        "help": {"text": check.page, "markdown": check.page},
        "defaultConfiguration": {"level": LEVELS[check.severity]},
        "properties": {"tags": [check.family], "precision": PRECISION[str(check.confidence)]},
    }


def _result(diagnosis: Diagnosis, finding: Finding, rules: list[str], options: Options) -> dict[str, Any]:
    path, line = location(diagnosis, finding)
    words = f"{finding.message} ({when(finding)}, confidence {finding.confidence})"
    todo = [remedy.title for remedy in finding.remedies]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rules.index(finding.code),
        "level": LEVELS[weight(finding)],
        "message": {
            "text": " ".join([words, *(f"To do: {title}." for title in todo)]),
            "markdown": "\n".join([authored(words), *(f"- {authored(title)}" for title in todo)]),
        },
        "locations": [{"physicalLocation": {"artifactLocation": _file(path), "region": {"startLine": line}}}],
        "partialFingerprints": {"grpoDoctor/v1": fingerprint(diagnosis.run.source, finding.code)},
        "properties": {
            "role": finding.role,
            "confidence": finding.confidence,
            "onsetStep": finding.onset_step,
            "explainedBy": finding.explained_by,
            "evidence": portable(finding.evidence),
        },
    }
    if reason := excuse(diagnosis, finding, options):
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": reason}]
    return result


def _file(path: str) -> dict[str, str]:
    """Return a path relative to the repository if the file is below the working directory; otherwise, its URI."""
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(path), "uriBaseId": "%SRCROOT%"}


def _notice(diagnosis: Diagnosis) -> dict[str, Any]:
    return {"level": "warning", "message": {"text": f"{diagnosis.source}: {diagnosis.headline}"}}
