from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG023", severity="info", confidence="high")
def clip_higher_idle(
    updates: Column = any_of("settings.updates_per_rollout"),
    high: Column = any_of("settings.epsilon_high"),
    low: Column = any_of("settings.epsilon", optional=True),
    level: Column = any_of("settings.async_level", optional=True),
) -> Fires:
    """The clip bounds do nothing: there is one update a rollout.

    ## What it sees
    An upper clip bound that differs from the lower one, with one update a rollout and no asynchrony declared.

    ## Why it matters
    In the first update after a rollout the policy is the one that wrote the responses: the ratio is 1, nothing is
    clipped, and clip-higher protects no exploration.

    ## Known false alarms
    Engines whose log-probabilities differ from the trainer's and stand in the ratio.

    ## Remedy
    Several updates a rollout, or leave the bounds alone.

    ## Sources
    huggingface/trl#3120; jingyaogong/minimind#775; arXiv 2503.14476.
    """
    return fires(
        (updates <= 1) & (high != low) & ~(level > 0),
        "An upper clip bound of {high:.3g} never acts: with one update a rollout every ratio is 1.",
        hold=(1, 1),
        high=high,
    )
