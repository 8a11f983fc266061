from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, began, recent_mean


@check("DIV006", severity="warning", confidence="high")
def script_drifts(
    other_script_rate: Column,
    step: Column,
    *,
    share: float = 0.1,
    most: float = 0.5,
) -> Fires:
    """Responses drift into a script that the prompts do not use.

    ## What it sees
    The check averages the share of letters in a script that the prompts do not use over the last 5 rows that record
    this share. The share is read from the trainer's log, or counted in rollouts and saved responses that include their
    prompts. Severity is **warning** if the share has risen by 10 points since the first rows, and **error** if it is
    also above 50%.

    ## Thresholds
    - `share`: minimum rise in the share of letters in another script, 0 to 1. Single symbols, names and quotations
      cause a smaller rise.
    - `most`: share of letters in another script, 0 to 1, above which the severity is error.

    ## Why it matters
    The reward function usually scores the answer, not the language. Users cannot read responses that mix languages. If
    responses drift into many scripts, the policy has started to generate noise.

    ## Example
    ```text
    other_script_rate: 0x10 0.5x10
    ```
    Warning at step 11: 50% of the letters in the responses are in a script that the prompts do not use (0% at the
    start).

    ```text
    other_script_rate: 0x10 0.05x10
    ```
    No finding.

    ## Known false alarms
    Translation tasks require another script. Greek letters in mathematics count as another script, but stay far below
    the limit.

    ## Remedy
    Read ten responses. If the responses make sense, add a small reward for the language of the prompt. If the responses
    are noise, check the entropy and roll back.

    ## Sources
    DeepSeek-R1, arXiv 2501.12948 (language mixing in R1-Zero, and the reward against it).
    """
    first, now = baseline(other_script_rate, 3), recent_mean(other_script_rate)
    drifted = now - first >= share
    return fires(
        drifted,
        "{now:.0%} of the letters in the responses are in a script that the prompts do not use ({first:.0%} at the "
        "start).",
        error=drifted & (now > most),
        onset=began(drifted, other_script_rate - first > share / 2, step),
        now=now,
        first=first,
    )
