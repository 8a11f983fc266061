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
    """The length limits truncate or lengthen responses of the initial policy.

    ## What it sees
    The check fires if the median share of truncated responses over the first three rows is above 5%. With this share,
    the limit is below the 95th percentile of the response lengths of the initial policy. The check also fires if EOS is
    suppressed in more than 25% of the responses, because the minimum length is then above the 25th percentile. LEN003
    reports shares of truncated responses above 10%, and LEN004 reports shares of responses with EOS suppressed above
    50%.

    ## Thresholds
    - `rows`: number of first rows whose median describes the initial policy.
    - `cut_above`: share of truncated responses, 0 to 1, above which the limit counts as too low.
    - `cut_told`: share of truncated responses, 0 to 1, above which LEN003 reports the problem instead.
    - `held_above`: share of responses with EOS suppressed, 0 to 1, above which the minimum length counts as too high.
    - `held_told`: share of responses with EOS suppressed, 0 to 1, above which LEN004 reports the problem instead.

    ## Why it matters
    A truncated response has no ending. A response that is forced to continue has an unintended ending. The policy is
    trained on both kinds of responses and learns the limit instead of the task (`grpo-doctor lab --fault truncation`).

    ## Example
    ```text
    truncated_rate: 0.07x3 0x9
    ```
    Info at step 3: In the first steps, 7% of the responses are truncated at the limit.

    ```text
    truncated_rate: 0.02x3 0x9
    ```
    No finding.

    ## Known false alarms
    Some runs recover because they learn to write shorter responses, so severity is **info**. If you have supervised
    answers, use the percentiles of their lengths instead of this check.

    ## Remedy
    Set max_new_tokens to at least the 95th percentile of response lengths. Set min_new_tokens to 0, or to at most the
    25th percentile.

    ## Sources
    beita6969/colab-grpo (a minimum of 5, then 30, then 5); faults `truncation` and `min-new-tokens` of the engine.
    """
    first_cut, first_held = baseline(cut_share, rows), baseline(eos_suppressed_rate, rows)
    tail = (first_cut > cut_above) & (first_cut <= cut_told)
    return fires(
        tail | ((first_held > held_above) & (first_held <= held_told)),
        "In the first steps, {what}.",
        hold=(1, 1),
        cut=first_cut,
        held=first_held,
        what=words(
            lambda tail, cut, held: (
                f"{cut:.0%} of the responses are truncated at the limit"
                if tail
                else f"{held:.0%} of the responses would end before the minimum length"
            ),
            tail,
            first_cut,
            first_held,
        ),
    )
