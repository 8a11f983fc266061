from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, began, recent_mean


@check(
    "DIV005", severity="warning", confidence="medium", explains=("LEN002", "LEN003", "REW009"), explains_from="error"
)
def responses_repeat_themselves(
    repetition_rate: Column,
    step: Column,
    reward_trend: Trend = None,
    *,
    some: float = 0.2,
    risen: float = 0.1,
    most: float = 0.5,
) -> Fires:
    """Responses repeat themselves in loops.

    ## What it sees
    The check averages the share of responses that repeat themselves over the last 5 rows that record this share. The
    share is read from the trainer's log, or counted in rollouts and saved responses. A response of at least 200
    characters counts as repeating itself in two cases: its last 40 characters occur four times, or most of its 8-word
    sequences occur twice. Severity is **warning** if the share is above 20% and has risen by 10 points since the first
    rows, or if it is above 50%. Severity is **error** if the share is above 50% in a run whose reward has not improved.

    ## Thresholds
    - `some`: share of responses that repeat themselves, 0 to 1, above which the severity is warning if the share has
      also risen.
    - `risen`: minimum rise in the share since the first rows, because some models produce loops from the start.
    - `most`: share of responses that repeat themselves, 0 to 1, above which the severity is error if the reward has not
      improved.

    ## Why it matters
    A loop fills the response up to the length limit, so it costs the most tokens and contains no answer. Loops spread
    quickly, because each repeated token makes the next more likely.

    ## Example
    ```text
    repetition_rate: 0.02x20 0.3x10
    ```
    Warning at step 21: 30% of the responses end in a loop of repeated text (2% at the start).

    ```text
    repetition_rate: 0.02x20 0.1x10
    ```
    No finding.

    ## Known false alarms
    The correct answer may be a list or a table. A trainer may define repetition differently.

    ## Remedy
    Give loops the lowest reward. Check that EOS is inside the loss mask and that the reward does not favour length.
    Roll back to a checkpoint from before the rise in repetition.

    ## Sources
    slime, `repetition_frac`; SkyRL-Agent, `stuck_in_a_loop_ratio`. rlprobe 0.1, pathology `repetition_spiral`.
    """
    first, now = baseline(repetition_rate), recent_mean(repetition_rate)
    high = ((now > some) & (now - first >= risen)) | (now > most)
    return fires(
        high,
        "{now:.0%} of the responses end in a loop of repeated text ({first:.0%} at the start).",
        error=high & (now > most) & ~(reward_trend.gained & ~reward_trend.fallen),
        onset=began(high, repetition_rate > some, step),
        now=now,
        first=first,
    )
