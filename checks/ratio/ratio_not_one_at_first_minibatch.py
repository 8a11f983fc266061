from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, words


@check("RAT003", kind="defect", severity="warning", confidence="medium", explains=("RAT001", "RAT005"))
def ratio_not_one_at_first_minibatch(
    known: Column = any_of("ratio_first_minibatch", "clip_fraction"),
    ratio_first_minibatch: Column = None,
    clip_fraction: Column = None,
    batch: Column = any_of("settings.train_batch_size", optional=True),
    mini: Column = any_of("settings.mini_batch_size", optional=True),
    passes: Column = any_of("settings.num_iterations", optional=True),
    turns: Column = any_of("settings.max_turns", optional=True),
    *,
    warn: float = 1e-2,
    bad: float = 5e-2,
    clipped: float = 1e-3,
) -> Fires:
    """The probability ratio differs from 1 before the first update on a rollout.

    ## What it sees
    The check uses the mean of |ratio - 1| on the first minibatch of a rollout, before any optimizer step on that
    rollout. Severity is **warning** above 0.01 and **error** above 0.05, each on 3 of 5 rows. If the settings declare
    one update per rollout (one pass, and as many prompts per update as per step), every minibatch is the first of its
    rollout. In that case, severity is also **warning** if the clip fraction is above 0.001. The limit on the clip
    fraction does not apply to multi-turn rollouts: each turn is a sample, so a rollout has more samples than prompts.

    ## Thresholds
    - `warn`: mean |ratio - 1| of the first minibatch above which the severity is warning.
    - `bad`: mean |ratio - 1| of the first minibatch above which the severity is error.
    - `clipped`: clip fraction, 0 to 1, above which the severity is warning in a run with one update per rollout.

    ## Why it matters
    Before the first update, new and old policy have the same weights, so the ratio is 1 by identity. If the ratio
    differs from 1, the two log-probabilities were computed differently. Importance weights and clipping correct for
    this difference, although the policy did not cause it, and every gradient is biased.

    ## Example
    ```text
    ratio_first_minibatch: 0.05x3
    ```
    Warning at step 1: Before the first update, the probability ratio differs from 1 by 0.05 on average.

    ```text
    ratio_first_minibatch: 0.001x3
    ```
    No finding.

    ## Known false alarms
    Old log-probabilities from a bf16 inference engine differ by about 0.01 per token without any bug. Severity is then
    **warning**.

    ## Remedy
    Disable dropout, and use the same engine, temperature and mask for old and new log-probabilities.

    ## Sources
    Identity; huggingface/trl#3500, verl-project/verl#2996, volcengine/verl PR#2953, modelscope/ms-swift PR#8427.
    """
    once = (mini >= batch) & ~(passes > 1) & ~(turns > 1)
    return fires(
        (ratio_first_minibatch > warn) | (once & (clip_fraction > clipped)),
        "{what}",
        error=ratio_first_minibatch > bad,
        what=words(_what, ratio_first_minibatch, clip_fraction),
        gap=ratio_first_minibatch,
    )


def _what(gap: float, clipped: float) -> str:
    if gap == gap:
        return f"Before the first update, the probability ratio differs from 1 by {number(gap)} on average."
    return (
        f"{clipped:.2%} of the tokens are clipped, although every ratio should be 1 with one update per rollout. The "
        f"two forward passes give different log-probabilities."
    )
