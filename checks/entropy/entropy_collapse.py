import numpy as np

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.columns import Column, baseline, began, best, is_any, isnan, maximum, recent_mean, total, where, words
from grpo_doctor.remedies import remedy


@check(
    "ENT001",
    kind="outcome",
    severity="info",
    confidence="medium",
    explains=("SHP001", "SHP002", "ENT002", "DIV001", "DIV003", "ADV003", "REW009", "STL001"),
    rivals=(
        Rival(
            "a supervised stage, template or sampling temperature that left no entropy to spend",
            "entropy is already low on the first row, before any update: neither the entropy coefficient nor K did it",
            "measure entropy of the supervised checkpoint on RL prompts at T=1, with and without the RL template",
        ),
        Rival(
            "an entropy term with the wrong sign",
            "the optimiser then spends entropy on purpose",
            "the probe ENT006: one step on the entropy term alone must raise entropy",
        ),
        Rival(
            "legitimate sharpening on a task that is being solved",
            "73 % of the entropy is spent for 76 % of the gain in arXiv 2505.22617",
            "a held-out score that still rises, and samples of one prompt that still differ",
        ),
        Rival(
            "the entropy is measured over other tokens or after top-k and penalties",
            "masked or truncated responses change which tokens are averaged",
            "entropy at T=1 over all response tokens of one fixed batch",
        ),
    ),
    remedies=(
        "prove-entropy-sign",
        "temperature-one",
        "clip-higher",
        remedy(
            "covariance-clipping",
            "Clip or penalise the few tokens that drain entropy",
            verl="actor_rollout_ref.actor.policy_loss.loss_mode=kl_cov (ratio 2e-4, ppo_kl_coef 0.1) or clip_cov",
            trl='no setting in core: loss_type="cispo", or the by-hand form in a subclass',
            openrlhf="no setting: the by-hand form in a custom policy loss",
            by_hand="cov = (logp - logp.mean()) * (A - A.mean()); detach the 0.02 % of tokens with the largest cov",
            evidence="Qwen2.5-7B average 38.6 → 40.4 (Clip-Cov) and 40.6 (KL-Cov); 32B 45.8 → 50.3 and 52.2",
            source="arXiv 2505.22617; verl docs/algo/entropy.md",
        ),
        "entropy-bonus",
        "filter-dead-groups",
        "roll-back",
    ),
    invalidates=("checkpoints since step {onset}: their responses to one prompt hardly differ",),
)
def entropy_collapse(
    entropy_mean: Column,
    step: Column,
    rows_are: Column = any_of("settings.rows", optional=True),
    reward_mean: Column = None,
    reward_gained: Column = None,
    reward_fallen: Column = None,
    reward_unit: Column = None,
    reward_solved: Column = None,
    reward_std: Column = None,
    reward_max: Column = None,
    dead_share: Column = None,
    unique_rate: Column = None,
    response_length_mean: Column = None,
    invalid_rate: Column = None,
    cut_share: Column = None,
    top1_prob: Column = None,
    logit_gap: Column = None,
    *,
    spent_below_share: float = 0.1,
    floor_nats: float = 0.05,
    low_start_nats: float = 0.1,
    stuck_dead_share: float = 0.8,
    stuck_unique_share: float = 0.25,
    shorter_below_share: float = 0.25,
    broken_rise: float = 0.2,
    saturated_probability: float = 0.99,
    saturated_gap: float = 7.0,
    solved_share: float = 0.8,
    live_below_share: float = 0.5,
    rows: int = 10,
) -> Fires:
    """The policy has hardly any entropy left, and it did not buy reward with it.

    ## What it sees
    Token-mean entropy H in nats, against the first row H0 (before any update). *Low from the start*: H0 below 0.15 and
    H below 0.1. *Spent*: H0 at least 0.15 and H below a tenth of it or below 0.05. Low from the start is an info, and a
    warning while the reward has not gained, unless, from ten rewards on, more than half of the groups are known to be
    live. Spent is a warning where the reward is known and has not gained, and an error when something besides entropy
    says that the policy is stuck: the reward has fallen from its best, responses have shrunk to less than a quarter
    without a gain in reward; or, without one, invalid responses rose by 0.2, or, where the scale of the rewards is
    known, at least 80 % of the groups are dead, the rewards' standard deviation is a tenth of its first value, or at
    most a quarter of the responses differ (elsewhere those may be the right ones). Mean top-1
    probability above 0.99 with a logit gap above 7 is an error too, low from the start or spent; critical below 0.02
    nats. It fires on 3 of 5 rows and clears after 5 rows without; the onset is where entropy fell below 30 % of its
    first value.

    ## Thresholds
    - `spent_below_share`: share of the first entropy below which it is spent.
    - `floor_nats`: entropy, nats per token, below which it is spent whatever it was.
    - `low_start_nats`: entropy, nats per token, below which a run that began low stays low.
    - `stuck_dead_share`: share of groups with equal rewards, 0 to 1, from which the policy is stuck.
    - `stuck_unique_share`: distinct responses by all responses, 0 to 1, up to which the policy is stuck.
    - `shorter_below_share`: share of the first response length below which responses have shrunk.
    - `broken_rise`: rise of the share of invalid responses that counts as broken.
    - `saturated_probability`: probability of the likeliest token from which the policy is saturated.
    - `saturated_gap`: gap of the two largest logits from which the policy is saturated.
    - `solved_share`: reward of 0 to 1, or share of the largest single reward, from which equal rewards are right ones.
    - `live_below_share`: share of groups with equal rewards, 0 to 1, below which responses do differ.
    - `rows`: recorded rewards from which the lack of a gain counts.

    ## Why it matters
    With no entropy the K responses to a prompt are copies: their rewards tie, the groups are dead and no gradient is
    left. The drop per update is about lr x Cov(log p, A): likely tokens with positive advantage drain it.

    ## Known false alarms
    Low entropy alone is none of the three: a CS336 run ends at 0.023 nats with its best accuracy, a TRL run starts at
    0.05 and learns (11 → 37 %), and a finished small task has 0.08 nats with half of its groups dead. So a gain in
    reward, or a reward above 0.8 of its largest (of 1, on a scale of 0 to 1), silences the warning. All responses
    cut at the limit with masking of cut responses makes a trainer print an entropy of exactly 0, and some print 0 all
    along for what they do not compute: such rows are left out. Entropies below 0 are summed log-probabilities and are
    left out. First-token probabilities are often near 1: average over response positions.

    ## Remedy
    In this order: prove the sign of the entropy term; sample at temperature 1; raise the upper clip bound (only with
    more than one update per rollout); covariance clipping; an adaptive bonus; fill the batch with live groups. If
    entropy was low on a first row of step 0 or 1, look at the supervised stage and the template first: nothing in RL
    did it. A collapsed policy does not heal in place: go back to a checkpoint from before the onset.

    ## Sources
    arXiv 2505.22617 (law and effect sizes), 2503.14476 (clip-higher); BoBaCai/grpo-dual, whose log is low from step 1;
    real public runs of ShibukiZero/assignment5-alignment, JuncyLu/trl_DAPO,
    kartikmunjal/rlhf-and-reward-modelling-alt; fault `flipped-entropy` of the engine.
    """
    placeholder = (entropy_mean == 0) & ((cut_share >= 1) | (best(entropy_mean) <= 0))
    entropy = where((entropy_mean < 0) | placeholder, np.nan, entropy_mean)
    first = baseline(entropy, 1)
    low_born = (first < 1.5 * low_start_nats) & (entropy < low_start_nats)
    spent = (first >= 1.5 * low_start_nats) & (entropy < maximum(spent_below_share * first, floor_nats))
    level = recent_mean(reward_mean)
    most = where(isnan(best(reward_max)) & reward_unit, 1.0, best(reward_max))
    right = level >= solved_share * most  # then equal rewards are right ones
    wrong = ~right & ((most == most) | ~(level > 0))  # where no scale is known, they may be right ones too
    idle = ~(reward_gained & ~reward_fallen | reward_solved | right)  # nothing to show for it
    shrunk = idle & (response_length_mean < shorter_below_share * baseline(response_length_mean, 1))
    tied = (recent_mean(dead_share) >= stuck_dead_share) | (
        recent_mean(reward_std) <= spent_below_share * baseline(reward_std, 1)
    )
    broken = invalid_rate - baseline(invalid_rate, 1) >= broken_rise
    stuck = idle & ((wrong & (tied | (recent_mean(unique_rate) <= stuck_unique_share))) | broken)
    saturated = (top1_prob > saturated_probability) & (logit_gap > saturated_gap) & idle
    joined = (spent & (reward_fallen | shrunk | stuck)) | ((spent | low_born) & saturated)
    alive = (total(reward_mean == reward_mean) >= rows) & (recent_mean(dead_share) < live_below_share)
    untrained = (baseline(step, 1) <= 1) & ~is_any(rows_are, "epochs")
    beside = where(stuck, 3, where(saturated, 4, where(low_born, where(untrained, 5, 6), 0)))
    beside = where(reward_fallen, 1, where(shrunk, 2, beside))
    return fires(
        low_born | (spent & idle),
        "Entropy is {entropy:.3g} nats, {first:.3g} on the first row{beside}.",
        warning=((low_born & ~alive) | (spent & (level == level))) & idle,
        error=joined,
        critical=joined & (entropy < 0.02) & (top1_prob > saturated_probability),
        onset=began(spent, entropy < 3 * spent_below_share * first, step),
        entropy=entropy,
        first=first,
        beside=words(lambda which: _BESIDE[int(which)], beside),
    )


_BESIDE = (
    "",
    "; the reward fell from its best",
    "; responses shrank to less than a quarter and the reward gained nothing",
    "; the reward gained nothing, and responses or rewards are all alike or invalid",
    "; the likeliest token has nearly all of the probability",
    ", so before any update: neither the entropy coefficient nor K did this",
    ", after updates that the log does not show",
)
