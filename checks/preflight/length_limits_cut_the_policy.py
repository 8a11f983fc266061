from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, words


@check("CFG009", severity="info")
def length_limits_cut_the_policy(
    known: Column = any_of("cut_share", "eos_suppressed_rate"),
    cut_share: Column = None,
    eos_suppressed_rate: Column = None,
    *,
    rows: int = 3,
    cut_above: float = 0.05,
    cut_told: float = 0.1,
    held_above: float = 0.25,
    held_told: float = 0.5,
) -> Fires:
    """The length limits lie inside the lengths that the policy writes from the start.

    ## What it sees
    Median of the first three rows: more than 5 % of the responses cut at the limit, so the limit is below the 95th
    percentile of the initial policy's lengths; or EOS suppressed in more than 25 %, so that the minimum is above
    their 25th percentile. Above 10 % cut it is LEN003 that speaks, and LEN004 above 50 % suppressed.

    ## Thresholds
    - `rows`: first rows whose median counts as the initial policy.
    - `cut_above`: share of responses cut at the limit, 0 to 1, above which the limit is too low.
    - `cut_told`: the same share above which LEN003 says so.
    - `held_above`: share of responses with EOS suppressed, 0 to 1, above which the minimum is too high.
    - `held_told`: the same share above which LEN004 says so.

    ## Why it matters
    A cut response has lost its end, and a padded one has a tail that nobody meant. Both are scored and trained on, and
    the policy learns the limit instead of the task (`grpo-doctor lab --fault truncation`).

    ## Known false alarms
    Runs may recover as they learn to be brief, hence info. With supervised answers at hand compare with their
    percentiles instead.

    ## Remedy
    max_new_tokens at or above the 95th percentile, min_new_tokens at or below the 25th (or 0).

    ## Sources
    beita6969/colab-grpo (a minimum of 5, then 30, then 5); faults `truncation` and `min-new-tokens` of the engine.
    """
    first_cut, first_held = baseline(cut_share, rows), baseline(eos_suppressed_rate, rows)
    tail = (first_cut > cut_above) & (first_cut <= cut_told)
    return fires(
        tail | ((first_held > held_above) & (first_held <= held_told)),
        "At the start {what}.",
        hold=(1, 1),
        cut=first_cut,
        held=first_held,
        what=words(
            lambda tail, cut, held: (
                f"{cut:.0%} of the responses are cut at the limit"
                if tail
                else f"{held:.0%} of the responses want to end before the minimum"
            ),
            tail,
            first_cut,
            first_held,
        ),
    )
