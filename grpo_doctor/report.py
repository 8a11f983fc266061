"""What every report format shares: its options, how it is called, and what must not leak into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .catalogue import report, report_names
from .check import Finding
from .diagnosis import Diagnosis


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a report is written."""

    samples: bool = True
    color: bool = False
    width: int = 100
    verbose: bool = False
    figures: Path | None = None


class UnknownFormatError(ValueError):
    """A report format that no leaf of ``reports/`` writes."""


def render(name: str, diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """The report in one format. Raises `UnknownFormatError`."""
    if name not in report_names():
        raise UnknownFormatError(f"no report format is called {name!r}; there are {', '.join(report_names())}")
    text: str = report(name).render(diagnoses, options)
    return redact(text)


_SECRET = re.compile(
    r"\b(?:sk|pk|hf|ghp|gho|ghs|glpat|xox[abp]|AKIA|wandb|api|key)[-_]?[A-Za-z0-9_\-]{16,128}\b"
    r"|\bBearer [A-Za-z0-9._\-]{16,256}"
)


def redact(text: str) -> str:
    """The text without anything that looks like a key or a token."""
    return _SECRET.sub("[redacted]", text)


def since(finding: Finding) -> str:
    """Since when, in words."""
    if finding.onset_step == finding.last_step:
        return f"at step {finding.onset_step}"
    if finding.cleared:
        return f"steps {finding.onset_step} to {finding.last_step}, cleared"
    return f"since step {finding.onset_step}"
