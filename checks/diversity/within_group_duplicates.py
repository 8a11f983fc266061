from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, recent_mean


@check("DIV001", severity="warning", explains=("ADV003", "ADV012"))
def within_group_duplicates(
    unique_rate: Column,
    reward_mean: Column = None,
    reward_gained: Column = None,
    reward_fallen: Column = None,
    reward_solved: Column = None,
    temperature: Column = None,
    *,
    warn: float = 0.5,
    bad: float = 0.25,
) -> Fires:
    """Most responses are duplicates, and the reward did not gain from it.

    ## What it sees
    Distinct responses by all responses of a step, mean of 5 rows: below 0.5 a warning, below 0.25 an error, on 10 of
    15 rows. While the reward gains or is near its top, nothing is said; without a reward it stays a warning. The
    record counts over the whole step: distinct responses within a group are at least as rare.

    ## Thresholds
    - `warn`: distinct responses by all responses, 0 to 1, below which it is a warning.
    - `bad`: the same share for an error.

    ## Why it matters
    Copies get equal rewards, so their group has no advantage and no gradient, and the rollouts were paid for nothing.

    ## Known false alarms
    A finished small task has 0.18 to 0.25 distinct responses and is healthy. Short answers. Batches with the same
    prompt twice.

    ## Remedy
    Temperature 1 first; then live groups by filtering prompts; then entropy at a target.

    ## Sources
    Healthy runs of the engine (`grpo-doctor run`), which end with few different responses; DAPO (arXiv 2503.14476).
    """
    share = recent_mean(unique_rate)
    better = (reward_gained & ~reward_fallen) | reward_solved
    return fires(
        (share < warn) & ~better,
        "Only {share:.0%} of the responses are distinct.",
        hold=(10, 15),
        error=(share < bad) & ~better & (reward_mean == reward_mean),
        share=share,
        temperature=temperature,
    )
