from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG014", severity="error", confidence="high")
def greedy_rollouts(
    temperature: Column,
    grouped: Column = any_of("settings.group_baseline"),
) -> Fires:
    """Rollouts are greedy, so that the responses to a prompt are all the same and every advantage is 0.

    ## What it sees
    A sampling temperature of exactly 0 with an estimator that takes its baseline from the group.

    ## Why it matters
    Equal responses earn equal rewards; reward less mean is 0 for each of them, and the loss has no gradient.

    ## Known false alarms
    Environments of several turns that answer at random make the responses differ in spite of it.

    ## Remedy
    Temperature 1.0.

    ## Sources
    vLLM `SamplingParams` (0 is greedy); arXiv 2402.03300, equation 3.
    """
    return fires(
        (temperature == 0) & (grouped == 1),
        "Rollouts are greedy (temperature 0): the responses to a prompt are all the same, and every advantage is 0.",
        hold=(1, 1),
        temperature=temperature,
    )
