import math
from typing import Any

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.columns import Column, best, fmax, fold, lowest, maximum, recent_mean, row
from grpo_doctor.meant import of_form
from grpo_doctor.remedies import remedy

ROWS = 5
"""Rows whose mean counts as the level of a part."""
COUNTS = 0.02
"""Share of the whole reward that a part must have lost: format rewards are given a twentieth of it or more."""


class _Parts:
    """Per part (reward function or task): mean of its last rows, its best such mean, and its noise."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[float, ...]] = {}
        self.best: dict[str, float] = {}
        self.jumps: dict[str, float] = {}
        self.rows: dict[str, int] = {}

    def copy(self) -> "_Parts":
        other = _Parts()
        other.last, other.best = self.last.copy(), self.best.copy()
        other.jumps, other.rows = self.jumps.copy(), self.rows.copy()
        return other

    def take(self, name: str, value: float, whole: float) -> float:
        """Standard errors by which the part now lies below its best; NaN while that is unknown or small.

        ``whole`` is the reward of the row, NaN where that is unknown.
        """
        tail = self.last.get(name, ())
        if tail:
            self.jumps[name] = self.jumps.get(name, 0.0) + (value - tail[-1]) * (value - tail[-1])
            self.rows[name] = self.rows.get(name, 0) + 1
        tail = self.last[name] = (*tail, value)[-ROWS:]
        if len(tail) < ROWS:
            return math.nan
        now = sum(tail) / ROWS
        top = self.best[name] = max(self.best.get(name, now), now)
        error = math.sqrt(self.jumps[name] / self.rows[name] / ROWS)
        large = top - now > 0.5 * max(abs(top), abs(now)) and not top - now <= COUNTS * abs(whole)
        price = top <= 0 and of_form(name)  # a penalty: nothing is lost that was ever given
        return (top - now) / error if large and error > 0 and not price else math.nan


def sinking(state: _Parts, parts: dict[str, float] | None, whole: float) -> tuple[_Parts, float]:
    """The largest fall of any part, in standard errors; NaN where no part has fallen by half."""
    known = {name: float(v) for name, v in (parts or {}).items() if isinstance(v, int | float) and v == v}
    falls = [state.take(name, value, float(whole)) for name, value in known.items()]
    return state, max((f for f in falls if f == f), default=math.nan)


def sinking_task(state: _Parts, tasks: dict[str, dict[str, Any]] | None, whole: float) -> tuple[_Parts, float]:
    """The same of the tasks, by the mean reward of each."""
    means = {name: f["reward_mean"] for name, f in (tasks or {}).items() if f.get("reward_mean") is not None}
    return sinking(state, means, whole)


@check(
    "REW007",
    severity="warning",
    confidence="medium",
    rivals=(
        Rival(
            "the part is no part of the reward",
            "a component that is only logged, with weight 0",
            "the weights of the reward functions (REW002 looks at such components)",
        ),
        Rival("the mix of prompts changed", "fewer prompts of that task", "the number of prompts per task over time"),
    ),
    remedies=(
        remedy(
            "normalise-each-reward",
            "Normalise each reward within its group before they are added",
            trl='multi_objective_aggregation="normalize_then_sum", or other reward_weights',
            verl="compute the group z-score per reward in a custom reward manager",
            openrlhf="compute it in reward_func before the sum",
            by_hand="A = sum(w * (r - r.mean(1, True)) / (r.std(1, keepdim=True) + 1e-4) for w, r in rewards)",
            evidence="distinct reward vectors no longer map to equal advantages",
            source="arXiv 2601.05242 (GDPO)",
        ),
    ),
)
def multi_task_or_multi_reward_imbalance(
    reward_mean: Column,
    reward_fallen: Column,
    parts: Column = any_of("reward_components", "by_task"),
    reward_components: Column = None,
    by_task: Column = None,
    *,
    sigmas: float = 5.0,
    early_rewards: int = 20,
    level_share: float = 0.2,
) -> Fires:
    """One reward function or task is bought with another.

    ## What it sees
    From the 20th reward on: a component of the reward, or the mean reward of a task, whose mean of 5 rows has lost half
    of its best, 5 standard errors and a fiftieth of the whole reward, while the reward as a whole has not fallen, or
    has moved by no more than a fifth of its level all along. A part that is named after form or a penalty and was never
    above 0 is passed over: it is the price of the others.

    ## Thresholds
    - `sigmas`: standard errors by which a part must have fallen.
    - `early_rewards`: rewards before which nothing is said.
    - `level_share`: share of its level by which the whole reward may move and still be level.

    ## Why it matters
    The sum hides it: the part with the larger variance sets the advantage, and the policy pays for it with the smaller
    one. Distinct reward vectors that add up to the same number get equal advantages.

    ## Known false alarms
    A shaping term that is faded out on purpose. A penalty whose name does not say so.

    ## Remedy
    Normalise each reward within its group before adding; for tasks, give each its share of the batch.

    ## Sources
    arXiv 2601.05242. JuncyLu/trl_DAPO: the format reward goes 0.15 → 0 while the total stays at 2.4.
    """
    of_components = fold(sinking, _Parts, reward_components, reward_mean)
    of_tasks = fold(sinking_task, _Parts, by_task, reward_mean)
    worst = fmax(of_components, of_tasks)
    level = recent_mean(reward_mean)
    top, floor = best(level), lowest(level)
    level_off = top - floor <= level_share * maximum(abs(top), abs(floor))
    held = (~reward_fallen | level_off) & (level > lowest(reward_mean)) & (row(reward_mean) >= early_rewards)
    return fires(
        held & (worst > sigmas),
        "A reward function or task has lost more than half of its best ({worst:.0f} standard errors) while the reward "
        "as a whole stands at {level:.3g}.",
        worst=worst,
        level=level,
    )
