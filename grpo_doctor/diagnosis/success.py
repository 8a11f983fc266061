"""States the trend of the success series of a run in one sentence."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from ..run import RunType
from ..series.trajectory import CHANCE, SUCCESS, TURNED
from ..series.trend import FEW, HALF, LEAST, LEAST_GAIN, SOLVED, Outcome
from .wording import counted, number

HELD_OUT = ("eval_score", "eval_loss")
EVALUATED = 3
"""Minimum number of evaluations at which a run is judged even if it has too few rows. A few are enough, because each
evaluation is a mean over the held-out data."""
NAMES = SUCCESS | TURNED | {"reward_margin": "margin"}
OF_PAIRS = {"success_rate": "reward accuracy", "eval_score": "held-out reward accuracy"}
"""Names that two of the series have in preference training."""


def names_of(run_type: RunType) -> Mapping[str, str]:
    """Return the names of the success series."""
    return NAMES | OF_PAIRS if run_type == "preference" else NAMES


UNTOUCHED = 0.01
"""Distance of a preference loss from ln 2, in nats, up to which the policy counts as unchanged, as in PRF002. A margin
of m moves the loss by m/2."""
CONSTANT = 1e-6
"""Share of the absolute value of a series up to which its changes and its noise count as rounding."""


def lost(success: Mapping[str, Outcome]) -> list[str]:
    """Return the series that fell from their best level. A held-out loss does not count if the held-out score rose."""
    score = success.get("eval_score")
    rose = score is not None and score.risen
    return [name for name, o in success.items() if o.fallen and not (rose and name == "eval_loss")]


def evidence(success: Mapping[str, Outcome], run_type: RunType) -> dict[str, Outcome]:
    """Return the series that can show learning. The losses of a preference run are not among the returned series,
    because they can fall without any pair being ranked better."""
    return {name: o for name, o in success.items() if not (run_type == "preference" and name in TURNED)}


def beyond_reference(success: Mapping[str, Outcome]) -> bool:
    """Return whether a preference run has moved past its start by more than the noise, by its margin or, without a
    margin, by its loss.

    By convexity (Jensen's inequality), the loss is never smaller than the loss at the mean margin. A smaller loss shows
    that the run uses another method, which starts at another value. A loss that was below half of ln 2 from the start
    shows another method, too. A held-out loss above ln 2 contradicts learning: on other pairs, the policy is worse than
    at its start.
    """
    margin, loss, held_out = success.get("reward_margin"), success.get("loss"), success.get("eval_loss")
    if held_out is not None and -held_out.last_value > math.log(2):
        return False
    if evaluated_below_start(success):
        return True
    if margin is not None and not math.isnan(margin.now):
        own = loss is None or -loss.now + loss.shown >= np.logaddexp(0.0, -margin.now)
        return bool(margin.now > max(margin.shown, 2 * UNTOUCHED) and own)
    begun = loss is not None and -loss.first > HALF * math.log(2)
    return loss is not None and begun and -loss.now + max(loss.shown, UNTOUCHED) < math.log(2)


def evaluated_below_start(success: Mapping[str, Outcome]) -> bool:
    """Return whether the last of several evaluations has a held-out preference loss below half of ln 2.

    Each evaluation is a mean over the held-out pairs, so a few evaluations are sufficient.
    """
    margin, loss = success.get("reward_margin"), success.get("eval_loss")
    if loss is None or loss.rows < EVALUATED or -loss.last_value >= HALF * math.log(2):
        return False
    own = (
        -loss.last_value >= np.logaddexp(0.0, -margin.last_value) if margin else -loss.first_value > HALF * math.log(2)
    )
    return bool(own)


def worse(o: Outcome) -> bool:
    """Return whether the last level is below the first level by more than noise. The test for a fall is stricter,
    because it is applied after every row."""
    return o.first - o.now > o.shown and o.rows >= FEW


def together(success: Mapping[str, Outcome]) -> list[str]:
    """Return the reward (or the success rate) and the held-out score if only their combined gain, but neither gain
    alone, exceeds the noise.

    Reward and held-out score are measured on different responses. The two gains, as shares of the detectable gain, are
    therefore combined like the quantiles of independent tests. The sum of the gains is divided by the root of their
    number (Stouffer et al., The American Soldier, 1949). Each gain counts as at most one detectable gain, and must be
    above half a detectable gain.
    """
    trained = next((name for name in ("reward_mean", "success_rate") if name in success), None)
    if trained is None or "eval_score" not in success:
        return []
    leans = [min(success[name].lean, 1.0) for name in (trained, "eval_score")]
    return [trained, "eval_score"] if sum(leans) > math.sqrt(2) and min(leans) > HALF else []


def shown(
    success: Mapping[str, Outcome], learning: bool, run_type: RunType = "rl", reported: Collection[str] = ()
) -> str:
    """Return one sentence on the trend of the success series, with the held-out score but without the ``reported``
    series. The text is empty if nothing is left."""
    said, told = _claim(success, names_of(run_type), learning, run_type)
    parts = [said] if not reported or {*told} - {*reported} else []
    if held_out := evaluated(success, run_type, (*told, *reported)):
        parts.append(held_out)
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _claim(
    recorded: Mapping[str, Outcome], names: Mapping[str, str], learning: bool, run_type: RunType
) -> tuple[str, Collection[str]]:
    """Return the sentence on the success series, and the series that it names."""
    success = evidence(recorded, run_type)
    fell = lost(success)
    improved = "This is supervised training" if run_type == "supervised" else "The policy improved"
    for name, o in success.items():
        if o.gained and not o.fallen:
            first, now = _levels(name, o)
            moved = f"the {names[name]} {'fell' if name in TURNED else 'rose'} from {number(first)} to {number(now)}"
            if fell:
                back = "rose again" if fell[0] in TURNED else "fell back"
                return f"No evidence of learning: {moved}, but the {names[fell[0]]} {back}", (name, *fell)
            return f"{improved}: {moved}{_after_best(name, o)}", (name,)
    for name, o in success.items():
        if o.risen and not o.fallen:
            first, now = _levels(name, o)
            return f"The {names[name]} is near its maximum: {number(now)} ({number(first)} at the start)", (name,)
    if learning and (pair := together(success)):
        went = " and ".join(
            f"the {names[n]} rose from {number(success[n].first)} to {number(success[n].now)}" for n in pair
        )
        return f"{improved}: {went}, which together exceeds the noise", pair
    if learning and (beyond := _beyond_start(recorded)):
        return f"{improved}: {beyond}", ("eval_loss",) if evaluated_below_start(recorded) else ()
    return _no_gain(recorded, names, run_type)


def _no_gain(
    recorded: Mapping[str, Outcome], names: Mapping[str, str], run_type: RunType
) -> tuple[str, Collection[str]]:
    """Return the sentence on a run that has not improved, and the series that it names."""
    success = evidence(recorded, run_type)
    none = "No evidence of learning"
    for name, o in success.items():
        if o.solved and not o.fallen and o.rows >= LEAST:
            return f"{none}: the {names[name]} {_near(o)}", (name,)
    for name, o in success.items():
        if o.shown == o.shown:
            better = _after_best(name, o) if o.best - o.first > o.shown else ""
            return f"{none}: {_flat(name, names[name], o)}{better}", (name,)
    if held_out := evaluated(recorded, run_type):
        return f"{none}: {held_out}, too few to distinguish a change from noise", HELD_OUT
    for name, o in success.items():
        return f"{none}: the log has only {counted(o.rows, 'value')} of the {names[name]}", (name,)
    measures = "margin, the reward accuracy" if run_type == "preference" else "reward, the success rate"
    return f"{none}: the log has no recognised values of the {measures} or a held-out score", ()


def evaluated(success: Mapping[str, Outcome], run_type: RunType, told: Collection[str] = ()) -> str:
    """Return the change in the held-out score or, without a score, in the held-out loss, with the number of values if
    there are few. The text is empty if neither is recorded, or if the change is already reported (``told``)."""
    name = next((name for name in HELD_OUT if name in success and success[name].rows > 1), "")
    if not name or name in told:
        return ""
    o = success[name]
    level = _levels(name, o)
    ends = _signed(name, o.first_value, o.last_value)  # each value is a mean over the held-out prompts
    first, now = level if o.fallen or (ends[1] > ends[0]) is not (level[1] > level[0]) else ends
    few = f" ({o.rows} evaluations)" if o.shown != o.shown else ""
    title = names_of(run_type)[name]
    if number(first) == number(now):
        return f"the {title} is {number(now)} in the first and in the last evaluation{few}"
    went = ("rose" if first < now else "fell") if o.gained or o.fallen else "changed"
    return f"the {title} {went} from {number(first)} to {number(now)}{few}"


def _beyond_start(success: Mapping[str, Outcome]) -> str:
    """Return the sentence on how far a preference run is past its start; empty if the run records neither a margin nor
    a loss."""
    if evaluated_below_start(success):
        held_out = 0 - success["eval_loss"].last_value
        return f"the held-out loss is {number(held_out)}, below the initial value ln 2 (0.693) of a preference run"
    if (margin := success.get("reward_margin")) is not None:
        return f"the margin is {number(margin.now)}, above the initial value 0 of a preference run"
    if (loss := success.get("loss")) is not None:
        return f"the loss is {number(0 - loss.now)}, below the initial value ln 2 (0.693) of a preference run"
    return ""


def _near(o: Outcome) -> str:
    """Return whether a series without a gain was near its maximum from the start, or rose to it within the noise."""
    if o.first < SOLVED * o.now:
        return f"is near its maximum ({number(o.now)}), but noise explains its rise from {number(o.first)}"
    return f"was near its maximum from the start ({number(o.first)}, {number(o.now)} now)"


def _after_best(name: str, o: Outcome) -> str:
    """Return the best level if the last level is below it by more than a detectable change."""
    best = 0 - o.best if name in TURNED else o.best
    told = o.best - o.now > o.shown and number(o.best) != number(o.now)
    return f", after a best level of {number(best)}" if told else ""


def _flat(field: str, name: str, o: Outcome) -> str:
    """State whether a series without a gain is constant, fell, is too short, or has too much noise."""
    first, now = _levels(field, o)
    if max(abs(first - now), o.shown) <= CONSTANT * max(abs(now), CONSTANT):
        return f"the {name} is {number(now)} on all {o.rows} rows"
    if worse(o):
        went = f"the {name} {'fell' if now < first else 'rose'} from {number(first)} to {number(now)}"
        return f"{went}, by more than noise (smallest detectable change: {number(o.shown, 2)})"
    changed = f"the {name} changed from {number(first)} to {number(now)}"
    if o.rows >= FEW and o.now - o.first > o.shown and o.lean > 1:
        return f"the {name} changed by less than {LEAST_GAIN:.0%}, to {number(now)}"
    if number(first) == number(now):
        changed = f"the {name} is {number(now)} at the start and at the end"
    if o.rows < FEW:
        return f"{changed}, and {o.rows} values are too few to distinguish a change from noise"
    if o.now - o.first > o.shown and not o.lean:
        return f"{changed}, but noise does not distinguish {number(now)} from guessing ({CHANCE[field]:g})"
    if o.now - o.first > o.shown and o.lean <= 1:
        return f"{changed}, but consecutive values are correlated, and correlated noise can drift as far"
    return f"{changed} (smallest detectable change: {number(o.shown, 2)})"


def _levels(name: str, o: Outcome) -> tuple[float, float]:
    """Return the first and the last level, as recorded. Negated series are computed as 0 minus the level, because a
    sign change alone would print -0."""
    return _signed(name, o.first, o.now)


def _signed(name: str, first: float, now: float) -> tuple[float, float]:
    return (0 - first, 0 - now) if name in TURNED else (first, now)
