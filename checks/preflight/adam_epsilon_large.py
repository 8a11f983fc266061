from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG053", severity="info", confidence="medium", run_types=("rl", "preference"))
def adam_epsilon_large(
    epsilon: Column = any_of("settings.adam_epsilon"),
    *,
    info_from: float = 1e-6,
    warning_from: float = 1e-5,
) -> Fires:
    """Adam's epsilon is larger than most gradients of a policy.

    ## What it sees
    A declared epsilon of Adam: 1e-6 or more is an info, 1e-5 or more is a warning.

    ## Thresholds
    - `info_from`: epsilon from which small gradients are damped.
    - `warning_from`: epsilon from which most steps are damped.

    ## Why it matters
    Adam divides by the root of the second moment plus epsilon. Gradients of one weight are often below 1e-6 in RL, so
    a large epsilon turns Adam into plain SGD with a tiny step: the policy hardly moves at a normal learning rate.

    ## Known false alarms
    Optimizers in which epsilon has another meaning; runs with a learning rate that was tuned for it.

    ## Remedy
    1e-8, the default, or less.

    ## Sources
    arXiv 2510.13786 (ScaleRL uses 1e-15); Kingma and Ba, arXiv 1412.6980.
    """
    return fires(
        epsilon >= info_from,
        "An Adam epsilon of {epsilon:.2g} damps the small gradients of a policy.",
        hold=(1, 1),
        warning=epsilon >= warning_from,
        epsilon=epsilon,
    )
