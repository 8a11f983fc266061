import numpy as np

from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column, lowest, total


@check(
    "REW005",
    severity="error",
    confidence="medium",
    rivals=(
        Rival(
            "invalid responses hold partial answers",
            "a graded reward that pays for parts on purpose",
            "the rewards of single invalid responses: partial credit differs between them, a fallback's does not",
        ),
    ),
    remedies=(
        remedy(
            "fail-invalid-responses",
            "Give an invalid response the lowest reward, whatever a default would have earned",
            trl="in the reward function: return 0.0 (the scale's minimum) before anything is executed",
            verl="the same in compute_score; log the share of defaults in reward_extra_info",
            openrlhf="the same in reward_func; return the share of defaults in extra_logs",
            by_hand="reward = judge(run(text)) if parses(text) else LOWEST; record fallback_rate beside the reward",
            evidence="P30 paid garbage 0.50 against 0.56 for valid workflows, because a default ran in its place",
            source="beita6969/colab-grpo, logs/training_p30.log",
        ),
    ),
    invalidates=("the reward of every step with fallbacks",),
)
def fallback_rewarded(
    reward_mean: Column,
    invalid_rate: Column,
    reward_min: Column = None,
    *,
    least: int = 5,
    bad: float = 0.9,
    good: float = 0.3,
    share: float = 0.5,
) -> Fires:
    """Invalid responses earn nearly as much as valid ones, because a default is scored in their place.

    ## What it sees
    The mean reward over all steps with at least 90 % invalid (or replaced) responses against that over all steps with
    at most 30 %, once there are five of each. It fires when invalid steps earn more than half of what valid ones earn,
    both counted from 0 or from the lowest reward recorded, if that is lower.

    ## Why it matters
    The policy is paid for text that it did not write: its advantage is noise, and a total collapse of the output does
    not show in the reward.

    ## Known false alarms
    Rewards with deliberate partial credit for text that does not parse.

    ## Remedy
    Score the policy's own text. If a default must run, log what it earns under another name.

    ## Sources
    beita6969/colab-grpo P30: mean reward 0.499 on steps that are all fallback, 0.564 on valid ones.
    """
    is_bad, is_good = invalid_rate >= bad, invalid_rate <= good
    bads, goods = total(is_bad), total(is_good)
    floor = np.fmin(0.0, lowest(reward_min))
    earned = total(np.where(is_bad, reward_mean, 0.0)) / np.maximum(bads, 1)
    valid = total(np.where(is_good, reward_mean, 0.0)) / np.maximum(goods, 1)
    enough = (bads >= least) & (goods >= least)
    return fires(
        enough & (valid > floor) & (earned - floor > share * (valid - floor)),
        "Steps whose responses are nearly all invalid earn {earned:.3g}, valid ones {valid:.3g}: a default is "
        "rewarded in their place.",
        hold=(1, 1),
        earned=earned,
        valid=valid,
        steps=bads,
    )
