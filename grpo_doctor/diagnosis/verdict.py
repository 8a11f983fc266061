"""Turns findings into a diagnosis: what happened, why, what to change, the verdict, and what the verdict is based on.

**What happened** comes from the outcomes, beginning with outcomes about success (`series.trajectory`). **Why** comes
from the findings that explain the outcomes. The kind of a finding limits its severity. An *outcome* and a *defect* keep
their severity. A *risk* is at most a warning in a run that learns anyway, and info if it is in the settings. A *remark*
is info. A past finding is reported as past and does not affect the verdict. Therefore, only an active finding at error
or above makes the run failing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from ..run import Run, RunType, Table
from ..series.reward_components import idle, parts_of
from ..series.trajectory import MEANT, VALID, Trajectory
from ..series.trend import Outcome
from .catalogue import PREFLIGHT, Catalogue
from .check import Check, Confidence, Finding, Fires, Severity, Withheld
from .early_indicators import Before, Moved, Recorded, before
from .faq import answers_of
from .framework import framework
from .headline import ENOUGH, Facts, headline, planned_after
from .remedy_gate import BACK, built_in, contradicting, on_request, placed, senseless, unfounded
from .success import EVALUATED, HELD_OUT, beyond_reference, evidence, lost, together
from .tables import before_next_run, tables_of
from .wording import rendered

Verdict = Literal["failing", "suspect", "healthy", "unproven", "unjudged"]

SLACK, BLUR = 4, 1 / 64
"""Number of rows, and share of all rows, by which the onset of a cause may come after the onset of its effect. An alarm
needs some rows to fire, and the onset of a fall is only known to within a bin."""
LASTS = 10
"""Maximum number of rows between the end of a cause and the onset of its effect."""
OF_REWARD = frozenset(
    "reward_mean reward_std reward_min reward_max dead_share zero_variance_share zero_variance_groups live_groups "
    "groups advantage_max advantage_min advantage_std success_rate".split()
)
"""Series that are constant if the reward is constant. Findings about these series only repeat that the reward is
constant."""
REACH = 2 / 3
"""Share of the time before a fall, at its end, within which the cause of the fall must begin. A state that lasted while
the run improved did not cause the fall."""
ENDING = "ending"
"""Family of the checks that report how a run ended."""
TOLD_FIRST = "LEN003 REW001 STL006 STL008 STL001 GRD001 REW015 REW016 REW002 REW009 SUP001".split()
"""Codes of outcomes in ascending order of precedence: of equally severe outcomes, the last in this list is reported.
Outcomes about success have the highest precedence. Truncation precedes outcomes about success, because metrics of
truncated responses do not describe whole responses. NaN or infinity precedes a reward that has not risen."""


class Coverage(msgspec.Struct, kw_only=True):
    """Which checks the verdict is based on."""

    ran: int
    fired: int
    passed: int
    skipped: list[dict[str, Any]]
    unread_keys: list[str]
    passed_codes: list[str] = []


class Diagnosis(msgspec.Struct, kw_only=True):
    """The diagnosis of one run.

    ``outcome`` is the code of the main problem and ``cause`` the code that explains it, as in the headline. If no cause
    is known, ``cause`` is the outcome itself; both are None if there is no problem. ``onset_step`` is the step at which
    the problem began. ``success`` contains the state of every success series, and ``moved`` the metrics that left their
    range before a fall.
    """

    source: str
    format: str
    run_type: RunType
    steps: int
    first_step: int | None
    last_step: int | None
    settings: dict[str, Any]
    verdict: Verdict
    outcome: str | None = None
    cause: str | None
    onset_step: int | None = None
    headline: str
    success: dict[str, Outcome] = {}
    moved: list[Moved] = []
    findings: list[Finding]
    coverage: Coverage
    notes: list[str]
    tables: list[Table]
    next_run: list[str] = []
    answers: list[str] = []
    run: Run

    @property
    def worst(self) -> Severity | None:
        """Highest severity of the active findings."""
        return max(map(weight, self.findings), default=None)

    @property
    def learns(self) -> bool:
        """Whether the run learns or has solved its task."""
        return learns(self.success, self.run_type)

    def finding(self, code: str) -> Finding | None:
        """Return the finding with this code."""
        return next((f for f in self.findings if f.code == code), None)

    def _repr_html_(self) -> str:
        """Return the HTML report for notebooks, in a frame that is isolated from the notebook's style."""
        from .catalogue import report

        frame: str = report("html").notebook(self)
        return frame

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.source}: {self.verdict}. {self.headline}>"


