import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, Trend, baseline, best, fmax, fmin, lowest, recent_mean, total, where


@check(
    "REW017",
    kind="outcome",
    severity="warning",
    confidence="medium",
    invalidates=("the training reward as a measure of ability since step {onset}",),
    about=("reward_mean", "success_rate", "eval_score"),
)
def held_out_score_does_not_follow(
    eval_score: Column,
    eval_trend: Trend,
    training: Column = any_of("success_rate", "reward_mean", optional=True),
    success_rate: Column = None,
    success_trend: Trend = None,
    reward_meant: Column = None,
    meant_trend: Trend = None,
    reward_mean: Column = None,
    reward_min: Column = None,
    reward_max: Column = None,
    reward_trend: Trend = None,
    *,
    evaluations: int = 8,
    followed: float = 0.5,
    least_gain: float = 0.1,
    top: float = 0.95,
) -> Fires:
    """The training reward rises but the held-out score does not.

    ## What it sees
    The check requires at least eight held-out scores between 0 and 1, and a training measure that has gained 0.1 of its
    scale. The training measure is the success rate, if it has improved. Otherwise, the measure is the reward from
    components other than formatting, if that reward has improved, or else the whole reward. A reward that is not
    between 0 and 1 is divided by the range of single rewards. The gain is measured from the first evaluation. The check
    fires if the held-out gain, plus its noise, is below half of the training gain. The first held-out score plus half
    of the training gain must be at most 0.95. REW015 reports a held-out score that has fallen.

    ## Thresholds
    - `evaluations`: minimum number of held-out scores, so that their noise can be estimated.
    - `followed`: share of the training gain, 0 to 1, below which the held-out gain plus its noise counts as too small.
    - `least_gain`: gain of the training measure, as a share of its scale, below which the check does not fire.
    - `top`: maximum of the first held-out score plus the expected gain, 0 to 1.

    ## Why it matters
    The goal of a run is a high score on prompts that were not used for training. If only the reward rises, prompts are
    memorised, or the reward function rewards something else. The reward curve nevertheless looks like success.

    ## Example
    ```text
    reward_mean: 0.2->0.8x100 0.8x100
    eval_score: 0.3 ?x19 0.31 ?x19 0.3 ?x19 0.31 ?x19 0.3 ?x19 0.31 ?x19 0.3 ?x19 0.31 ?x19 0.3 ?x19 0.31 ?x19
    ```
    Warning at step 63: The reward rose from 0.442 to 0.8, but the held-out score did not. The held-out score was 0.3 at
    the start and is 0.307 now (10 evaluations; smallest detectable gain: 0.024).

    ```text
    reward_mean: 0.2->0.8x100 0.8x100
    eval_score: 0.3 ?x19 0.35 ?x19 0.4 ?x19 0.45 ?x19 0.5 ?x19 0.55 ?x19 0.6 ?x19 0.6 ?x19 0.6 ?x19 0.6 ?x19
    ```
    No finding.

    ## Known false alarms
    A held-out set may measure a different skill, to detect forgetting. A held-out score may rise only in later
    evaluations.

    ## Remedy
    Read ten high-reward responses. Score held-out prompts of the training distribution with the training reward
    function. If the training reward rises on held-out prompts, the evaluation measures something different. If the
    training reward does not rise on held-out prompts, train on more prompts and for fewer epochs.

    ## Sources
    arXiv 2210.10760 (over-optimisation of a proxy reward). rldoctor 0.2, scenario `length_hacking`: the training reward
    rises by 0.62 and the held-out score by 0.03.
    """
    by_success, by_meant = success_trend.gained & ~success_trend.fallen, meant_trend.gained & meant_trend.unit
    span = where(reward_trend.unit, 1.0, best(reward_max) - lowest(reward_min))

    def chosen(success: Column, meant: Column, reward: Column) -> Column:
        return where(by_success, success, where(by_meant, meant, reward / span))

    now = chosen(success_trend.now, meant_trend.now, reward_trend.now)
    level = chosen(recent_mean(success_rate), recent_mean(reward_meant), recent_mean(reward_mean))
    at_first = baseline(where(eval_score == eval_score, level, math.nan), 1)
    first = fmax(chosen(success_trend.first, meant_trend.first, reward_trend.first), at_first)
    gain = now - first
    held_first = fmin(eval_trend.first, baseline(eval_score, 1))
    little = eval_trend.now - held_first + eval_trend.shown < followed * gain
    n = total(eval_score == eval_score)
    scale = (best(eval_score) <= 1) & (lowest(eval_score) >= 0)
    rose = by_success | ((by_meant | reward_trend.gained) & ~reward_trend.fallen)
    room = ~eval_trend.solved & (held_first + followed * gain <= top)
    return fires(
        rose & scale & room & ~eval_trend.fallen & (n >= evaluations) & (gain >= least_gain) & little,
        "The {measure} rose from {first:.3g} to {now:.3g}, but the held-out score did not. The held-out score was "
        "{held_first:.3g} at the start and is {held:.3g} now ({n} evaluations; smallest detectable gain: {shown:.2g}).",
        hold=(1, 1),
        clear=1,
        onset=reward_trend.since,
        measure=where(by_success, "success rate", where(by_meant, "correctness reward", "reward")),
        first=where(by_success | by_meant, first, first * span),
        now=where(by_success | by_meant, now, now * span),
        held_first=held_first,
        held=eval_trend.now,
        n=n,
        shown=eval_trend.shown,
    )
