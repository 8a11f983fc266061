from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GEN006", kind="defect", severity="error", explains=("GEN004", "DIV001", "LEN003"))
def temperature_applied_twice(
    sample: Any, model: Any, render: Any, tokenizer: Any, settings: Any, prompts: Any = None, *, slack: float = 0.12
) -> Fires | None:
    """The temperature is applied twice, so the sampler uses its square.

    ## What it sees
    A scripted model gives six tokens logits that lie half a declared temperature apart; from how often the sampler
    draws each (about 2,000 draws) follows its effective temperature. Within 12 % of the square of the declared one,
    and not of the declared one itself, is the illness.

    ## Thresholds
    - `slack`: relative error of the measured temperature that is let pass.

    ## Why it matters
    At 1.5 the answers fall apart (2.25), at 0.5 groups become copies (0.25), and every reading of the setting in logs
    and papers is wrong. The log-probabilities of the loss, which have the temperature once, no longer fit the samples.

    ## What this certifies, and what it does not
    It certifies the sampler's temperature within 12 %. It does not certify that the loss uses the same (GEN004), and
    says nothing where the declared temperature is 1, whose square is 1.

    ## Known false alarms
    Repetition penalties push the odds of scripted tokens towards each other; switch them off to measure.

    ## Remedy
    One place for the temperature.

    ## Sources
    grpo-dual 29c8fce and dc82e34 (2.0 became 4.0); fault `double-temperature` of the engine.
    """
    declared = settings.get("temperature")
    if not isinstance(declared, int | float) or declared <= 0:
        raise probes.Unjudged("needs settings['temperature']")
    if abs(declared - 1) < 0.1:
        raise probes.Unjudged("the declared temperature is 1, which equals its square")
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    measured = probes.sampling_filters.measured_temperature(sample, model, tokenizer, rows, declared)
    return fires(
        abs(measured / declared**2 - 1) < slack and abs(measured / declared - 1) > slack,
        "The sampler uses a temperature of {measured:.3g}, the square of the declared {declared:g}.",
        measured=measured,
        declared=declared,
    )
