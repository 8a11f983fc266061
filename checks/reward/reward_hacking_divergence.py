import math
from typing import Any

import numpy as np

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, best, fold, latest, lowest, recent_mean, row, total, where, words


def other_component(found: float, components: Any, reward: Any) -> tuple[float, float]:
    """Return 1 from the first row on which a component equals the reward and another component is not 0; before, 0."""
    if not found:
        parts = {name: value for name, value in (components or {}).items() if isinstance(value, int | float)}
        near = 1e-6 * max(1.0, abs(reward))
        alone = {name for name, value in parts.items() if abs(value - reward) <= near}
        found = float(bool(alone) and any(abs(parts[name]) > 0 for name in parts.keys() - alone))
    return found, found


NAMES = {
    "eval_score": "the held-out score",
    "success_rate": "the success rate",
    "valid_rate": "the share of valid responses",
}


def _what(name: str, fell: bool, best: float, now: float) -> str:
    if not name:
        return "no other metric is recorded"
    return f"{NAMES[name]} {f'fell from {number(best)} to {number(now)}' if fell else 'stays near 0'}"


@check(
    "REW002",
    kind="outcome",
    severity="info",
    confidence="medium",
    explains=("REW015",),
    invalidates=("the reward as a measure of success since step {onset}",),
    about=("reward_mean", "success_rate", "eval_score"),
)
def reward_hacking_divergence(
    reward_mean: Column,
    reward_trend: Trend,
    step: Column,
    eval_score: Column = None,
    eval_trend: Trend = None,
    success_rate: Column = None,
    success_trend: Trend = None,
    valid_rate: Column = None,
    valid_trend: Trend = None,
    reward_components: Column = None,
    *,
    rows: int = 5,
    early_rewards: int = 20,
    floor: float = 0.05,
) -> Fires:
    """The reward rises while a metric that is not rewarded falls or stays near 0.

    ## What it sees
    Starting at the 20th reward, the check requires that the reward has improved and has not fallen. The check compares
    the reward with the trajectories of the held-out score, the success rate and the share of valid responses. A metric
    that equals the reward is ignored. Severity is **error** if one of the three metrics has lost 30% of its best level
    and half of its range. Severity is **warning** if one of the three metrics has fallen by less, but beyond its noise.
    Severity is also **warning** if a metric's mean of 5 values has never been above 0.05 while the reward rose by twice
    that value. The onset is the step at which the fallen metric was best, because a policy that optimises something
    else gets worse gradually. If there are five or more held-out scores and they have not fallen, the success rate and
    the share of valid responses do not count. Severity is **info** if no other metric is recorded. Without another
    metric, reward hacking cannot be ruled out, because the reward curve also looks excellent if the policy exploits the
    reward function. REW007 and REW011 judge the components of the reward, including components that are only logged.

    ## Thresholds
    - `rows`: number of values averaged for a metric near 0, and number of held-out scores that are sufficient without
      the other metrics.
    - `early_rewards`: number of rewards before which the check does not fire.
    - `floor`: mean score, 0 to 1, up to which the other metric counts as near 0.

    ## Why it matters
    The optimizer maximises what the reward function measures, not what was intended. The best checkpoint by reward may
    be the worst by all other metrics, and loss, KL and entropy do not show the problem.

    ## Example
    ```text
    reward_mean: 0.2->0.8x40
    eval_score: 0.5->0.2x40
    ```
    Error at step 5: The reward rose from 0.215 to 0.731, but the held-out score fell from 0.492 to 0.215. The policy
    may be exploiting the reward function.

    ```text
    reward_mean: 0.2->0.8x40
    eval_score: 0.2->0.7x40
    ```
    No finding.

    ## Known false alarms
    If a run learns formatting first and content later, the other metric stays near 0 for a while, which is a warning,
    not an error. Fewer than eight held-out scores are not judged.

    ## Remedy
    Read ten responses of the last steps. Close the loophole in the reward function, and log the reward together with
    the intended metric. Roll back to the checkpoint that is best by the intended metric.

    ## Sources
    arXiv 2210.10760 (over-optimisation of a proxy). Fault `length-bonus` of the engine.
    """
    rose = reward_trend.gained & ~reward_trend.fallen & (row(reward_mean) >= early_rewards)
    held = (total(eval_score == eval_score) >= rows) & ~eval_trend.fallen
    alone = fold(other_component, float, reward_components, reward_mean) == 0
    fell, lost, flat = False, False, False
    name, since, level_of, best_of = "", math.nan, math.nan, math.nan
    for field, metric, trend in (
        ("eval_score", eval_score, eval_trend),
        ("success_rate", success_rate, success_trend),
        ("valid_rate", valid_rate, valid_trend),
    ):
        other = where(abs(metric - reward_mean) <= 1e-9, np.nan, metric)
        known = total(other == other) > 0
        stands = ~known if field == "eval_score" else ~known | held
        level = recent_mean(other, rows)
        lies = (best(level) <= floor) & (lowest(level) >= 0) & (reward_trend.gain > 2 * floor) & ~stands
        sinks = trend.fallen & ~lies & ~stands
        worse = sinks | lies
        name, since = where(worse, field, name), where(sinks, latest(where(level >= best(level), step, np.nan)), since)
        level_of, best_of = where(worse, level, level_of), where(worse, trend.best, best_of)
        fell, lost, flat, alone = fell | sinks, lost | (sinks & trend.lost), flat | lies, alone & ~known
    return fires(
        rose & (fell | flat | alone),
        "The reward rose from {first:.3g} to {now:.3g}, but {what}. {so}.",
        warning=rose & (fell | flat),
        error=rose & lost,
        hold=(1, 1),
        clear=1,
        onset=since,
        first=reward_trend.first,
        now=reward_trend.now,
        what=words(_what, name, fell, best_of, level_of),
        so=where(fell | flat, "The policy may be exploiting the reward function", "Reward hacking cannot be ruled out"),
        level=level_of,
        best=best_of,
    )
