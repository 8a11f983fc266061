from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GEN006", kind="defect", severity="error", explains=("GEN004", "DIV001", "LEN003"))
def temperature_applied_twice(
    sample: Any, model: Any, render: Any, tokenizer: Any, settings: Any, prompts: Any = None, *, slack: float = 0.12
) -> Fires | None:
    """The temperature is applied twice, so the sampler uses its square.

    ## What it sees
    A scripted model gives six tokens equally spaced logits; the spacing is half of the declared temperature. The probe
    estimates the sampler's effective temperature from about 2,000 draws. The probe fires if the effective temperature
    is within 12% of the square of the declared temperature. The effective temperature must not be within 12% of the
    declared temperature itself.

    ## Thresholds
    - `slack`: maximum relative error at which the measured temperature counts as equal to the declared temperature or
      to its square.

    ## Why it matters
    With a setting of 1.5, the sampler uses 2.25, and answers become incoherent. With a setting of 0.5, the sampler uses
    0.25, and the responses of a group become identical. If the temperature is applied twice, logs and papers report the
    wrong temperature. The loss applies the temperature once, so its log-probabilities do not match the samples.

    ## Example
    ```python
    from my_trainer import model, prompts, render, tokenizer

    settings = {"temperature": 2.0}


    def sample(input_ids, attention_mask):
        return model.generate(
            input_ids, attention_mask=attention_mask, do_sample=True, top_k=0, max_new_tokens=16, temperature=2.0,
            logits_processor=[lambda tokens, logits: logits / 2.0],
        )
    ```
    Error: The sampler uses a temperature of 4, the square of the declared 2.

    ```python
    from my_trainer import model, prompts, render, tokenizer

    settings = {"temperature": 2.0}


    def sample(input_ids, attention_mask):
        return model.generate(
            input_ids, attention_mask=attention_mask, do_sample=True, top_k=0, max_new_tokens=16, temperature=2.0
        )
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the sampler's temperature within 12%. The probe does not certify that the loss uses the same
    temperature (GEN004). A declared temperature of 1 is not judged, because its square is also 1.

    ## Known false alarms
    Repetition penalties reduce the differences between the scripted tokens; turn off these penalties before you run the
    probe.

    ## Remedy
    Apply the temperature in only one place.

    ## Sources
    grpo-dual 29c8fce and dc82e34 (2.0 became 4.0); fault `double-temperature` of the engine.
    """
    declared = settings.get("temperature")
    if not isinstance(declared, int | float) or declared <= 0:
        raise probes.NotApplicable("needs settings['temperature']")
    if abs(declared - 1) < 0.1:
        raise probes.NotApplicable("the declared temperature is 1, which equals its square")
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    measured = probes.sampling_filters.measured_temperature(sample, model, tokenizer, rows, declared).value
    return fires(
        abs(measured / declared**2 - 1) < slack and abs(measured / declared - 1) > slack,
        "The sampler uses a temperature of {measured:.3g}, the square of the declared {declared:g}.",
        measured=measured,
        declared=declared,
    )