def weight(finding: Finding) -> Severity:
    """Return the severity with which a finding counts; a past finding counts as info."""
    return Severity.INFO if finding.cleared else finding.level


def learns(success: Mapping[str, Outcome], run_type: RunType = "rl") -> bool:
    """Return whether a success series shows learning or a solved task, and no series fell back.

    A preference run begins with equal policy and reference (arXiv 2305.18290, equation 7), at a margin of 0 and a loss
    of ln 2. A run beyond that margin and loss has learned, even if its log starts late.
    """
    if lost(success):
        return False
    return (
        (run_type == "preference" and beyond_reference(success))
        or any(o.risen for o in evidence(success, run_type).values())
        or bool(together(success))
    )


def _settle(catalogue: Catalogue, findings: list[Finding], learning: bool) -> None:
    """Adjust findings to this run: in a run that learns, a risk is at most a warning, a risk in the settings is only
    info, and the finding that the run does not learn is past. Proven critical findings are never past."""
    for finding in findings:
        finding.cleared |= learning and catalogue.checks[finding.code].denies_learning
        of_settings = catalogue.checks[finding.code].family == PREFLIGHT
        if finding.kind == "remark":
            finding.severity = str(Severity.INFO)
        elif finding.kind == "risk" and learning:
            finding.severity = str(min(finding.level, Severity.INFO if of_settings else Severity.WARNING))
        if finding.level is Severity.CRITICAL and finding.sureness is Confidence.HIGH:
            finding.cleared = False


def conclude_all(catalogue: Catalogue, found: dict[str, Finding]) -> None:
    """Add conclusions from the findings, repeatedly, until nothing is added."""
    waiting = [c for c in catalogue.checks.values() if c.conclusion is not None and c.code not in found]
    grown = True
    while grown:
        grown = False
        for check in list(waiting):
            if any(required and code not in found for code, required in check.premises.items()):
                continue
            assert check.conclusion is not None
            fires: Fires | None = check.conclusion(*(found.get(code) for code in check.premises))
            if fires is None or not fires.when:
                continue
            premises = [found[code] for code in check.premises if code in found]
            confidence = check.confidence if fires.confidence is None else fires.confidence
            levels = [level for level, condition in fires.levels if condition]
            found[check.code] = Finding(
                code=check.code,
                name=check.name,
                kind=check.kind,
                severity=str(max(levels, default=check.severity)),
                confidence=str(confidence),
                onset_step=min(p.onset_step for p in premises),
                detected_step=max(p.detected_step for p in premises),
                last_step=max(p.last_step for p in premises),
                cleared=all(p.cleared for p in premises),
                message=rendered(fires.message, fires.evidence),
                evidence=fires.evidence,
                columns=list(dict.fromkeys(c for p in premises for c in p.columns)),
            )
            waiting.remove(check)
            grown = True


def _link(
    catalogue: Catalogue, findings: list[Finding], within: tuple[float, float], well: tuple[float, float]
) -> None:
    """Fill ``explained_by``. Finding A explains finding B if A's check lists the code of B, A does not begin after B,
    and B began while A lasted. A past finding explains nothing that an active finding with higher confidence explains.

    ``well`` contains the first step and the step at which success began to fall. A threshold that was crossed early
    between these two steps does not explain the fall, but a proven mechanism may explain it.
    """
    (slack, reach), (began, fell) = within, well
    for finding in findings:
        able = [
            other
            for other in findings
            if finding.code in catalogue.checks[other.code].explains
            and other.onset_step <= finding.onset_step + slack
            and other.last_step >= finding.onset_step - reach
            and other.level >= _needed(other, finding)
            and not same_in_other_words(other, finding)
            and (other.level >= catalogue.checks[other.code].explains_from or other.kind == "outcome")
            and not (
                finding.onset_step >= fell - slack
                and other.onset_step < fell - max(REACH * (fell - began), reach)
                and other.sureness < Confidence.HIGH
            )
        ]
        holds = max((other.sureness for other in able if not other.cleared), default=Confidence.LOW)
        finding.explained_by = [other.code for other in able if not other.cleared or other.sureness >= holds]


