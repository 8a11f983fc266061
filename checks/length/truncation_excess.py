import numpy as np

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.columns import (
    Column,
    baseline,
    began,
    best,
    fmax,
    isnan,
    kendall_tau,
    moving_max,
    moving_min,
    moving_sum,
    recent_mean,
    total,
    where,
)


@check(
    "LEN003",
    severity="warning",
    confidence="medium",
    explains=("ADV003", "STL001", "STL004", "REW001", "REW009", "DIV004"),
    rivals=(
        Rival(
            "EOS is never produced",
            "a missing terminator in the generation's EOS set, or EOS masked out of the supervised loss",
            "the EOS probability at the end of right answers; decode with skip_special_tokens=False",
        ),
        Rival(
            "a metric that tests the length only",
            "a response that ends exactly at one of several limits counts as cut",
            "the finish reason of the generator, or whether the last id is EOS",
        ),
        Rival(
            "a policy that has become random",
            "then entropy rose before truncation",
            "entropy on the rows before",
        ),
    ),
    remedies=("raise-response-limit",),
    invalidates=("rewards of cut responses: they were scored without their answer",),
)
def truncation_excess(
    step: Column,
    known: Column = any_of("cut_share", "response_length_mean"),
    cut_share: Column = None,
    reward_mean: Column = None,
    reward_gained: Column = None,
    reward_fallen: Column = None,
    reward_solved: Column = None,
    response_length_mean: Column = None,
    response_length_max: Column = None,
    *,
    warn: float = 0.1,
    bad: float = 0.5,
    rows: int = 10,
    short: float = 16,
    nearly: float = 0.8,
) -> Fires:
    """Too many responses are cut at the length limit.

    ## What it sees
    More than 10 % of the responses of the last 5 rows (or of all, while they are fewer) cut, and on three of them:
    a warning (one cut response in eight is chance). More than half over the last 10 rows, and from the 10th step
    on, is an error where the reward is known, has not gained and is not near its top, and truncation is not falling
    (Kendall's tau over those rows above -0.4). Where over 80 % have been cut, over the whole run and lately, the
    run suffers from it whatever its reward says: it is an outcome. Where the task was solved while it trained it is
    an info. Where no share is recorded, a mean length that has stood exactly at its own maximum for 10 rows, above
    16 tokens, is the limit, and everything is cut. It clears after 5 rows below: the end of the run counts, not its
    start.

    ## Thresholds
    - `warn`: share of responses cut, 0 to 1, for a warning.
    - `bad`: share of responses cut, 0 to 1, for an error.
    - `rows`: rows over which the error is judged, and a constant length.
    - `short`: tokens up to which a constant length is no limit.
    - `nearly`: share of responses cut over the whole run, 0 to 1, from which it is an outcome.

    ## Why it matters
    A cut response has no answer. Scored as wrong it makes groups tie; scored by what stands there, the policy learns
    to be cut.

    ## Known false alarms
    Runs may start at 70 % and recover. A run may keep a reward of 0.9 with every response cut: that is truncation, a
    warning, not collapse. Some frameworks test equality with one limit only and print 0 although responses are cut, or
    count responses that end at the limit. Masking cut responses is disputed (Skywork-OR1 found none to be better) and
    leaves a group dead in which all are cut.

    ## Remedy
    Raise the limit to the 95th percentile of supervised answers; give cut responses no reward; penalise the last part
    before the limit softly. If nothing ever ends by itself, mend the EOS set first.

    ## Sources
    arXiv 2503.14476 (overlong filter 30 → 36, soft penalty 38 → 41); public runs of
    kartikmunjal/rlhf-and-reward-modelling-alt (every response at 64 tokens); trl PR#5759, verl#7823, ms-swift#4950.
    """
    longest = where(isnan(response_length_max), best(response_length_mean), response_length_max)
    stands = moving_min(response_length_mean, rows) == moving_max(response_length_mean, rows)
    at_cap = stands & (response_length_mean >= longest) & (longest > short)
    share = where(isnan(cut_share), where(at_cap, 1.0, np.nan), cut_share)
    known = total(share == share)
    so_far = total(share) / known
    cut, lately = (fmax(recent_mean(share, n), where(known < n, so_far, np.nan)) for n in (rows, 5))
    often = (lately > warn) & (where(known < 5, total(share > warn), moving_sum(share > warn, 5)) >= 3)
    better = (reward_gained & ~reward_fallen) | reward_solved
    rewarded = reward_mean == reward_mean
    stays = ~(kendall_tau(share, rows) < -0.4) & (step - baseline(step, 1) >= rows - 1)
    suffered = (lately > nearly) & (so_far > nearly)
    return fires(
        often & ~(reward_solved & reward_gained),
        "{cut:.0%} of the responses are cut at the length limit.",
        info=often,
        error=(cut > bad) & often & rewarded & ~better & stays,
        hold=(1, 1),
        suffered=suffered,
        onset=began(often, share > warn, step),
        cut=lately,
    )
