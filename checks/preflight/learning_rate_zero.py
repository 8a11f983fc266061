from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG031", severity="warning", confidence="high")
def learning_rate_zero(
    learning_rate: Column = any_of("settings.learning_rate"),
    grouped: Column = any_of("settings.group_baseline", optional=True),
    *,
    least_rate: float = 1e-8,
) -> Fires:
    """The learning rate is 0, or next to it: no weight moves.

    ## What it sees
    A declared learning rate of exactly 0. A warning where a critic is trained too, whose rate is its own, and where the
    rate is not 0 but 1e-8 at most: a hundredth of what TRL, verl and OpenRLHF begin with.

    ## Thresholds
    - `least_rate`: learning rate up to which it is as good as 0.

    ## Why it matters
    Every update is the gradient times 0. The run logs rewards and losses like any other. Adam moves a weight by about
    the learning rate a step: at 1e-8 a thousand steps move a weight of 0.02 by less than a thousandth of itself, which
    weights in bfloat16, whose steps are a 256th, do not even hold.

    ## Known false alarms
    Runs that only measure rollouts, or prepare the critic.

    ## Remedy
    1e-6 (full), 1e-5 (LoRA).

    ## Sources
    Adam's update is proportional to the learning rate: arXiv 1412.6980.
    """
    still = learning_rate == 0
    return fires(
        (learning_rate >= 0) & (learning_rate <= least_rate),
        "The learning rate is {rate:g}: nothing is learnt.",
        hold=(1, 1),
        error=still & ~(grouped == 0),
        rate=learning_rate,
    )