def same_in_other_words(cause: Finding, effect: Finding) -> bool:
    """Return whether a finding only repeats its effect. An outcome repeats its effect if both use the same series. Any
    finding repeats its effect if its series are constant because the reward is constant. A proven mechanism never
    counts as a repetition."""
    if cause.kind == "defect":
        return False
    read = set(cause.columns)
    same = cause.kind == "outcome" and read == set(effect.columns)
    return bool(read) and (same or (bool(effect.evidence.get("constant")) and read <= OF_REWARD))


def _needed(cause: Finding, effect: Finding) -> Severity:
    """Return the severity that a finding needs to explain another: an outcome must be at least as severe as the outcome
    that it explains.

    Critical counts as error, because critical means that an outcome has lasted, not that it came first.
    """
    both_suffered = "outcome" == cause.kind == effect.kind
    return min(effect.level, Severity.ERROR) if both_suffered else min(effect.level, Severity.WARNING)


def _roots(finding: Finding, by_code: Mapping[str, Finding]) -> list[Finding]:
    """Return the root findings of every chain of explanations that ends in this finding."""
    seen: dict[str, Finding] = {}
    waiting = [finding]
    while waiting:
        current = waiting.pop()
        if current.code in seen:
            continue
        seen[current.code] = current
        waiting += [by_code[code] for code in current.explained_by]
    return [f for f in seen.values() if not f.explained_by and f is not finding]


def _strength(finding: Finding) -> tuple[Confidence, Severity, int]:
    return finding.sureness, finding.level, -finding.onset_step


def _assign_roles(findings: list[Finding], active: list[Finding]) -> tuple[Finding | None, Finding | None]:
    """Assign roles to the findings; return the outcome and the cause for the headline."""
    by_code = {f.code: f for f in findings}
    outcomes = [f for f in active if f.kind == "outcome" and f.level >= Severity.WARNING]
    defects = [f for f in active if f.kind == "defect" and f.level >= Severity.ERROR]
    ends = {f.code: f for f in (*outcomes, *defects)}  # the findings that need an explanation
    roots = {end.code: _roots(end, by_code) for end in ends.values()}
    causes = {f.code: f for f in (*(r for rs in roots.values() for r in rs), *defects) if not f.explained_by}
    suffered = {f.code for f in outcomes}
    explaining = set(causes) | suffered
    for finding in findings:
        if finding.code in causes and finding.code not in suffered:
            finding.role = "cause"
        elif finding.code in suffered:
            finding.role = "outcome"
        elif finding.explained_by and any(r.code in explaining for r in _roots(finding, by_code)):
            finding.role = "symptom"
        else:
            finding.role = "note"
    worst = max((min(end.level, Severity.ERROR) for end in ends.values()), default=None)
    heads = [f for f in outcomes if min(f.level, Severity.ERROR) == worst]
    told = {code: rank for rank, code in enumerate(TOLD_FIRST, 1)}
    outcome = max(heads, key=lambda f: (told.get(f.code, 0), *_strength(f)), default=None)
    able = {r.code: r for r in roots[outcome.code]} if outcome else {}
    if not able or any(f.sureness is Confidence.HIGH for f in defects):
        able |= {f.code: f for f in defects if not f.explained_by}
    mechanisms = [f for f in able.values() if f.role == "cause"]
    holding = [f for f in able.values() if not f.cleared]  # active findings come before past findings
    choice = [f for f in mechanisms if not f.cleared] or holding or mechanisms or list(able.values())
    cause = max(choice, key=_strength, default=None)
    if cause is not None and cause is not outcome:
        cause.role = "cause"
    return outcome, cause


