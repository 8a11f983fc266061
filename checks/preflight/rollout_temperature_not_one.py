from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG024", severity="info", confidence="low")
def rollout_temperature_not_one(
    temperature: Column = any_of("settings.temperature"),
    *,
    cold: float = 0.6,
    hot: float = 1.5,
) -> Fires:
    """Rollouts are sampled at another temperature than 1: the loss must divide its logits by it too.

    ## What it sees
    A declared temperature other than 1, within the usual range (outside it CFG004 speaks).

    ## Thresholds
    - `cold`: sampling temperature below which it is left to CFG004.
    - `hot`: sampling temperature above which it is left to CFG004.

    ## Why it matters
    Log-probabilities of the loss are those of the sampler only where both divide the logits by the same temperature.
    TRL and verl do so today; older versions did not, and vLLM returned raw log-probabilities for a time.

    ## Known false alarms
    Every trainer that applies the temperature in the loss; this is a reminder. RAT004 sees the difference in a log.

    ## Remedy
    Temperature 1.0, or a look at RAT004 in the first steps.

    ## Sources
    huggingface/trl#4159; huggingface/trl PR 3029; NVIDIA-NeMo/RL PR 935; modelscope/ms-swift PR 8427.
    """
    return fires(
        (temperature != 1) & (temperature >= cold) & (temperature <= hot),
        "Rollouts are sampled at temperature {temperature:.3g}: the loss must use the same.",
        hold=(1, 1),
        temperature=temperature,
    )
