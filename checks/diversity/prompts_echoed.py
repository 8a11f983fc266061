from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, began, recent_mean


@check("DIV007", severity="warning", confidence="high", explains=("REW009", "LEN002", "STL001"), explains_from="error")
def prompts_echoed(
    prompt_echo_rate: Column,
    step: Column,
    reward_trend: Trend = None,
    *,
    some: float = 0.2,
    risen: float = 0.1,
    most: float = 0.5,
) -> Fires:
    """Responses repeat their prompt instead of answering it.

    ## What it sees
    The check averages the share of responses that repeat their prompt over the last 5 rows that record this share. The
    share is read from the trainer's log, or counted in rollouts and saved responses. A response counts as repeating its
    prompt if four fifths of its first 600 characters occur word for word in its prompt. Severity is **warning** if the
    share is above 20% and has risen by at least 10 points since the first rows. Severity is **error** if the share is
    above 50% in a run whose reward has not improved.

    ## Thresholds
    - `some`: share of responses that repeat the prompt, 0 to 1, above which the severity is warning.
    - `risen`: minimum rise in the share since the first rows, because some models restate the question from the start.
    - `most`: share of responses that repeat the prompt, 0 to 1, above which the severity is error.

    ## Why it matters
    A copy of the prompt contains no answer. A policy copies its prompt if length or words of the prompt are rewarded,
    or if it is trained on prompt tokens.

    ## Example
    ```text
    prompt_echo_rate: 0x10 0.5x10
    ```
    Warning at step 11: 50% of the responses repeat their prompt (0% at the start).

    ```text
    prompt_echo_rate: 0x10 0.05x10
    ```
    No finding.

    ## Known false alarms
    In copying, editing and formatting tasks, the answer repeats the prompt by design.

    ## Remedy
    Check that prompt tokens are outside the loss mask. Score one copied prompt with the reward function: the copy must
    get the lowest reward.

    ## Sources
    PAD002 tests the usual cause: a policy that is trained on prompt tokens writes prompts.
    """
    first, now = baseline(prompt_echo_rate), recent_mean(prompt_echo_rate)
    copied = (now > some) & (now - first >= risen)
    return fires(
        copied,
        "{now:.0%} of the responses repeat their prompt ({first:.0%} at the start).",
        error=copied & (now > most) & ~(reward_trend.gained & ~reward_trend.fallen),
        onset=began(copied, prompt_echo_rate > some, step),
        now=now,
        first=first,
    )
