"""Judges the outcome of each finding, whether the remedies of BASE's findings are confirmed, and whether NEW is better
or worse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ..diagnosis.check import Finding, Severity
from ..diagnosis.verdict import Diagnosis, weight
from .arms import Arm
from .difference import Difference

Fate = Literal["vanished", "eased", "stayed", "worsened", "appeared", "cannot tell"]
_STATUS = {"vanished": "gone", "stayed": "unchanged"}
Judgement = Literal["confirmed", "partly", "no effect", "worse", "cannot tell"]
Verdict = Literal["better", "worse", "mixed", "no difference", "inconclusive", "cannot tell"]


class Fared(msgspec.Struct, kw_only=True):
    """A finding of BASE, of NEW or of both, with its outcome and the judgement of its remedies.

    ``severity`` is the higher severity of the two sides. ``judgement`` is None for new findings, and for symptoms of
    another finding of BASE, because the remedies of a symptom are not applied. ``remedies`` contains titles.
    """

    code: str
    name: str
    severity: str
    fate: Fate
    base: str = ""
    new: str = ""
    remedies: list[str] = []
    judgement: Judgement | None = None
    why: str = ""

    @property
    def status(self) -> str:
        """Return the outcome in the words of the reports. JSON uses the words of `Fate`."""
        return _STATUS.get(self.fate, self.fate)

    @property
    def level(self) -> Severity:
        return Severity.of(self.severity)


def fared(base: Arm, new: Arm, differences: Sequence[Difference]) -> list[Fared]:
    """Return every active finding of BASE or NEW at warning or above. Causes in a headline come first, then findings
    with judged remedies, then the most severe findings."""
    success = success_of(differences)
    sides = [_worst(base.diagnoses), _worst(new.diagnoses)]
    told = [_one(code, sides[0].get(code), sides[1].get(code), base, new) for code in {**sides[0], **sides[1]}]
    gone = {f.code for f in told if f.fate == "vanished"}
    for found in told:
        if found.remedies:
            left = _remaining_effects(found.code, base, told) if found.code in gone else []
            found.judgement, found.why = _judged(found, success, left)
        elif not found.why and found.fate != "appeared":
            found.why = _explained(found.code, base)
    heads = {d.cause for d in (*base.diagnoses, *new.diagnoses)}
    return sorted(told, key=lambda f: (f.code not in heads, f.judgement is None, -f.level, f.fate, f.code))


def _worst(diagnoses: Sequence[Diagnosis]) -> dict[str, Finding]:
    """Return the most severe active finding of each code at warning or above, over all seeds."""
    worst: dict[str, Finding] = {}
    for finding in (f for d in diagnoses for f in d.findings):
        known = worst.get(finding.code)
        if weight(finding) >= Severity.WARNING and (known is None or finding.level > known.level):
            worst[finding.code] = finding
    return worst


def _one(code: str, before: Finding | None, after: Finding | None, base: Arm, new: Arm) -> Fared:
    told = before or after
    assert told is not None
    past = [_past(code, arm) for arm in (base, new)]
    found = Fared(code=code, name=told.name, severity=str(told.level), fate="stayed")
    found.base, found.new = (f.message if f is not None else "" for f in (before or past[0], after or past[1]))
    if before is not None and not before.explained_by:
        found.remedies = [r.title for r in before.remedies]
    if after is None:
        assert before is not None
        found.why = _blind(code, new, "NEW") or _too_early(before, new, "NEW", "BASE")
        remark = _remark(code, new)
        found.fate = "cannot tell" if found.why else "eased" if past[1] is not None or remark else "vanished"
        found.why = found.why or _until(past[1], "NEW") or ("NEW has it at info" if remark else "")
        found.new = found.new or remark
        return found
    found.severity = str(max(f.level for f in (before, after) if f is not None))
    known = before or past[0]
    if known is None:
        found.fate, found.why = "appeared", _blind(code, base, "BASE") or _too_early(after, base, "BASE", "NEW")
    elif after.level != known.level:
        found.fate = "worsened" if after.level > known.level else "eased"
    elif before is None:
        found.why = _until(past[0], "BASE")
    elif share(code, new) < share(code, base):
        found.fate = "eased"
    return found


def _explained(code: str, base: Arm) -> str:
    by = dict.fromkeys(c for d in base.diagnoses for f in d.findings if f.code == code for c in f.explained_by)
    return f"explained by {', '.join(by)}" if by else ""


def _past(code: str, arm: Arm) -> Finding | None:
    """Return the most severe finding of this code at warning or above that a side has or had."""
    had = [f for d in arm.diagnoses for f in d.findings if f.code == code and f.level >= Severity.WARNING]
    return max(had, key=lambda f: f.level, default=None)


def _remark(code: str, arm: Arm) -> str:
    """Return the message of a side's first finding of this code that is not cleared; empty if there is no such
    finding."""
    return next((f.message for d in arm.diagnoses for f in d.findings if f.code == code and not f.cleared), "")


def _until(past: Finding | None, side: str) -> str:
    return f"{side} had it too, until step {past.last_step}" if past is not None else ""


def share(code: str, arm: Arm) -> float:
    """Return the share of the arm's runs that have an active finding at warning or above."""
    return sum(code in _worst([d]) for d in arm.diagnoses) / arm.seeds


