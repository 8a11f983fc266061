"""Advisories as a finding: what CFG039 asks of the settings, and what to do in its remedies."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from ..diagnosis.check import Remedy, Severity
from ..diagnosis.verdict import Diagnosis
from ..run import Table
from .matching import Match

CODE = "CFG039"
"""The check whose finding advisories are."""
SHOWN = 3
"""Advisories that one sentence names; the table has all."""


def declare(settings: MutableMapping[str, Any], found: Iterable[Match]) -> None:
    """Adds what CFG039 asks for to the settings of a run."""
    sure = _sure(found)
    if not sure:
        return
    said = [f"{match.advisory.id} ({_version(match)}): {match.advisory.title}" for match in sure[:SHOWN]]
    more = f"; and {len(sure) - SHOWN} more" if len(sure) > SHOWN else ""
    settings["advisories"] = "; ".join(said) + more
    settings["advisory_level"] = int(max(_level(match) for match in sure))


def explain(diagnosis: Diagnosis, found: list[Match]) -> None:
    """Adds to a diagnosis what each advisory says, what to do about it, and what is not known."""
    sure = _sure(found)
    finding = diagnosis.finding(CODE)
    if finding is not None and sure:
        finding.remedies = [_remedy(match) for match in sure]
    if sure:
        rows = [[match.advisory.id, match.advisory.symptom, match.advisory.do] for match in sure]
        diagnosis.tables.append(Table(title="Known bugs of these versions", head=["id", "symptom", "fix"], rows=rows))
    diagnosis.notes += notes(found)


def notes(found: Iterable[Match]) -> list[str]:
    """What is not known of the advisories that may apply, one line for each package."""
    lines = []
    possible = [match for match in found if match.standing == "possible"]
    if possible:
        named = "; ".join(f"{m.advisory.id} if {' and '.join(m.unknown)}" for m in possible[:SHOWN])
        more = f"; and {len(possible) - SHOWN} more" if len(possible) > SHOWN else ""
        lines.append(f"known bugs that may apply: {named}{more}")
    unknown: dict[str, list[Match]] = {}
    for match in found:
        one = match.advisory
        if match.standing == "version unknown" and (one.when or one.opt_in) and not match.unknown:
            unknown.setdefault(one.package, []).append(match)
    for package, listed in unknown.items():
        named = "; ".join(f"{m.advisory.id} affects {m.advisory.range}" for m in listed[:SHOWN])
        more = f"; and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
        lines.append(f"the version of {package} is not known: {named}{more}")
    return lines


def _sure(found: Iterable[Match]) -> list[Match]:
    """The advisories that apply, the most severe first."""
    sure = [match for match in found if match.standing == "affected"]
    return sorted(sure, key=lambda match: (-_level(match), match.advisory.id))


def _level(match: Match) -> Severity:
    return Severity.of(match.advisory.severity)


def _version(match: Match) -> str:
    return f"{match.advisory.package} {match.version}"


def _remedy(match: Match) -> Remedy:
    one = match.advisory
    return Remedy(one.id, one.do, (), f"{one.verified}{f': {one.read}' if one.read else ''}", ", ".join(one.sources))
