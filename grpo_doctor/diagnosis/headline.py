"""The first sentence of a diagnosis: what happened and why, or what the success series show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..run import Run, RunType, not_finite_any_longer
from ..series.trajectory import SUCCESS, TURNED
from ..series.trend import FEW, HALF, LEAST, Outcome
from .check import Confidence, Finding, Severity
from .early_indicators import Before

if TYPE_CHECKING:
    from .verdict import Verdict

ENOUGH = 8
"""Rows below which a run is not judged: no trend check can have fired."""
PROVEN = "All probed properties hold."
NAMES = SUCCESS | TURNED | {"reward_margin": "margin"}
OF_PAIRS = {"success_rate": "reward accuracy", "eval_score": "held-out reward accuracy"}
"""Names of the two series in preference training."""


def failing_sentence(outcome: Finding | None, cause: Finding | None, before: Before) -> str:
    """The first sentence of a failing run: what happened and why."""
    if outcome is None or cause is outcome:
        assert cause is not None
        return cause.message
    if cause is not None and cause.columns and set(cause.columns) == set(outcome.columns):
        return cause.message  # Both use the same series, so one repeats the other.
    if cause is not None:
        return f"{outcome.message} Likely cause ({cause.code}): {cause.message}"
    if outcome.evidence.get("throughout"):
        return f"{outcome.message} Check the reward function and answer extraction first."
    return f"{outcome.message}{before.sentence()}"


def stuck(headline: str, vital: list[Finding]) -> str:
    """The headline plus a sentence on a stuck vital series that it does not mention yet."""
    told = any(f.message.removesuffix(".") in headline for f in vital)
    return headline if told or not vital else f"{headline} {max(vital, key=lambda f: (f.level, f.sureness)).message}"


def overview_sentence(
    verdict: Verdict,
    run: Run,
    rows: int,
    findings: list[Finding],
    success: Mapping[str, Outcome],
    learning: bool,
) -> str:
    """The first sentence of a run without a known problem."""
    active = [f for f in findings if not f.cleared]
    if run.run_type == "probe":
        if active and verdict in ("suspect", "failing"):
            return f"The worst proven finding: {max(active, key=lambda f: f.level).message}"
        return PROVEN if verdict == "healthy" else "No probe found the entry points that it needs."
    if verdict in ("suspect", "failing"):
        note = max(active, key=lambda f: (f.level, f.sureness, -f.onset_step))
        return f"{note.message} {shown(success, learning, run.run_type)}"
    if verdict == "unjudged":
        if run.run_type == "evaluation":
            o = success.get("reward_mean")
            none = ""
            if o is not None and o.unpaid:
                none = f" Its reward is {o.now:.3g} on {'' if o.best == o.now else 'almost '}all {o.rows} rows."
            return f"This is an evaluation or a transcript of rollouts, so there is no training to judge.{none}"
        if run.run_type == "none" or not rows:
            return _nothing_read(run)
        if rows < ENOUGH:
            # A proof, or the way the run ended, needs no more rows.
            plain = [f for f in active if f.kind == "outcome" or (f.kind == "risk" and f.sureness is Confidence.HIGH)]
            return " ".join([*(f.message for f in plain if not f.explained_by), too_few(rows)])
        return "No check found the metrics that it needs, so there is no verdict."
    strange = not_finite_any_longer(run)
    but = f" But {strange}." if strange else ""
    if verdict == "unproven" and run.reading is not None and run.reading.decides:
        differ = f"{run.reading.rows} or {run.reading.other_rows} rows, with different rewards"
        return f"The log can be read in two ways that give different results ({differ}), so the run is not judged."
    told = shown(success, learning, run.run_type)
    if past := earlier(findings):
        return f"{told} {past}{but}"
    if verdict == "unproven":
        troubled = lost(success) or any(f.kind == "outcome" for f in active)
        return f"{told}{but}" if troubled else f"No problem found, but {told[0].lower()}{told[1:]}{but}"
    return f"{told} No problem found in the recorded metrics.{but}"


def _nothing_read(run: Run) -> str:
    """Why there is nothing to judge: the run ended before its first metric, or none was recognised."""
    if run.ending and run.ending.kind != "finished":
        return f"The run ended before its first metric with {run.ending.described}."
    unread = run.reading.not_recognised if run.reading else ""
    return f"No training metrics were recognised, so there is no verdict{unread and f' ({unread})'}."


def earlier(findings: list[Finding]) -> str:
    """Return the most severe cleared problem, if it was at least a warning."""
    past = [f for f in findings if f.cleared and f.level >= Severity.WARNING]
    if not past:
        return ""
    worst = max(past, key=lambda f: (f.level, f.sureness, -f.onset_step))
    return f"No problem is active now. Earlier problem (until step {worst.last_step}): {worst.message}"


def too_few(rows: int) -> str:
    """States that too few rows are recorded to judge the run."""
    logged = "row was" if rows == 1 else "rows were"
    return f"Only {rows} {logged} logged; at least {ENOUGH} are needed for a verdict."


def logged_at_intervals(run: Run, rows: int) -> bool:
    """Return whether a run has fewer rows than steps."""
    return rows > 1 and int(run.steps[-1]) - int(run.steps[0]) >= rows


CONSTANT = 1e-6
"""Share of its size up to which the changes of a series, and its noise, are rounding."""


def lost(success: Mapping[str, Outcome]) -> list[str]:
    """The series that fell from their best level; a held-out loss does not count if the held-out score rose."""
    score = success.get("eval_score")
    rose = score is not None and score.risen
    return [name for name, o in success.items() if o.fallen and not (rose and name == "eval_loss")]


def evidence(success: Mapping[str, Outcome], run_type: RunType) -> dict[str, Outcome]:
    """The series that can show learning; the loss of a preference run also falls if no pair is ranked better."""
    pairs = run_type == "preference" and not success.keys().isdisjoint(("success_rate", "reward_margin"))
    return {name: o for name, o in success.items() if not (pairs and name == "loss")}


def beyond_reference(success: Mapping[str, Outcome]) -> bool:
    """Return whether a preference run has moved past its start by more than the noise, by its margin or, without one,
    by its loss.

    By convexity (Jensen), the loss is never smaller than that of the mean margin; a smaller one belongs to another
    method, which starts elsewhere.
    """
    margin, loss = success.get("reward_margin"), success.get("loss")
    if margin is not None and not math.isnan(margin.now):
        own = loss is None or -loss.now + loss.shown >= np.logaddexp(0.0, -margin.now)
        return bool(margin.now > margin.shown and own)
    return loss is not None and -loss.now + loss.shown < math.log(2)


def together(success: Mapping[str, Outcome]) -> list[str]:
    """The reward (or the success rate) and the held-out score, if both together improved but neither alone.

    They are measured on different responses, so their gains, as shares of the detectable gain, add up like the
    quantiles of independent tests do: over the root of their number (Stouffer et al., The American Soldier, 1949). Each
    counts for at most one gain and must reach half of one; a smaller reward gain is reported as flat.
    """
    trained = next((name for name in ("reward_mean", "success_rate") if name in success), None)
    if trained is None or "eval_score" not in success:
        return []
    leans = [min(success[name].lean, 1.0) for name in (trained, "eval_score")]
    return [trained, "eval_score"] if sum(leans) > math.sqrt(2) and min(leans) > HALF else []


def shown(success: Mapping[str, Outcome], learning: bool, run_type: RunType = "rl") -> str:
    """One sentence on what the success series show."""
    names = NAMES | OF_PAIRS if run_type == "preference" else NAMES
    success, fell = evidence(success, run_type), lost(success)
    improved = f"The {'model' if run_type == 'supervised' else 'policy'} improved"
    for name, o in success.items():
        if o.gained and not o.fallen:
            first, now = _levels(name, o)
            moved = f"the {names[name]} {'fell' if name in TURNED else 'rose'} from {first:.3g} to {now:.3g}"
            if fell:
                back = "rose" if fell[0] in TURNED else "fell"
                return f"No evidence of learning: {moved}, but the {names[fell[0]]} {back} again."
            return f"{improved}: {moved}{_held_out(name, success, names)}."
    for name, o in success.items():
        if o.risen and not o.fallen:
            first, now = _levels(name, o)
            return f"The task is solved: the {names[name]} is {now:.3g} ({first:.3g} at the start)."
    if learning and (pair := together(success)):
        went = [f"the {names[n]} rose from {success[n].first:.3g} to {success[n].now:.3g}" for n in pair]
        return f"{improved}: {' and '.join(went)}, which together exceeds the noise."
    if learning and (beyond := _beyond_start(success)):
        return f"{improved}: {beyond}"
    for name, o in success.items():
        if o.solved and not o.fallen and o.rows >= LEAST:
            return (
                f"No evidence of learning: the {names[name]} was near its maximum from the start "
                f"({o.first:.3g}, {o.now:.3g} now)."
            )
    flat = next((_flat(names[name], o, *_levels(name, o)) for name, o in success.items() if o.shown == o.shown), "")
    few = "the log has too few recognised values of the reward, the success rate or a held-out score."
    return f"No evidence of learning: {flat or few}"


def _held_out(name: str, success: Mapping[str, Outcome], names: Mapping[str, str]) -> str:
    """Return what the held-out score did while another series improved; empty if it has too few values."""
    score = success.get("eval_score")
    if name in ("eval_score", "eval_loss") or score is None or score.shown != score.shown:
        return ""
    went = "rose" if score.gained else "changed"
    return f", and the {names['eval_score']} {went} from {score.first:.3g} to {score.now:.3g}"


def _beyond_start(success: Mapping[str, Outcome]) -> str:
    """Return the sentence on how far a preference run is past its start; empty if it records neither a margin nor a
    loss."""
    if (margin := success.get("reward_margin")) is not None:
        return f"the margin is {margin.now:.3g}, above the initial value 0 of a preference run."
    if (loss := success.get("loss")) is not None:
        return f"the loss is {-loss.now:.3g}, below the initial value ln 2 (0.693) of a preference run."
    return ""


def _flat(name: str, o: Outcome, first: float, now: float) -> str:
    """Return what a series without a gain shows: that it is constant, that it is short, or the size of its noise."""
    if max(abs(first - now), o.shown) <= CONSTANT * max(abs(now), CONSTANT):
        return f"the {name} is {now:.3g} on all {o.rows} rows."
    changed = f"the {name} changed from {first:.3g} to {now:.3g}"
    if o.rows < FEW:
        return f"{changed}, but {o.rows} values are too few to distinguish a change from noise."
    return f"{changed} (smallest detectable change: {o.shown:.2g})."


def _levels(name: str, o: Outcome) -> tuple[float, float]:
    """The first and the last level, as recorded. They are computed as 0 minus the level, because -0.0 would print its
    sign."""
    return (0 - o.first, 0 - o.now) if name in TURNED else (o.first, o.now)