def _blind(code: str, arm: Arm, side: str) -> str:
    """Return why a check could not run on a side; empty if the check ran on every run."""
    for diagnosis in arm.diagnoses:
        for skipped in diagnosis.coverage.skipped:
            if skipped["code"] == code:
                return f"{side} lacks what the check needs: {', '.join(skipped['needs']) or 'records'}"
    return ""


def _too_early(shown: Finding, arm: Arm, side: str, other: str) -> str:
    """Return a sentence if a side ends before the step at which the other side showed the finding."""
    ends = min((d.last_step for d in arm.diagnoses if d.last_step is not None), default=None)
    if ends is None or ends >= shown.detected_step:
        return ""
    return f"{side} ends at step {ends}, and {other} showed it at step {shown.detected_step}"


def _remaining_effects(code: str, base: Arm, told: Sequence[Fared]) -> list[str]:
    """Return the codes of BASE's findings that this finding explained and that NEW still has."""
    explained = {f.code for d in base.diagnoses for f in d.findings if code in f.explained_by}
    return [f.code for f in told if f.code in explained and f.fate in ("stayed", "worsened")]


def _judged(found: Fared, success: Difference | None, left: Sequence[str]) -> tuple[Judgement, str]:
    better = success.better if success is not None else 0
    if found.fate == "cannot tell":
        return "cannot tell", found.why
    if found.fate == "worsened" or (better < 0 and found.fate != "vanished"):
        return (
            "worse",
            f"the {success.label} is worse" if success is not None and better < 0 else "it is more severe than before",
        )
    if better < 0:
        assert success is not None
        return "partly", f"it is gone, but the {success.label} is worse"
    if found.fate == "vanished" and not left:
        return "confirmed", "the check ran and found nothing"
    if found.fate == "vanished":
        return "partly", f"it is gone, but {', '.join(left)}, which it explained, did not disappear"
    if found.fate == "eased":
        return "partly", found.why or "it is less severe or less frequent"
    if better > 0:
        assert success is not None
        return "partly", f"it is still there, but the {success.label} is better"
    return "no effect", "it is unchanged"


def success_of(differences: Sequence[Difference]) -> Difference | None:
    """Return the success series that decides: the first series that differs beyond noise. Held-out scores come
    first."""
    return next((d for d in differences if d.better), None)


def decided_by(differences: Sequence[Difference]) -> Difference | None:
    """Return the series to report if no success series differs: the first series with known noise."""
    return next((d for d in differences if d.known), None)


def verdict_of(differences: Sequence[Difference], told: Sequence[Fared]) -> Verdict:
    """Return whether NEW is better or worse, judged by success and by findings at error or above that appeared or
    disappeared."""
    success = success_of(differences)
    grave = [f for f in told if f.level >= Severity.ERROR]
    came = [f for f in grave if f.fate in ("worsened", "appeared")]
    went = any(f.fate == "vanished" for f in grave)
    better = went or (success is not None and success.better > 0)
    worse = success is not None and success.better < 0
    worse |= any(f.fate == "worsened" or not f.why for f in came)  # BASE could have shown the finding
    if better and (worse or came):
        return "mixed"
    if worse or better:
        return "worse" if worse else "better"
    deciding = decided_by(differences)
    if deciding is None:
        return "cannot tell"
    return "inconclusive" if deciding.inconclusive or one_sided(told) else "no difference"


def one_sided(told: Sequence[Fared]) -> list[Fared]:
    """Return the findings at error or above on one side that the other side could not have shown."""
    return [f for f in told if f.level >= Severity.ERROR and f.why and f.fate in ("appeared", "cannot tell")]
