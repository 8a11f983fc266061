from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import steps
from grpo_doctor.series import Column, moving_median, noise, previous, words


@check("REW006", severity="warning")
def reward_scale_or_ema_shift(
    reward_mean: Column, reward_std: Column, step: Column, *, rows: int = 10, factor: float = 2.0, agree: float = 0.2
) -> Fires:
    """The reward scale changed during the run.

    ## What it sees
    The check compares the medians of the mean reward and its spread over the last 10 rows with those over the previous
    10 rows. The check fires if mean and spread changed by equal factors (within 20%) of at least 2 or at most a half.
    In addition, the mean must have changed by more than three times its noise from row to row. An improving policy does
    not change mean and spread by the same factor. The spread of a 0-to-1 reward grows with the square root of the mean.

    ## Thresholds
    - `rows`: number of rows in each of the two windows.
    - `factor`: minimum factor by which mean and spread must both have changed.
    - `agree`: relative difference up to which the two factors count as equal.

    ## Why it matters
    Reward curves before and after the change cannot be compared. After a change of scale, every quantity in reward
    units has a different meaning. Examples are the KL penalty relative to the reward, filter limits, or a floor on the
    standard deviation. A running (EMA) normaliser changes the scale without any error.

    ## Example
    ```text
    reward_mean: 0.3x10 0.6x12
    reward_std: 0.1x10 0.2x12
    ```
    Warning at step 20: The mean and the standard deviation of the reward changed by similar factors (2 and 2)
    within 10 steps. The reward scale changed, not the policy.

    ```text
    reward_mean: 0.3x10 0.6x12
    reward_std: 0.1x22
    ```
    No finding.

    ## Known false alarms
    If a reward is sparse and unbounded, a few responses get nearly all of it, so mean and spread rise together.

    ## Remedy
    Use one scale for the whole run, and normalise only within the group.

    ## Sources
    BoBaCai/grpo-dual: a per-task EMA (decay 0.99) with a variance floor raised the spread from 0.069 to 0.689 in one
    step.
    """
    mean, spread = moving_median(reward_mean, rows), moving_median(reward_std, rows)
    mean_factor, spread_factor = mean / previous(mean, rows), spread / previous(spread, rows)
    ratio = mean_factor / spread_factor
    beyond = abs(mean - previous(mean, rows)) > 3 * noise(reward_mean)
    alike = (ratio > 1 - agree) & (ratio < 1 + agree)
    larger = (mean_factor >= factor) & (spread_factor >= factor)
    smaller = (mean_factor <= 1 / factor) & (spread_factor <= 1 / factor)
    return fires(
        alike & (larger | smaller) & beyond,
        "The mean and the standard deviation of the reward changed by similar factors ({mean_factor:.3g} and "
        "{spread_factor:.3g}) within {steps}. The reward scale changed, not the policy.",
        mean_factor=mean_factor,
        spread_factor=spread_factor,
        steps=words(steps, rows, step - previous(step, rows - 1)),
    )
