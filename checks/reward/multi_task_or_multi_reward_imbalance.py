import math
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, best, fold, lowest, maximum, recent_mean, row, words
from grpo_doctor.series.reward_components import of_form
from grpo_doctor.series.trajectory import Parts, named

HALF = 0.5
"""Share of its best level that a component must have lost."""
COUNTS = 0.02
"""Share of the total reward that a component must have lost; a format reward is usually at least 5% of the total."""


def sunk(state: Parts, parts: Any, step: float, whole: float) -> tuple[Parts, float]:
    """Return the index of the component that lost most, among those that lost half of their level, or NaN if none did.

    ``whole`` is the reward of the row, NaN if unknown.
    """
    losses = {}
    for place, (name, series) in enumerate(state.take(parts, step)):
        if series.recent > HALF * series.high > 0 or series.unpaid:  # still high, or never high
            continue
        o = series.standing
        lost = o.best - o.now
        price = o.best <= 0 and of_form(name)  # a penalty: its best value was 0
        half = lost > HALF * max(abs(o.best), abs(o.now)) and not lost <= COUNTS * abs(whole)
        if o.fallen and half and not price:
            losses[place] = lost
    return state, max(losses, key=losses.__getitem__, default=math.nan)


def means(tasks: Any) -> dict[str, Any]:
    """Return the mean reward of each task of a row."""
    return {name: task.get("reward_mean") for name, task in (tasks or {}).items()}


def sunk_task(state: Parts, tasks: Any, step: float, whole: float) -> tuple[Parts, float]:
    """Return the index of the task whose mean reward fell most, by the rule of `sunk`."""
    return sunk(state, means(tasks), step, whole)


def _which(components: Any, tasks: Any, component: float, task: float) -> str:
    return (
        f"component {named(components, component)}" if component == component else f"task {named(means(tasks), task)}"
    )


def _whole(rose: bool, first: float, now: float, level: float) -> str:
    return f"rose from {number(first)} to {number(now)}" if rose else f"as a whole is {number(level)}"


@check("REW007", kind="outcome", severity="warning", confidence="medium", about=("reward_mean",))
def multi_task_or_multi_reward_imbalance(
    reward_mean: Column,
    step: Column,
    reward_trend: Trend,
    parts: Column = any_of("reward_components", "by_task"),
    reward_components: Column = None,
    by_task: Column = None,
    *,
    early_rewards: int = 20,
    level_share: float = 0.2,
) -> Fires:
    """One reward component or task improves at the expense of another.

    ## What it sees
    Starting at the 20th reward, the check fires if a reward component, or the mean reward of a task, has fallen beyond
    its noise. The component or task must have lost half of its best level and a fiftieth of the whole reward. The total
    reward must not have fallen, or must never have changed by more than a fifth of its level. Components that are named
    after formatting or a penalty and were never above 0 are ignored, because they only measure costs.

    ## Thresholds
    - `early_rewards`: number of rewards before which the check does not fire.
    - `level_share`: change in the total reward, as a share of its level, up to which the total reward counts as
      unchanged.

    ## Why it matters
    The sum hides the loss of one component. The component with the larger variance dominates the advantage, and the
    policy neglects the component with the smaller variance. Different combinations of component rewards with the same
    sum get equal advantages.

    ## Example
    ```text
    reward_mean: 0.5->1.08x30
    reward_components: {"correct": 0.5, "format": 0.4}x12 {"correct": 1.1, "format": 0.02}x18
    ```
    Warning at step 20: The reward rose from 0.52 to 1.02, but its component format fell far below its best value.

    ```text
    reward_mean: 0.5->1.08x30
    reward_components: {"correct": 0.5, "format": 0.4}x12 {"correct": 1.1, "format": 0.4}x18
    ```
    No finding.

    ## Known false alarms
    A shaping term may be faded out by design. The name of a penalty may not indicate a penalty.

    ## Remedy
    Normalise each component within its group before you add the components. With several tasks, give each task its
    share of the batch.

    ## Sources
    arXiv 2601.05242. JuncyLu/trl_DAPO: the format reward falls from 0.15 to 0 while the total stays at 2.4.
    """
    component = fold(sunk, Parts, reward_components, step, reward_mean)
    task = fold(sunk_task, Parts, by_task, step, reward_mean)
    level = recent_mean(reward_mean)
    top, floor = best(level), lowest(level)
    level_off = top - floor <= level_share * maximum(abs(top), abs(floor))
    held = (~reward_trend.fallen | level_off) & (level > lowest(reward_mean)) & (row(reward_mean) >= early_rewards)
    return fires(
        held & ((component == component) | (task == task)),
        "The reward {whole}, but its {part} fell far below its best value.",
        whole=words(_whole, reward_trend.gained, reward_trend.first, reward_trend.now, level),
        part=words(_which, reward_components, by_task, component, task),
        level=level,
    )
