import math

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, baseline, isnan, row, where, words


@check("REW018", kind="remark", severity="info", confidence="medium")
def form_pays_most(
    reward_mean: Column,
    reward_meant: Column,
    step: Column,
    reward_trend: Trend,
    meant_trend: Trend,
    *,
    rewards: int = 40,
    share: float = 0.5,
    since_share: float = 0.2,
) -> Fires:
    """Most of the reward gain comes from formatting, although correctness has improved too.

    ## What it sees
    Starting at the 40th reward, the check applies if the reward has improved and has not fallen. The check fires if the
    components other than formatting have improved and the reward no longer rises. In addition, the gain of the other
    components must be below half of the reward's gain, even with noise. The check also fires if the other components
    stopped rising and the reward continued to rise for another fifth of the run. If the other components have not
    improved at all, REW003 reports the run.

    ## Thresholds
    - `rewards`: number of rewards before which the check does not fire.
    - `share`: share of the reward gain, 0 to 1, below which the contribution of correctness counts as small.
    - `since_share`: minimum share of the run, 0 to 1, for which the reward must have risen after correctness stopped
      rising.

    ## Why it matters
    A policy follows the larger gradient. While formatting contributes more, the reward rises without any gain in
    ability, and formatting may improve at the expense of correctness.

    ## Example
    ```text
    reward_mean: 0.2x20 0.8x60
    reward_components: {"correctness": 0.1, "format": 0.1}x20 {"correctness": 0.2, "format": 0.6}x60
    ```
    Info at step 40: The reward rose from 0.2 to 0.8, mostly through formatting: the other components rose from 0.1
    to 0.2.

    ```text
    reward_mean: 0.2x20 0.8x60
    reward_components: {"correctness": 0.1, "format": 0.1}x20 {"correctness": 0.6, "format": 0.2}x60
    ```
    No finding.

    ## Known false alarms
    If components are logged without their weight, the gain of correctness counts with a weight of 1.

    ## Remedy
    Reward correctness before format: give formatting a weight of 0.1 or less, and 0 once nearly every response is
    well-formed.

    ## Sources
    rldoctor 0.2, scenario `format_domination`; rlprobe 0.1, pathology `format_gaming`.
    """
    rose = reward_trend.gained & ~reward_trend.fallen & meant_trend.gained & (row(reward_mean) >= rewards)
    little = (meant_trend.possible_gain < share * reward_trend.gain) & (reward_trend.settled == reward_trend.settled)
    until = where(isnan(reward_trend.settled), step, reward_trend.settled)
    alone = until - meant_trend.settled > since_share * (step - baseline(step, 1))
    levels = reward_trend.first, reward_trend.now, meant_trend.first, meant_trend.now
    return fires(
        rose & (little | alone),
        "{what}.",
        hold=(1, 1),
        clear=1,
        onset=where(little, math.nan, meant_trend.settled),
        what=words(_what, little, *levels, meant_trend.settled, until),
        gain=reward_trend.gain,
        meant=meant_trend.gain,
    )


def _what(little: bool, first: float, now: float, m_first: float, m_now: float, since: float, until: float) -> str:
    if little:
        return (
            f"The reward rose from {number(first)} to {number(now)}, mostly through formatting: "
            f"the other components rose from {number(m_first)} to {number(m_now)}"
        )
    return (
        f"Only formatting raised the reward from step {since:.0f} to step {until:.0f}. The other components are "
        f"{number(m_now)} and have not risen"
    )