def _treat(
    catalogue: Catalogue,
    findings: list[Finding],
    active: list[Finding],
    run: Run,
    refuted: Iterable[tuple[str, str]],
    passed: Collection[str],
) -> None:
    """Attach rivals and remedies, in the order of the findings. A remedy is withheld, with the reason, if an active
    finding, the settings, the log (``refuted``) or an earlier remedy rules it out. A rival whose check has ``passed``,
    or that is impossible in this kind of training, is omitted.

    Remedies that are recommended by most causes of the same effect, and by most risks in vital series, come first. If
    probes proved the findings on the code, the probe's remedies come first. Remedies that the framework's trainer
    already applies, and remedies for an undeclared entropy bonus, come last.
    """
    ruled_out = [
        (remedy_id, f"{finding.code} {finding.name}: {because}", finding.explained_by)
        for finding in sorted(active, key=_strength, reverse=True)
        for remedy_id, because in catalogue.checks[finding.code].withholds.items()
    ]
    ruled_out += [(remedy_id, because, []) for remedy_id, because in refuted]
    risks = {c.code for c in (catalogue.checks[f.code] for f in active) if c.vital and c.kind == "risk"}
    given: dict[str, str] = {}
    writer = framework(run)
    for finding in findings:
        check = catalogue.checks[finding.code]
        head = check.advice.probe_remedies if run.run_type == "probe" else ()
        offered = dict.fromkeys((*head, *check.remedies))
        possible = [r for r in check.rivals if not r.run_types or run.run_type in r.run_types]
        finding.rivals = [rival for rival in possible if rival.ruled_out_by not in passed]
        if finding.level >= Severity.WARNING:
            since = "" if finding.onset_step else " since step {onset}"  # omitted if the state began at step 0
            finding.invalidates = [t.replace(since, "").format(onset=finding.onset_step) for t in check.invalidates]
        # a symptom does not rule out the remedy of its cause
        withheld = {r: because for r, because, by in reversed(ruled_out) if finding.code not in by}
        withheld |= contradicting(given)
        useful = [r for r in offered if r.id not in withheld and not (r.id == BACK and unfounded(finding))]
        causes = {code for f in active if finding.code in f.explained_by for code in f.explained_by}
        if finding.code not in risks:
            causes |= risks
        asked = Counter(r.id for code in causes for r in catalogue.checks[code].remedies)
        useful.sort(key=lambda r: (r not in head, on_request(r, run.settings), built_in(r, writer), -asked[r.id]))
        finding.remedies = [placed(r, finding) for r in useful]
        reasons = {r: because[:1].upper() + because[1:] for r, because in withheld.items()}
        finding.withheld = [Withheld(r.id, r.title, reasons[r.id]) for r in offered if r.id in reasons]
        if finding in active:
            given |= {r.id: finding.code for r in finding.remedies}


def _mostly(check: Check, recorded: Recorded) -> bool:
    """Return whether at least half of the rows have the fields that a check requires. A pass on only a few rows rules
    nothing out."""
    columns = ([recorded.column(field) for field in need.fields] for need in check.needs if "step" not in need.fields)
    known = (sum(np.isfinite(c).sum() for c in found if c is not None and c.dtype != object) for found in columns)
    return all(2 * n >= len(recorded.steps) for n in known)


_ORDER = {"cause": 0, "outcome": 1, "symptom": 2, "note": 3}


