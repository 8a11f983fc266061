"""Reports advisories as a finding, with their remedies, and adds the settings that CFG039 needs."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sized
from typing import Any

from ..diagnosis.check import Remedy, Severity
from ..diagnosis.verdict import Diagnosis
from ..run import Table
from .matching import Match

CODE = "CFG039"
"""Code of the check that reports advisories."""
SHOWN = 3
"""Maximum number of advisories in one sentence; the table lists all advisories."""


def declare(settings: MutableMapping[str, Any], found: Iterable[Match]) -> None:
    """Add the settings that the check CFG039 needs."""
    sure = _sure(found)
    if not sure:
        return
    said = [_reported(match) for match in sure[:SHOWN]]
    settings["advisories"] = "; ".join(said) + _more(sure)
    settings["advisory_level"] = int(max(_level(match) for match in sure))


def explain(diagnosis: Diagnosis, found: list[Match]) -> None:
    """Add the details, the remedy and the unknown conditions of each advisory to a diagnosis."""
    sure = _sure(found)
    finding = diagnosis.finding(CODE)
    if finding is not None and sure:
        finding.remedies = [_remedy(match) for match in sure]
    if sure:
        rows = [[match.advisory.id, match.advisory.do, match.advisory.range] for match in sure]
        diagnosis.tables.append(Table(title="Known bugs of these versions", head=["id", "fix", "affected"], rows=rows))
    diagnosis.notes += notes(found)


def notes(found: Iterable[Match]) -> list[str]:
    """Return the unknown conditions of advisories that may apply, at warning or above, one line per package."""
    told: dict[str, list[str]] = {}
    for match in found:
        one, unknown = match.advisory, " and ".join(match.unknown)
        if _level(match) < Severity.WARNING:
            continue
        if match.standing == "possible":
            told.setdefault(f"known bugs of {one.package} {match.version} that may apply", []).append(
                f"{one.id} if {unknown}"
            )
        if match.standing == "version unknown" and (one.when or one.opt_in) and not unknown:
            told.setdefault(f"the version of {one.package} is not known", []).append(f"{one.id} affects {one.range}")
    return [f"{what}: {'; '.join(listed[:SHOWN])}{_more(listed)}" for what, listed in told.items()]


def _more(listed: Sized) -> str:
    return f"; and {len(listed) - SHOWN} more (grpo-doctor advisories)" if len(listed) > SHOWN else ""


def lines(found: Iterable[Match]) -> list[str]:
    """Return one line, with the remedy, for each advisory that applies or is likely to apply."""
    return [f"{_reported(match)} ({_level(match)}). {match.advisory.do}" for match in _sure(found)]


def _sure(found: Iterable[Match]) -> list[Match]:
    """Return the advisories that apply or are likely to apply, the most severe first."""
    sure = [match for match in found if match.standing in ("affected", "likely")]
    return sorted(sure, key=lambda match: (-_level(match), match.advisory.id))


def _level(match: Match) -> Severity:
    """Return the severity of an advisory; an advisory that is only likely is at most a warning."""
    level = Severity.of(match.advisory.severity)
    return level if match.standing == "affected" else min(level, Severity.WARNING)


def _reported(match: Match) -> str:
    """Return the text of an advisory, with its package and version, and whether the log shows the bug."""
    likely = f" (likely: {' and '.join(match.unknown)} is not known)" if match.standing == "likely" else ""
    shown = "; the log shows it" if match.shown else ""
    return f"{match.advisory.id} ({match.advisory.package} {match.version}{shown}): {match.advisory.title}{likely}"


def _remedy(match: Match) -> Remedy:
    one = match.advisory
    return Remedy(one.id, one.do, (), f"{one.verified}{f': {one.read}' if one.read else ''}", ", ".join(one.sources))
