from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, latest, moving_min, words


@check(
    "REW016",
    kind="outcome",
    severity="warning",
    confidence="medium",
    explains=("REW015", "STL001"),
    invalidates=("the reward as a measure of success since step {onset}",),
)
def evaluated_text_unlikely(
    eval_perplexity: Column,
    step: Column,
    reward_gained: Column = None,
    reward_first: Column = None,
    reward_now: Column = None,
    *,
    grown_factor: float = 2.0,
    evaluations: int = 3,
) -> Fires:
    """The perplexity of the evaluated text has doubled: the policy no longer writes normal language.

    ## What it sees
    The check fires if each of the last three evaluation perplexities is at least twice the first perplexity. If the
    reward has improved at the same time, the message reports the gain. A rising reward with rising perplexity is the
    pattern of over-optimisation.

    ## Thresholds
    - `grown_factor`: ratio of the perplexity to its first value at or above which the check fires. A ratio of 2 is 0.7
      nats per token.
    - `evaluations`: number of last evaluations that must all reach `grown_factor`.

    ## Why it matters
    A reward model, a classifier or a rule gives high scores to some unnatural texts. The reward cannot show that a text
    is unnatural, and a held-out score from the same reward function rises too. Perplexity is not optimised, so it shows
    the change.

    ## Example
    ```text
    eval_perplexity: 4 8 9 8
    ```
    Warning at step 4: The perplexity of the evaluated text rose from 4 to 8.

    ```text
    eval_perplexity: 4 4.2 4.1 4
    ```
    No finding.

    ## Known false alarms
    The correct answers to a task may be unlikely text, such as proofs in a formal language.

    ## Remedy
    Compare ten responses of the last steps with ten of the first. Use a stronger KL term, or stop at the step at which
    the perplexity starts to rise.

    ## Sources
    Rohanjain2312/grpo-reward-hacking-demo: the reward rises from 0.67 to 0.996, also on held-out prompts, while the
    perplexity rises from 4.5 to 18. With a KL kept at 0.2, the perplexity ends at 6.0. arXiv 2210.10760
    (over-optimisation of a proxy).
    """
    first = baseline(eval_perplexity, 1)
    far = moving_min(eval_perplexity, evaluations) >= grown_factor * first
    return fires(
        far,
        "{what}.",
        hold=(1, 1),
        clear=1,
        what=words(_what, reward_gained, reward_first, reward_now, first, latest(eval_perplexity)),
        first=first,
        now=latest(eval_perplexity),
    )


def _what(rose: bool, reward_first: float, reward_now: float, first: float, now: float) -> str:
    text = f"the perplexity of the evaluated text rose from {number(first)} to {number(now)}"
    if rose > 0:
        return (
            f"The reward rose from {number(reward_first)} to {number(reward_now)}, but {text}: the reward favours "
            "unlikely text"
        )
    return f"T{text[1:]}"