def diagnosis_of(
    run: Run,
    catalogue: Catalogue,
    findings: list[Finding],
    coverage: Coverage,
    success: Mapping[str, Trajectory],
    *,
    rows: int | None = None,
    recorded: Recorded | None = None,
) -> Diagnosis:
    """Build the diagnosis from the findings and the success series of a run.

    For a live run, which does not keep its rows, ``rows`` and ``recorded`` are passed.
    """
    rows = len(run) if rows is None else rows
    recorded = recorded or Recorded(run.steps, run.column)
    first, last = bounds(run)
    begin = -math.inf if first is None else first
    stands, unpaid = _outcomes(success)
    learning = learns(stands, run.run_type)
    _settle(catalogue, findings, learning)
    fell = min((o.since for o in stands.values() if o.fallen), default=math.inf)
    _link(catalogue, findings, _within(first, last, rows), (math.inf if first is None else first, fell))
    active = [f for f in findings if not f.cleared]
    outcome, cause = _headed(*_assign_roles(findings, active), active, learning)
    _say_once(outcome, cause)
    _arrange(run, findings, cause or outcome, outcome)
    parts = parts_of(recorded.column("reward_components"))
    unused = idle(parts)
    refuted = senseless(run.settings, active, begin, recorded.column, unpaid=unpaid, idle=bool(unused))
    passed = _passed(catalogue, findings, coverage, recorded) if begin <= 1 else set[str]()
    _treat(catalogue, findings, active, run, refuted, passed)
    crash = next((f for f in active if catalogue.checks[f.code].family == ENDING and f.level > Severity.INFO), None)
    told = [f for f in findings if not f.cleared or f.onset_step != first]  # not a past state from the first row
    vital = [f for f in active if f.kind != "remark" and catalogue.checks[f.code].vital]
    facts = Facts(
        run=run,
        rows=rows,
        verdict=_verdict(run, active, coverage, stands, rows),
        outcome=outcome,
        cause=cause,
        findings=[f for f in told if f is not crash],
        crash=crash,
        vital=[f for f in vital if not (outcome and f is not outcome and same_in_other_words(f, outcome))],
        remarks=[f for f in active if f.kind == "remark" and catalogue.checks[f.code].vital],
        success=stands,
        learning=learning,
        reported={name for f in (outcome, cause) if f for name in catalogue.checks[f.code].about},
        parts=parts,
        idle=unused,
        before=before(recorded, int(fell)) if fell < math.inf else Before([], {}),
        column=recorded.column,
    )
    return _reported(facts, catalogue, findings, active, coverage)


def _outcomes(success: Mapping[str, Trajectory]) -> tuple[dict[str, Outcome], bool]:
    """Return the state of each success series, and whether correctness is always at its minimum. While correctness is
    at its minimum, a reward at its maximum shows only correct formatting, not a solved task."""
    stands = {name: series.outcome for name, series in success.items() if series.rows and name not in (MEANT, VALID)}
    task = success.get(MEANT)
    unpaid = task is not None and bool(task.unpaid)
    if unpaid:
        reward = stands["reward_mean"]
        stands["reward_mean"] = msgspec.structs.replace(reward, solved=False, risen=reward.gained)
    return stands, unpaid


def _within(first: int | None, last: int | None, rows: int) -> tuple[float, float]:
    """Return the number of steps by which a cause may begin after its effect, and the number by which it may end before
    its effect."""
    row = (last - first) / max(rows - 1, 1) if first is not None and last is not None else 0.0
    return max(SLACK, BLUR * rows) * row, LASTS * row


def _say_once(outcome: Finding | None, cause: Finding | None) -> None:
    """Remove the parts that the messages of the outcome and the cause have in common."""
    if outcome is not None and cause is not None and cause is not outcome:
        outcome.message = outcome.message.replace(str(outcome.evidence.get("more", "")), "")
        cause.message = cause.message.replace(str(cause.evidence.get("outcome", "")), "")


def _passed(catalogue: Catalogue, findings: list[Finding], coverage: Coverage, recorded: Recorded) -> set[str]:
    """Return the checks that passed on most rows and therefore rule out an alternative explanation."""
    asked = {rival.ruled_out_by for f in findings for rival in catalogue.checks[f.code].rivals}
    return {code for code in asked & {*coverage.passed_codes} if _mostly(catalogue.checks[code], recorded)}


