from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, is_any, words


@check("CFG004", severity="info", explains=("DIV001",))
def rollout_temperature_out_of_range(
    temperature: Column,
    grouped: Column = any_of("settings.group_baseline", optional=True),
    framework: Column = any_of("settings.framework", optional=True),
    actions: Column = any_of("settings.of_actions", optional=True),
    *,
    cold_below: float = 0.6,
    hot_above: float = 1.5,
    frozen_below: float = 0.5,
    icy_below: float = 0.4,
) -> Fires:
    """The rollout temperature is far from the temperature of the trained policy.

    ## What it sees
    Severity is **info** for a sampling temperature below 0.6, and **warning** below 0.4 or above 1.5. Severity stays
    **info** for a model whose tokens are actions, and in a custom training script, whose `generate` call may have
    another purpose. Severity is **error** if the run lowers the temperature below 0.5. CFG014 reports greedy rollouts.

    ## Thresholds
    - `cold_below`: sampling temperature below which the severity is info.
    - `hot_above`: sampling temperature above which the severity is warning.
    - `frozen_below`: sampling temperature below which the severity is error if the temperature was lowered during the
      run.
    - `icy_below`: sampling temperature below which the severity is warning.

    ## Why it matters
    A low temperature makes the responses of a group similar, so their rewards are often equal. A high temperature
    produces noise, which the loss treats as the policy's own output. In both cases, the loss and the sampler compute
    different log-probabilities, unless the loss uses the same temperature.

    ## Example
    ```python
    GRPOConfig(num_generations=8, temperature=0.1)
    ```
    Warning: Rollouts are sampled at temperature 0.1.

    ```python
    GRPOConfig(num_generations=8, temperature=1.0)
    ```
    No finding.

    ## Known false alarms
    For an instruct model with very low entropy, a high temperature may be deliberate. Vision-language-action models are
    sampled at 1.6 and above in the recipes of SimpleVLA-RL, verl and VLA-RL.

    ## Remedy
    Set the temperature to 1.0, and use the same temperature in the loss.

    ## Sources
    TRL, verl and OpenRLHF defaults (1.0); beita6969/colab-grpo; grpo-dual (0.75).
    """
    far = ((temperature < icy_below) & ~((temperature == 0) & (grouped == 1))) | (temperature > hot_above)
    lowered = (temperature < frozen_below) & (temperature < baseline(temperature, 1) - 0.05)
    return fires(
        ((temperature < cold_below) & ~((temperature == 0) & (grouped == 1))) | (temperature > hot_above),
        "Rollouts are sampled at temperature {temperature:.2g}{before}.",
        hold=(1, 1),
        warning=far & ~is_any(framework, "hand-written trainer") & ~(actions == 1),
        error=lowered,
        temperature=temperature,
        start=baseline(temperature, 1),
        before=words(_before, temperature, baseline(temperature, 1)),
    )


def _before(now: float, start: float) -> str:
    return f" (initially {number(start, 2)})" if now != start else ""
