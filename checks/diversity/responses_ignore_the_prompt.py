from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, began, recent_mean


@check(
    "DIV008", severity="warning", confidence="medium", explains=("REW009", "DIV002", "STL001"), explains_from="error"
)
def responses_ignore_the_prompt(
    prompt_recovery: Column,
    step: Column,
    reward_trend: Trend = None,
    *,
    before: float = 0.4,
    left: float = 0.25,
) -> Fires:
    """Responses converge on one template and no longer depend on the prompt.

    ## What it sees
    Prompt recovery is the share of responses whose most similar other response (by shared words) answers the same
    prompt. Prompt recovery is scaled so that 0 is the value for randomly permuted prompts and 1 is perfect recovery.
    The check computes prompt recovery on the first 64 responses of a step if the step has several responses per prompt.
    Severity is **warning** if the mean prompt recovery of the last 5 rows is at most a quarter of that of the first
    rows. The mean prompt recovery of the first rows must be at least 0.4. Severity is **error** if the reward has also
    not improved.

    ## Thresholds
    - `before`: minimum prompt recovery of the first rows, which shows that responses depended on their prompts.
    - `left`: maximum ratio of prompt recovery to its mean on the first rows at which prompt recovery counts as lost.

    ## Why it matters
    Entropy within a prompt can stay high although all prompts get the same reasoning in different words. If responses
    ignore their prompts, the reward measures luck, and neither entropy nor the number of distinct responses shows the
    problem.

    ## Example
    ```text
    prompt_recovery: 0.8x10 0.1x10
    ```
    Error at step 11: Responses no longer depend on their prompt. Prompt recovery (how often the most similar response
    answers the same prompt, corrected for chance) fell from 80% to 10%.

    ```text
    prompt_recovery: 0.8x10 0.6x10
    ```
    No finding.

    ## Known false alarms
    The prompts of a curriculum may become more alike. In tasks with one-word answers, responses to different prompts
    are often equal.

    ## Remedy
    Read the responses to three different prompts. Filter prompts by the spread of their rewards, so that the gradient
    depends on the prompt. Roll back to a checkpoint from before the fall in prompt recovery.

    ## Sources
    RAGEN-2, arXiv 2604.06268 (template collapse: mutual information of prompt and response against a permutation).
    """
    first, now = baseline(prompt_recovery), recent_mean(prompt_recovery)
    alike = (first >= before) & (now <= left * first)
    return fires(
        alike,
        "Responses no longer depend on their prompt. Prompt recovery (how often the most similar response answers the "
        "same prompt, corrected for chance) fell from {first:.0%} to {now:.0%}.",
        error=alike & ~(reward_trend.gained & ~reward_trend.fallen),
        onset=began(alike, prompt_recovery <= left * first, step),
        now=now,
        first=first,
    )
