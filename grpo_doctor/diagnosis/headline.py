"""The first sentence of a diagnosis: what happened and why, or what is shown where nothing is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..run import Run, RunType, not_finite_any_longer
from ..series.trajectory import TURNED
from ..series.trend import FEW, HALF, LEAST, Outcome
from .check import Finding
from .early_indicators import Before

if TYPE_CHECKING:
    from .verdict import Verdict

ENOUGH = 8
"""Rows below which silence is no health: no rule about trends can have spoken."""
PROVEN = "Every property that could be probed holds."
NAMES = {
    "reward_mean": "reward",
    "success_rate": "success rate",
    "eval_score": "held-out score",
    "loss": "loss",
    "eval_loss": "held-out loss",
    "reward_margin": "margin",
}
OF_PAIRS = {"success_rate": "reward accuracy", "eval_score": "held-out reward accuracy"}
"""What two of them are in preference training."""


def sick(outcome: Finding | None, cause: Finding | None, before: Before) -> str:
    """What happened, and why: the first sentence of a failing run."""
    if outcome is None or cause is outcome:
        assert cause is not None
        return cause.message
    if cause is not None:
        return f"{outcome.message.removesuffix('.')}, because of {cause.code}: {cause.message}"
    if outcome.evidence.get("constant"):
        return f"{outcome.message} Check the reward function and answer extraction first."
    return f"{outcome.message}{before.told()}"


def stuck(headline: str, vital: list[Finding]) -> str:
    """A headline, and a second sentence on a vital series that is stuck and that it does not name yet."""
    told = any(f.message.removesuffix(".") in headline for f in vital)
    return headline if told or not vital else f"{headline} {max(vital, key=lambda f: (f.level, f.sureness)).message}"


def unsick(
    verdict: Verdict,
    run: Run,
    rows: int,
    active: list[Finding],
    success: Mapping[str, Outcome],
    learning: bool,
) -> str:
    """The first sentence of a run that suffers from nothing known."""
    if run.run_type == "probe":
        if active and verdict in ("suspect", "failing"):
            return f"Nothing worse than this was proven: {max(active, key=lambda f: f.level).message}"
        return (
            PROVEN if verdict == "healthy" else "No probe found the entry points that it needs, so nothing was proven."
        )
    if verdict in ("suspect", "failing"):
        note = max(active, key=lambda f: (f.level, f.sureness, -f.onset_step))
        return f"{note.message} {shown(success, learning, run.run_type)}"
    if verdict == "unjudged":
        if run.run_type == "evaluation":
            return "This is an evaluation or a transcript of rollouts, so there is no training to judge."
        if run.run_type == "none" or not rows:
            unread = run.reading.not_recognised if run.reading else ""
            return f"No training metrics were recognised, so nothing could be judged{unread and f' ({unread})'}."
        if rows < ENOUGH:
            apart = rows > 1 and int(run.steps[-1]) - int(run.steps[0]) >= rows
            few = f"{rows} {'row' if apart else 'step'}{'s' * (rows != 1)}, too few to judge."
            # an identity needs no more rows
            plain = [f.message for f in active if f.kind == "outcome" and not f.explained_by]
            return " ".join([few, *plain])
        return "None of the checks found the metrics that it needs, so nothing could be judged."
    strange = not_finite_any_longer(run)
    but = f" But {strange}." if strange else ""
    if verdict == "unproven" and run.reading is not None and run.reading.decides:
        differ = f"{run.reading.rows} rows or {run.reading.other_rows}, and the reward differs"
        return f"Two readings of its lines differ ({differ}), so nothing is proven."
    if verdict == "unproven":
        told = shown(success, learning, run.run_type)
        return f"{told}{but}" if lost(success) else f"No problem found, but {told[0].lower()}{told[1:]}{but}"
    return f"{shown(success, learning, run.run_type)} No problem found in the recorded metrics.{but}"


CONSTANT = 1e-12
"""A gain that would have shown below this is that of a series without any noise."""


def lost(success: Mapping[str, Outcome]) -> list[str]:
    """The series that have lost what they had reached; a held-out loss is none where the held-out score has risen."""
    score = success.get("eval_score")
    rose = score is not None and score.risen
    return [name for name, o in success.items() if o.fallen and not (rose and name == "eval_loss")]


def together(success: Mapping[str, Outcome]) -> list[str]:
    """The reward (or the success rate) and the held-out score, where both together have gained, if neither has alone.

    They are measured on other responses, so that what each has gone, as a share of what would show, adds up as the
    quantiles of independent tests do: over the root of their number (Stouffer et al., The American Soldier, 1949).
    Neither counts for more than a gain, and each must have gone half of one: a reward that has not is told to be flat.
    """
    trained = next((name for name in ("reward_mean", "success_rate") if name in success), None)
    if trained is None or "eval_score" not in success:
        return []
    leans = [min(success[name].lean, 1.0) for name in (trained, "eval_score")]
    return [trained, "eval_score"] if sum(leans) > math.sqrt(2) and min(leans) > HALF else []


def shown(success: Mapping[str, Outcome], learning: bool, run_type: RunType = "rl") -> str:
    """One sentence on what the series of success show."""
    names = NAMES | OF_PAIRS if run_type == "preference" else NAMES
    for name, o in success.items():
        if o.gained and not o.fallen:
            first, now = _levels(name, o)
            moved = f"the {names[name]} {'fell' if name in TURNED else 'rose'} from {first:.3g} to {now:.3g}"
            if fell := lost(success):
                return f"No evidence of learning: {moved}, but the {names[fell[0]]} fell back."
            return f"It learns: {moved}."
    for name, o in success.items():
        if o.risen and not o.fallen:
            return f"The task is solved: the {names[name]} is {o.now:.3g}."
    if learning and (pair := together(success)):
        went = " and the ".join(f"{names[n]} from {success[n].first:.3g} to {success[n].now:.3g}" for n in pair)
        return f"It learns: the {went} rose, both together further than by chance."
    loss = success.get("loss")
    if loss is not None and learning:
        return f"It learns: the loss is {-loss.now:.3g}, below ln 2 (0.693), where a preference run begins."
    for name, o in success.items():
        if o.solved and not o.fallen and o.rows >= LEAST:
            return (
                f"No evidence of learning: the {names[name]} was near its maximum from the start "
                f"({o.first:.3g}, {o.now:.3g} now)."
            )
    for name, o in success.items():
        if not math.isnan(o.shown):
            first, now = _levels(name, o)
            if first == now and o.shown < CONSTANT:
                return f"No evidence of learning: the {names[name]} is {now:.3g} on all {o.rows} steps."
            if o.rows < FEW:
                return (
                    f"No evidence of learning: the {names[name]} changed from {first:.3g} to {now:.3g}, "
                    f"and {o.rows} values are too few to tell that from noise."
                )
            return (
                f"No evidence of learning: the {names[name]} changed from {first:.3g} to {now:.3g}, "
                f"and changes below {o.shown:.2g} are within noise."
            )
    return "No evidence of learning: too few values of a reward, a success rate or a held-out score were recognised."


def _levels(name: str, o: Outcome) -> tuple[float, float]:
    """The first and the last level, as recorded; 0 less a level, for -0.0 is printed with its sign."""
    return (0 - o.first, 0 - o.now) if name in TURNED else (o.first, o.now)
