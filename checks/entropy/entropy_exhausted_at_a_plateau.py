from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, recent_mean


@check("ENT014", severity="warning", confidence="medium", about=("reward_mean",))
def entropy_exhausted_at_a_plateau(
    entropy_mean: Column,
    step: Column,
    reward_trend: Trend,
    *,
    left: float = 0.1,
    nats: float = 0.1,
    none: float = 0.03,
    share: float = 0.4,
) -> Fires:
    """The reward has plateaued below its maximum, and too little entropy is left to explore.

    ## What it sees
    The check fires if the mean entropy of the last 5 rows is below 10% of the first entropy and below 0.1 nats per
    token. In addition, the reward must have improved and then neither risen, fallen nor reached its maximum for 40% of
    the steps. Severity is **info**, or **warning** if the entropy is below 3% of its first value and below 0.03 nats
    per token.

    ## Thresholds
    - `left`: ratio of entropy to its first value below which too little entropy is left to explore.
    - `nats`: entropy, nats per token, below which the responses of the policy count as repetitions. An entropy of 0.1
      nats corresponds to a uniform choice among three tokens at every tenth position.
    - `none`: entropy, both as a share of its first value and in nats per token, below which the severity is warning.
      Published runs that keep learning end at 5% to 10% of their first entropy.
    - `share`: minimum length of the plateau, as a share of the steps, 0 to 1.

    ## Why it matters
    Rewards are compared within a group. A policy without entropy gives the same response K times, so the rewards of a
    group have no variance. Without variation, the policy never solves the prompts that it gets wrong. More training
    steps do not help.

    ## Example
    ```text
    entropy_mean: 1x40 0.02x160
    reward_mean: 0.2->0.5x40 0.5x160
    ```
    Warning at step 55: The reward has plateaued at 0.5 since step 55, and entropy fell from 1 nats/token at the
    start to 0.02.

    ```text
    entropy_mean: 1x40 0.4x160
    reward_mean: 0.2->0.5x40 0.5x160
    ```
    No finding.

    ## Known false alarms
    If the answer to a task is a fixed sequence of a few tokens, low entropy is the goal.

    ## Remedy
    Roll back to a checkpoint from before the plateau. Raise the upper clip bound, sample at temperature 1, or set the
    entropy coefficient to 0.001 to 0.01. Use prompts that the model solves some of the time.

    ## Sources
    arXiv 2505.22617 (the gain ends when the entropy does). rldoctor 0.2, scenario `entropy_collapse`; rlprobe 0.1,
    pathology `entropy_collapse`.
    """
    first, now = baseline(entropy_mean), recent_mean(entropy_mean)
    part = (step - reward_trend.settled) / (step - baseline(step, 1))
    low = (now < left * first) & (now < nats) & (now >= 0) & (part >= share) & ~reward_trend.fallen
    return fires(
        low & (now < none * first) & (now < none),
        "The reward has plateaued at {reward:.3g} since step {since:.0f}, and entropy fell from {first:.3g} "
        "nats/token at the start to {now:.2g}.",
        info=low,
        onset=reward_trend.settled,
        since=reward_trend.settled,
        reward=reward_trend.now,
        first=first,
        now=now,
    )
