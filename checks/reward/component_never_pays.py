import math
from functools import partial
from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, best, fold, lowest, row, where, words
from grpo_doctor.series.reward_components import kind, of_form
from grpo_doctor.series.trajectory import Parts, Trajectory, named

CEILING = 0.98
"""Share of its range at or above which a component counts as at its top. For a component that has been below 0, half of
the range is enough, because 0 is then its neutral value."""


def at_top(series: Trajectory) -> bool:
    """Return whether the last values of a varying component are at the top of its range. A component at its top has a
    small scale, or is a penalty that does not apply."""
    share = CEILING if series.low >= 0 else 0.5
    return series.high > series.low and series.recent >= series.low + share * (series.high - series.low)


def least_paid(state: Parts, components: Any, step: float, now: float, *, share: float) -> tuple[Parts, float]:
    """Return the index of the component that is at its minimum most often, or NaN if no component is almost always at
    its minimum.

    The minimum is the lowest value, or 0 if no value is lower: a wrong answer may be penalised, but gets no reward. A
    component that has been 0 throughout may be a penalty that never applied, unless its name means success.
    """
    heights, parts = {}, [*state.take(components, step)]
    for place, (name, series) in enumerate(parts):
        right = kind(name) == "success"
        unclear = series.low == series.high == 0 and not right
        if of_form(name) or at_top(series) or unclear:
            continue
        height = series.high - min(series.low, 0.0)
        costs = series.high < 0 and not (series.unpaid or right)
        if ((height <= share * abs(now) / len(parts) and not costs) or series.unpaid) and not series.standing.gained:
            heights[place] = height
    return state, min(heights, key=heights.__getitem__, default=math.nan)


@check("REW011", vital=True, kind="outcome", severity="info", confidence="medium", about=("reward_mean",))
def component_never_pays(
    reward_trend: Trend,
    reward_components: Column,
    step: Column,
    reward_mean: Column = None,
    reward_meant: Column = None,
    *,
    early_rows: int = 20,
    never_paid_share: float = 0.1,
    patience: int = 40,
) -> Fires:
    """A reward component, or every component except formatting, stays at its minimum although the reward rises.

    ## What it sees
    The check fires if the reward has improved, but one of its components has not improved. The component must be at its
    minimum (its lowest value, at most 0) on 85% of its rows. Alternatively, the component must never have exceeded its
    minimum by more than a tenth of its equal share of the current reward. The check ignores components whose names mean
    formatting or a penalty. The check also ignores components at the top of their range, or in its upper half if a
    value has been below 0. Unless its name means correctness, a component that is 0 on every row (a penalty that never
    applied) is ignored. A component that varies but stays below 0 (a cost) is also ignored.

    The check also fires if, after 20 rows and regardless of the reward, only components whose names mean formatting
    have been above 0. For such a reward, severity is **info**, and **warning** after 40 rows.

    ## Thresholds
    - `early_rows`: number of rows before which the check does not report that only formatting has been above 0.
    - `never_paid_share`: share of the reward divided by the number of components up to which a component above its
      minimum counts as at its minimum.
    - `patience`: number of rows after which the severity is warning if no component other than formatting has been
      above 0.

    ## Why it matters
    If the component at its minimum is the intended one (correctness, in contrast to compilability or format), the
    policy learns only the other components.

    ## Example
    ```text
    reward_mean: 0.2->0.78x30
    reward_components: {"format": 0.2, "correct": 0}x10 {"format": 0.7, "correct": 0}x20
    ```
    Warning at step 8: The reward rose to 0.72, but its component correct is almost always at its minimum.

    ```text
    reward_mean: 0.2->0.78x30
    reward_components: {"format": 0.2, "correct": 0}x5 {"format": 0.3, "correct": 0.4}x25
    ```
    No finding.

    ## Known false alarms
    A component may have a far smaller scale than the others. The name of a penalty may not indicate a penalty.

    ## Remedy
    Read ten responses and score them with the function of the component. If the function can return more than 0, raise
    its weight, or give partial credit so that the first successes have an effect.

    ## Sources
    rohunagrawal/reward-hacking-entropy: the reward is f + g; g (the code compiles) rises from 0.2 to 0.7, while f (the
    code is correct) stays below 0.02.
    """
    place = fold(partial(least_paid, share=never_paid_share), Parts, reward_components, step, reward_trend.now)
    rose = reward_trend.gained & (place == place)
    top = best(reward_meant)
    form = (row(reward_trend.now) >= early_rows) & (top <= 0) & (top <= lowest(reward_meant)) & (best(reward_mean) > 0)
    return fires(
        rose | form,
        "{what}, {part}.",
        hold=(1, 1),
        warning=rose | (form & (row(reward_trend.now) >= patience)),
        what=words(_what, rose, reward_trend.now),
        now=reward_trend.now,
        part=words(_part, reward_components, where(rose, place, math.nan)),
    )


def _part(components: Any, place: float) -> str:
    if place != place:
        return "and only its formatting components have ever been above 0"
    return f"but its component {named(components, place)} is almost always at its minimum"


def _what(rose: bool, now: float) -> str:
    return f"The reward {'rose to' if rose else 'is'} {number(now)}"
