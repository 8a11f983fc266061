from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, baseline, is_any, recent_mean, total, words


@check(
    "ENT012",
    severity="info",
    confidence="medium",
    explains=("ENT001", "SHP001", "DIV001"),
    withholds={
        "clip-higher": "entropy was low before the first update, so no setting of the update caused it",
        "covariance-clipping": "entropy was low before the first update, so no setting of the update caused it",
        "entropy-bonus": "entropy was low before the first update; find the cause first",
        "roll-back": "entropy was low before the first update, so no checkpoint of this run is better",
    },
    invalidates=("the supervised stage: retrain it before RL if the entropy was lost there",),
)
def entropy_low_before_rl(
    entropy_mean: Column,
    step: Column,
    reward_mean: Column = None,
    reward_trend: Trend = None,
    dead_share: Column = None,
    temperature: Column = None,
    rows_are: Column = any_of("settings.rows", optional=True),
    *,
    low_start_nats: float = 0.15,
    stayed_low_nats: float = 0.1,
    rows: int = 10,
    live_below_share: float = 0.5,
) -> Fires:
    """Entropy was already low before the first update, so RL did not cause it.

    ## What it sees
    The check fires if a log starts at step 0 or 1 with an entropy below 0.15 nats. Entropy must also be below 0.1 nats
    on 3 of 5 rows. Severity is info, or warning while the reward has not improved and is not near its maximum. Severity
    stays info once more than half of the groups in ten rewards are known to have differing rewards. Rows that are means
    over an epoch are not judged, because they include updates.

    ## Thresholds
    - `low_start_nats`: entropy of the first row, nats per token, below which entropy counts as low from the start.
    - `stayed_low_nats`: entropy of later rows, nats per token, below which entropy counts as still low.
    - `rows`: minimum number of recorded rewards at which differing rewards within groups keep the severity at info.
    - `live_below_share`: share of groups with equal rewards, 0 to 1, below which the rewards within groups are known to
      differ.

    ## Why it matters
    The first rollout shows the policy before RL. Problems in the first rollout come from the supervised stage, the
    template or the sampling. At that time, the entropy coefficient, group size, learning rate and clip bounds have had
    no effect, so changing them does not help.

    ## Example
    ```text
    entropy_mean: 0.04x30
    reward_mean: 0.3x30
    ```
    Warning at step 1: Entropy was 0.04 nats on the first row, before any update. The cause is an earlier training
    stage or the sampler, not the entropy coefficient or the group size.

    ```text
    entropy_mean: 0.6x30
    reward_mean: 0.3x30
    ```
    No finding.

    ## Known false alarms
    Distilled models and models for formal tasks start with low entropy and learn well. For example, a TRL run starts at
    0.05 nats and solves its task. If the reward improves, the severity is therefore only info. An entropy of exactly 0
    on the first row means that entropy was not measured.

    ## Remedy
    Measure the entropy of the base model and of the supervised checkpoint on the RL prompts, with both templates, at
    temperature 1. The first stage with low entropy is the stage to fix.

    ## Sources
    The logs of BoBaCai/grpo-dual (three of three start at 0.03 nats); BoBaCai/grpo-dual; public runs of
    kartikmunjal/rlhf-and-reward-modelling-alt.
    """
    first, began = baseline(entropy_mean, 1), baseline(step, 1)
    given = (
        ~is_any(rows_are, "epochs", "unnumbered")
        & (began <= 1)
        & (first > 0)
        & (first < low_start_nats)
        & (entropy_mean < stayed_low_nats)
    )
    better = reward_trend.gained & ~reward_trend.fallen
    alive = (total(reward_mean == reward_mean) >= rows) & (recent_mean(dead_share) < live_below_share)
    return fires(
        given,
        "Entropy was {first:.3g} nats on the first row, before any update{sampled}. The cause is an earlier "
        "training stage or the sampler, not the entropy coefficient or the group size.",
        warning=given & ~better & ~reward_trend.solved & ~alive,
        onset=began,
        sampled=words(lambda t: f" (sampled at temperature {number(t)})" if t == t else "", temperature),
        first=first,
        entropy=entropy_mean,
    )
