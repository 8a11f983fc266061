"""Writes the first sentence of a diagnosis: what happened and why, or the trend of the success series."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..run import Run, not_finite_any_longer
from ..series.noise_model import median
from ..series.trajectory import TURNED, Trajectory, printable
from ..series.trend import FEW, MATTERS, NOTHING, Outcome
from .check import Confidence, Finding, Severity
from .early_indicators import Before, Columns
from .known_errors import known_error
from .remedies import shared_remedies
from .remedy_gate import refused, signs
from .success import NAMES, evidence, lost, names_of, shown, worse
from .wording import at_intervals, counted, listed, number

if TYPE_CHECKING:
    from .verdict import Verdict

ENOUGH = 8
"""Number of rows below which a run is not judged, because no check of a trend can fire on fewer rows."""
TRAIN_ON = "Train for more steps."
WHY_SKIPPED = "Find out why updates are skipped first."
EARLY = 0.1
"""Share of the planned steps before which a run without a problem needs more steps rather than other settings."""
COMPONENTS = "reward_components"
KEEP, FASTER, CHECK_REWARD = "keep-and-compare", "raise-learning-rate", "check-the-reward"
SHOWN = 3
"""Maximum number of series, and maximum number of reward components, that a sentence names."""
STUCK = 2
"""Maximum number of other findings on vital series that the headline names."""
NO_OTHER = "No other problem"
PROVEN = "All probed properties hold."
MISSING = {"rl": "the mean reward", "preference": "the margin and the reward accuracy", "supervised": "the loss"}
"""Metrics that show learning, by type of training."""


class Facts(NamedTuple):
    """The facts from which the headline of a diagnosis is written.

    ``findings`` are the findings to report, except ``crash``, which is the active finding on how the run ended.
    ``vital`` are the active findings on vital series, without findings that repeat the outcome, and without
    ``remarks``, which belong to the sentence on the success series. ``reported`` are the success series that the
    messages of outcome and cause are about. ``parts`` are the values of each reward component. ``idle`` are the
    components that stay at their minimum, and whether they are 0 throughout. ``column`` returns the values of a field.
    """

    run: Run
    rows: int
    verdict: Verdict
    outcome: Finding | None
    cause: Finding | None
    findings: list[Finding]
    crash: Finding | None
    vital: list[Finding]
    remarks: list[Finding]
    success: Mapping[str, Outcome]
    learning: bool
    reported: Collection[str]
    parts: Mapping[str, np.ndarray]
    idle: Mapping[str, bool]
    before: Before
    column: Columns

    @property
    def head(self) -> Finding | None:
        """The finding that the headline reports first."""
        return self.cause or self.outcome

    @property
    def short(self) -> bool:
        """Whether there are too few rows to judge the run."""
        return self.rows < ENOUGH

    @property
    def shown(self) -> str:
        """Return the sentences on the success series that the problem and its cause do not report."""
        said = shown(self.success, self.learning, self.run.run_type, self.reported)
        return " ".join([said, *(f.message for f in self.remarks)]) if said else said


def headline(facts: Facts) -> str:
    """Return the result of the run, how it ended, and the next step if the headline reports no finding."""
    result = _problem(facts) if facts.head and (facts.head is not facts.crash or facts.short) else _overview(facts)
    said = [result] if result else []
    trained = facts.run.run_type in MISSING
    if 0 < facts.rows < ENOUGH and trained and facts.verdict not in ("failing", "healthy"):
        said.append(too_few(facts))
    named = any(COMPONENTS in f.columns for f in facts.vital)
    if facts.idle and trained and not (facts.short or facts.learning or named):
        said.append(_never_paid(facts.idle))
    if trained and not (facts.short or facts.learning or named) and (moved := _moved(facts.parts)):
        said.append(moved)
    if trained and not (facts.short or facts.success) and (zeros := _zeros(facts.column("loss"))):
        said.append(zeros)
    if end := _ending(facts, result):
        said.append(end)
    if facts.rows and (known := known_error(facts.run.ending)):
        said.append(known.cause)
    constant = facts.outcome and facts.outcome.evidence.get("constant")  # then the other series cannot change either
    stuck = [f for f in facts.vital if f.kind != "risk" and f.message.removesuffix(".") not in result]
    if stuck and not (facts.short or constant or NO_OTHER in result):
        said += [f.message for f in sorted(stuck, key=lambda f: (-f.level, -f.sureness))[:STUCK]]
    repeated = facts.run.repeated_error if not facts.learning else None
    if repeated is not None:
        said.append(f"{repeated.described}.")
    if facts.head is None and trained and facts.verdict != "healthy":
        ended = facts.run.ending is not None and facts.run.ending.kind != "finished"
        if repeated is None or ended:
            said.append(_next_step(facts))
        else:
            said.append(WHY_SKIPPED if repeated.skips else "Check this error first.")
    return " ".join(said)


def _problem(facts: Facts) -> str:
    """Return the sentences on the problem and its cause, and on the success series that they do not report."""
    sentence = failing_sentence(facts.outcome, facts.cause, facts.before)
    if facts.short or facts.run.run_type == "probe":
        return sentence
    return f"{sentence} {facts.shown}".rstrip()


def failing_sentence(outcome: Finding | None, cause: Finding | None, before: Before) -> str:
    """Return the sentences on the problem and its cause."""
    if outcome is None or cause is outcome:
        assert cause is not None
        return cause.message
    if cause is not None and cause.columns and set(cause.columns) == set(outcome.columns):
        return cause.message  # Both sentences use the same series, so one repeats the other.
    if cause is not None:
        proven = "Cause" if cause.sureness is Confidence.HIGH else "Likely cause"
        return f"{outcome.message} {proven} ({cause.code}): {cause.message}"
    if outcome.evidence.get("throughout"):
        return f"{outcome.message} Check the reward function and answer extraction first."
    return f"{outcome.message}{before.sentence()}"


def _ending(facts: Facts, said: str) -> str:
    """Return how the run ended, and at which of the planned steps, if it crashed, is unfinished, is short or does not
    learn. The text is empty if the ending is already reported."""
    ended = facts.run.ending
    if facts.crash is not None:
        return "" if facts.crash.message in said else facts.crash.message
    last = int(facts.run.steps[-1]) if facts.rows == len(facts.run) > 1 else None
    planned = planned_after(facts.run, last) if facts.verdict != "failing" else 0
    where = f" at step {last} of {planned}" if planned else ""
    stopped = ended and ended.kind != "finished" and ended.described not in said
    how = f" with {ended.described}" if ended and stopped and (planned or facts.short or not facts.learning) else ""
    return f"The log ends{where}{how}." if where or how else ""


def planned_after(run: Run, last: int | None) -> int:
    """Return the declared number of steps if it is more than one row after the last step; otherwise 0."""
    planned = run.settings.get("max_steps")
    if last is None or isinstance(planned, bool) or not isinstance(planned, int) or len(run) < 2:
        return 0
    return planned if planned - last >= 2 * max(median(np.abs(np.diff(run.steps))), 1.0) else 0


def _never_paid(idle: Mapping[str, bool]) -> str:
    """Return a sentence on the components that are at their minimum on almost all rows."""
    more = [f"{len(idle) - SHOWN} more"] if len(idle) > SHOWN else []
    names = listed([*map(printable, [*idle][:SHOWN]), *more])
    one = len(idle) == 1
    how = "0 on all rows" if all(idle.values()) else f"at {'its' if one else 'their'} minimum on almost all rows"
    return f"The reward component{'' if one else 's'} {names} {'is' if one else 'are'} {how}."


def _moved(parts: Mapping[str, np.ndarray]) -> str:
    """Return a sentence on the reward components that rose or fell beyond noise; empty for a single component, which is
    the reward itself."""
    said = []
    for name, values in parts.items() if len(parts) > 1 else ():
        series = Trajectory()
        for row, value in enumerate(values):
            series.push(value, row)
        if (o := series.outcome).gained or o.fallen:
            went = "fell" if o.fallen else "rose"
            said.append(f"{printable(name)} {went} from {number(o.best if o.fallen else o.first)} to {number(o.now)}")
    return f"Of the reward components, {listed(said[:SHOWN])}." if said else ""


def _overview(facts: Facts) -> str:
    """Return the first sentence for a run whose headline reports no finding."""
    run, verdict = facts.run, facts.verdict
    active = [f for f in facts.findings if not f.cleared]
    if run.run_type == "probe":
        if active and verdict in ("suspect", "failing"):
            return f"The most severe proven finding: {max(active, key=lambda f: f.level).message}"
        return PROVEN if verdict == "healthy" else "No probe found the entry points that it needs."
    if verdict in ("suspect", "failing"):
        note = worst_of([f for f in active if f.level >= Severity.WARNING])
        if note and note.kind == "outcome" and not facts.learning:
            return note.message
        return f"{note.message} {facts.shown}" if note else facts.shown
    if verdict == "unjudged":
        return _unjudged(facts, active)
    if verdict == "unproven" and run.reading is not None and run.reading.decides:
        differ = f"{run.reading.rows} or {run.reading.other_rows} rows"
        return f"The log can be read in two ways that give different results ({differ}), so the run is not judged."
    told = facts.shown
    strange = not_finite_any_longer(run)
    named = any(f.evidence.get("nan") or f.evidence.get("infinite") for f in facts.vital)
    but = f" But {strange}." if strange and not named else ""
    if past := earlier(facts.findings, facts.success):
        return f"{told} {past}{but}"
    risk = worst_of([f for f in facts.vital if f.kind == "risk"])
    if verdict == "unproven":
        series = facts.success.values()
        troubled = bool(lost(facts.success)) or any(map(worse, series)) or any(f.kind == "outcome" for f in active)
        troubled |= run.repeated_error is not None
        said = f"{told} {risk.message}" if risk else told
        return f"{said}{but}" if troubled or risk else f"No problem found, but {told[0].lower()}{told[1:]}{but}"
    vital = (worst_of([f for f in facts.vital if f.kind != "risk"]), risk)
    known = [told, *(f.message for f in vital if f is not None)]
    return f"{' '.join(known)} {NO_OTHER if len(known) > 1 else 'No problem'} found in the recorded metrics.{but}"


def _unjudged(facts: Facts, active: list[Finding]) -> str:
    """Return why a run is not judged. For a short log, return the messages of the findings that need no more rows, such
    as proofs."""
    run = facts.run
    if run.run_type == "evaluation":
        o = facts.success.get("reward_mean")
        none = ""
        if o is not None and o.unpaid:
            none = f" Its reward is {number(o.now)} on {'' if o.best == o.now else 'almost '}all {o.rows} rows."
        return f"{_unread(run, ': the rows are evaluations or rollouts, so there is no verdict')}{none}"
    if run.run_type == "none" or not facts.rows:
        return _nothing_read(run)
    if facts.short:
        plain = [f for f in active if f.kind == "outcome" or (f.kind == "risk" and f.sureness is Confidence.HIGH)]
        return " ".join(f.message for f in plain if not f.explained_by)
    return "No check found the metrics that it needs, so there is no verdict."


def _next_step(facts: Facts) -> str:
    """Return one instruction: the first remedy of the worst finding or, without a remedy, an action that the settings
    and the last rows suggest."""
    run = facts.run
    active = [f for f in (*facts.findings, facts.crash) if f is not None and not f.cleared]
    if noted := worst_of([f for f in active if f.level > Severity.INFO or (facts.short and f.kind == "outcome")]):
        explained = known_error(run.ending) if noted is facts.crash else None
        return explained.do if explained else f"{noted.action}."
    if facts.short and (facts.rows or (run.ending and run.ending.kind == "exception")):
        return _next_of_short(facts)
    if run.reading is not None and run.reading.decides:
        return "Name the columns, for example with --map 'NAME=reward_mean'."
    if facts.idle:
        return f"Score a correct response with {printable(next(iter(facts.idle)))}: it must get more than 0."
    if any(o.solved for o in facts.success.values()):
        return "Use harder prompts, or stop: there is little left to gain."
    known = evidence(facts.success, run.run_type)
    flat = next((name for name, o in known.items() if o.shown == o.shown), None) or next(iter(known), None)
    if flat is not None and known[flat].rows < FEW:
        return f"Train until at least {FEW} values of the {names_of(run.run_type)[flat]} are logged."
    planned = run.settings.get("max_steps")
    if isinstance(planned, int) and len(run.steps) and run.steps[-1] < EARLY * planned:
        return TRAIN_ON
    declines = any(o.first - o.now > o.shown / 2 for o in known.values())
    withheld = {*dict(refused(run.settings)), *([FASTER] if declines else [])}
    for remedy, (holds, level) in signs(facts.column).items():
        if holds and remedy not in withheld:
            return f"{shared_remedies()[remedy].title}, because {level}."
    if any(map(worse, facts.success.values())):
        return f"{shared_remedies()[KEEP].title}."
    if flat is None:
        return f"Log {MISSING[run.run_type]} of each step."
    items = "pairs" if run.run_type == "preference" else "prompts"
    return f"To reduce the noise, evaluate on the same held-out {items} every few steps, or use more {items} per step."


def _next_of_short(facts: Facts) -> str:
    """Return the next step for a run with too few rows."""
    run = facts.run
    if again := _fix(run):
        return again
    if not facts.success:
        return f"Log {MISSING[run.run_type]} of each step."
    if facts.success.get("reward_mean", NOTHING).last_value == 0:
        return f"{shared_remedies()[CHECK_REWARD].title}."
    if at_intervals(facts.rows, int(run.steps[-1]) - int(run.steps[0])):
        held_out = facts.column("eval_loss")
        evaluated = held_out is not None and np.isfinite(held_out).all()
        return "Evaluate more often." if evaluated else "Log every step."
    if facts.rows == 1 < run.steps[-1]:
        return "Keep the metrics of every step."
    return TRAIN_ON


def _nothing_read(run: Run) -> str:
    """Return why there is nothing to judge: how the run ended, or that no metric was recognised."""
    if run.ending and run.ending.kind != "finished":
        known = known_error(run.ending)
        ended = f"No metric was read before the run ended with {run.ending.described}."
        return " ".join(filter(None, [ended, known and known.cause, _fix(run)]))
    if run.texts:
        return f"The file has texts ({', '.join(run.texts)}) like a data set, and no metrics. Pass the training log."
    none = _unread(run, ", so there is no verdict")
    return f"{none} Log the mean reward and the loss of each step, or name their columns with --map."


def _fix(run: Run) -> str:
    """Return the next step for a run that ended because of an error; empty if the run finished or was stopped by the
    user."""
    if run.ending is None or run.ending.kind in ("finished", "interrupted"):
        return ""
    if known := known_error(run.ending):
        return known.do
    return f"Fix {'this exception' if run.ending.kind == 'exception' else 'what ended the run'}, and start it again."


def _unread(run: Run, so: str) -> str:
    """Return the sentence which states that no training metrics were recognised, with the unread series that may be a
    reward."""
    unread = run.reading.not_recognised if run.reading else ""
    planned = run.settings.get("max_steps")
    stopped = run.reached is not None and isinstance(planned, int) and run.reached < planned
    bar = f"The last progress bar reached {run.reached} of {planned}. " if stopped else ""
    return f"{bar}No training metrics were recognised{so}{unread and f' ({unread})'}."


def earlier(findings: list[Finding], success: Mapping[str, Outcome]) -> str:
    """Return a sentence on the most severe cleared problem if it was at least a warning. A fall that is small compared
    with the gain of the run is not mentioned."""
    series = {NAMES[name]: o for name, o in success.items()}

    def small(evidence: Mapping[str, Any]) -> bool:
        o = series.get(evidence.get("what", ""), NOTHING)
        return bool(evidence.get("best", math.nan) - evidence.get("floor", math.nan) < MATTERS * (o.best - o.first))

    worst = worst_of([f for f in findings if f.cleared and f.level >= Severity.WARNING and not small(f.evidence)])
    if worst is None:
        return ""
    return f"No problem is active now. Earlier problem (until step {worst.last_step}): {worst.message}"


def worst_of(findings: list[Finding]) -> Finding | None:
    """Return the most severe finding, or None if there are no findings. Equally severe findings are ordered by
    confidence, then by onset."""
    return max(findings, key=lambda f: (f.level, f.sureness, -f.onset_step), default=None)


def _went(values: np.ndarray | None) -> str:
    """Return the first and the last known value as text, a single value if both are equal, and an empty string if no
    value is known."""
    known = [] if values is None else [number(value) for value in values[np.isfinite(values)]]
    return ", then ".join(dict.fromkeys((known[0], known[-1]))) if known else ""


def _zeros(loss: np.ndarray | None) -> str:
    """Return a sentence on the number of rows with a loss of exactly 0; empty if the loss is 0 on less than half of the
    rows."""
    known = np.empty(0) if loss is None else loss[np.isfinite(loss)]
    zeros = int((known == 0).sum())
    return f"The loss is 0 on {zeros} of {counted(len(known), 'row')}." if zeros and 2 * zeros >= len(known) else ""


def too_few(facts: Facts) -> str:
    """State that the log has too few rows to judge the run, and give the first and last values of the success series
    and reward components."""
    names = names_of(facts.run.run_type)
    first = sorted(facts.success, key=TURNED.__contains__)  # series that improve by falling come last
    series = {names[name]: facts.column(name) for name in first[:SHOWN] or ["loss"]}
    if len(facts.parts) > 1:
        series |= {printable(name): facts.parts[name] for name in [*facts.parts][:SHOWN]}
    levels = [f"{name} {went}" for name, values in series.items() if (went := _went(values))]
    shown = f" ({'; '.join(levels)})" if levels else ""
    logged = f"{counted(facts.rows, 'row')} {'was' if facts.rows == 1 else 'were'} logged"
    needed = f"; at least {ENOUGH} are needed for a verdict" if facts.verdict == "unjudged" else ""
    return f"Only {logged}{shown}{needed}."
