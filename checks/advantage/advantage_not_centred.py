from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, is_any, maximum, where, words


@check("ADV006", severity="warning", confidence="medium", explains=("ADV007",))
def advantage_not_centred(
    advantage_mean: Column,
    advantage_std: Column = None,
    advantage_min: Column = None,
    advantage_max: Column = None,
    reward_mean: Column = None,
    reward_std: Column = None,
    group_size: Column = None,
    normaliser: Column = any_of("settings.normaliser", "settings.scale_rewards", optional=True),
    *,
    same: float = 0.02,
) -> Fires:
    """Advantages are not centred within the prompt's group, so every response is reinforced by its raw reward.

    ## What it sees
    The check fires if all advantages have the same sign, which is impossible in centred groups. The check also fires if
    the mean of the advantages is farther from 0 than one standard deviation. Finally, the check fires if the mean and
    standard deviation of the advantages are within 2% of those of the rewards. The advantages then equal the rewards.
    One of the three conditions must hold on 3 of 5 rows. Severity is error if the run declares a group-relative
    normaliser, and warning otherwise.

    ## Thresholds
    - `same`: maximum relative difference at which the mean and standard deviation of A count as equal to those of the
      rewards.

    ## Why it matters
    If every sample is its own group, the group mean is the reward of that sample. For a group of one response, verl
    uses a mean of 0 and a standard deviation of 1, so the raw reward becomes the advantage. With such advantages, every
    response with a positive reward is reinforced, whether correct or not. In Search-R1 v0.1, wrong group ids made every
    response its own group (reported as "GRPO degrades"). The variance of the gradient grows with the square of the mean
    reward.

    ## Example
    ```text
    advantage_mean: 1.36x3
    advantage_std: 0.94x3
    ```
    Warning at step 1: The advantages have a mean of 1.36 with a standard deviation of 0.94, so they are not centred.

    ```text
    advantage_mean: 0.01x3
    advantage_std: 0.94x3
    ```
    No finding.

    ## Known false alarms
    By design, advantages are not centred in REINFORCE without a baseline, or if training uses only responses with
    positive rewards. Overlong masking or filtering after the normalisation shifts the mean advantage, but by far less
    than the limit. Uncentred advantages alone did not make a run collapse: over 3 seeds, the score was 0.65, compared
    with 0.63 for the reference run. The finding is therefore reported as a note unless it explains another finding.

    ## Remedy
    Set one uid per prompt before the batch is repeated K times, and compute advantages before any shuffle. TRL centres
    advantages per group without any setting. In a custom trainer, use `A = r.view(-1, K) - r.view(-1, K).mean(1,
    keepdim=True)`.

    ## Sources
    PeterGriffinJin/Search-R1#88; verl `core_algos.py` (a group of one); fault
    `global-norm-uncentred` of the engine.
    """
    up = (advantage_min >= 0) & (advantage_max > 0.01)
    down = (advantage_max <= 0) & (advantage_min < -0.01)
    far = abs(advantage_mean) > maximum(advantage_std, 0.01)
    equal = (
        (abs(advantage_mean - reward_mean) <= same * abs(reward_mean))
        & (abs(advantage_std - reward_std) <= same * reward_std)
        & (abs(reward_mean) > 0.1 * reward_std)
        & (reward_std > 0)
    )
    off = up | down | far | equal
    relative = is_any(normaliser, "group", "batch", "rank", 1.0)
    return fires(
        off,
        "The advantages have a mean of {mean:.3g}{spread}, {why}.",
        error=off & relative,
        mean=advantage_mean,
        std=advantage_std,
        spread=words(lambda std: f" with a standard deviation of {number(std)}" if std == std else "", advantage_std),
        why=where(
            group_size == 1,
            "because each group has one response, so no baseline is subtracted",
            where(
                equal,
                "the same as the rewards",
                where(
                    up | down,
                    "and all have the same sign, which is impossible after centring",
                    "so they are not centred",
                ),
            ),
        ),
    )