def _reported(
    facts: Facts, catalogue: Catalogue, findings: list[Finding], active: list[Finding], coverage: Coverage
) -> Diagnosis:
    """Return the diagnosis with its first sentence, notes, tables and advice for the next run."""
    run, head, begun = facts.run, facts.head, facts.outcome or facts.cause
    first, last = bounds(run)
    sentence = headline(facts)
    if catalogue.selected and not head:
        sentence = f"Only the selected checks ran ({', '.join(catalogue.selected)}). {sentence}"
    end = run.ending.described if run.ending and run.ending.described in sentence else None
    again = run.repeated_error.described if run.repeated_error else ""
    return Diagnosis(
        source=run.source,
        format=run.format,
        run_type=run.run_type,
        steps=facts.rows,
        first_step=first,
        last_step=last,
        settings=run.settings,
        verdict=facts.verdict,
        outcome=facts.outcome.code if facts.outcome is not None else None,
        cause=head.code if head is not None else None,
        onset_step=begun.onset_step if begun is not None else None,
        headline=sentence,
        success=dict(facts.success),
        moved=facts.before.moved,
        findings=findings,
        coverage=coverage,
        notes=[
            *(note for note in run.notes if end is None or end not in note),
            *unfinished(run, last),
            *([again] if again and again not in sentence else []),
        ],
        tables=[*run.tables, *facts.before.tables(), *tables_of(run)],
        answers=answers_of(run),
        next_run=before_next_run([*([head] if head else []), *(f for f in active if f is not head)]),
        run=run,
    )


def unfinished(run: Run, last: int | None) -> list[str]:
    """Return a note if the log ends more than a row before the declared number of steps."""
    planned = planned_after(run, last)
    note = f"the log ends at step {last} of {planned}: the run is unfinished, and the report covers only these steps"
    return [note] if planned else []


def bounds(run: Run) -> tuple[int | None, int | None]:
    """Return the first and the last step; if the log restarts, the smallest and the largest."""
    if not len(run.steps):
        return None, None
    first, last = int(run.steps[0]), int(run.steps[-1])
    return (first, last) if first <= last else (int(run.steps.min()), int(run.steps.max()))


def _headed(
    outcome: Finding | None, cause: Finding | None, active: list[Finding], learning: bool
) -> tuple[Finding | None, Finding | None]:
    """Return the outcome and the cause of the headline: the findings that determine the verdict, whatever their kind.

    A warning without an outcome remains a note. Unless the run learns, a warning heads the report if no finding is more
    severe. If the run learns, success comes first.
    """
    grave = [f for f in active if f.level >= Severity.ERROR]
    if any(f is outcome or f is cause for f in grave) or (not grave and (outcome or cause)):
        return outcome, cause
    if grave:
        cause = max(grave, key=_strength)
        cause.role = "cause"
        return None, cause
    warnings = [f for f in active if f.level is Severity.WARNING and not learning]
    return None, max(warnings, key=_strength, default=None)


def _arrange(run: Run, findings: list[Finding], head: Finding | None, outcome: Finding | None) -> None:
    """Add source lines to findings and sort them: active before past, findings of the headline first, then by role,
    severity, confidence and onset."""

    def place(f: Finding) -> tuple[Any, ...]:
        return f.cleared, f is not head, f is not outcome, _ORDER[f.role], -f.level, -f.sureness, f.onset_step, f.code

    _locate(run, findings)
    findings.sort(key=place)


def _verdict(run: Run, active: list[Finding], coverage: Coverage, success: Mapping[str, Outcome], rows: int) -> Verdict:
    worst = max((f.level for f in active), default=Severity.INFO)
    if worst >= Severity.ERROR:
        return "failing"
    if worst >= Severity.WARNING:
        return "suspect"
    if run.run_type in ("none", "evaluation") or coverage.ran == 0:
        return "unjudged"
    if run.run_type == "probe" or (learns(success, run.run_type) and not (run.reading and run.reading.decides)):
        return "healthy"
    evaluations = max((success[name].rows for name in HELD_OUT if name in success), default=0)
    return "unproven" if rows >= ENOUGH or evaluations >= EVALUATED else "unjudged"


def _locate(run: Run, findings: list[Finding]) -> None:
    """Add the source lines of onset and detection, if the log has lines."""
    if not len(run.lines):
        return
    for finding in findings:
        for step in dict.fromkeys((finding.onset_step, finding.detected_step)):
            rows = (run.steps == step).nonzero()[0]
            if len(rows) and run.lines[rows[0]]:
                finding.lines.append(int(run.lines[rows[0]]))
