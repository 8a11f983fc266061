from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GEN007", kind="defect", severity="error", explains=("GEN004", "DIV001", "ADV003"))
def temperature_without_effect(
    sample: Any, model: Any, render: Any, tokenizer: Any, settings: Any, prompts: Any = None, *, slack: float = 0.12
) -> Fires | None:
    """The declared temperature does not reach the sampler.

    ## What it sees
    Like GEN006, the probe measures the effective temperature on a scripted model. The probe fires if the sampler is
    greedy, or if its temperature differs from the declared temperature by more than the error of the measurement.
    GEN006 reports a sampler that uses the square of the declared temperature.

    ## Thresholds
    - `slack`: relative difference between the measured and the declared temperature above which the probe fires.

    ## Why it matters
    With greedy sampling, a group contains the same answer K times, so its rewards do not differ and nothing is learned.
    Experiments with a setting that has no effect measure only noise.

    ## Example
    ```python
    from my_trainer import model, prompts, render, tokenizer

    settings = {"temperature": 0.5}


    def sample(input_ids, attention_mask):
        return model.generate(input_ids, attention_mask=attention_mask, do_sample=True, top_k=0, max_new_tokens=16)
    ```
    Error: The sampler uses a temperature of 1, but 0.5 is declared.

    ```python
    from my_trainer import model, prompts, render, tokenizer

    settings = {"temperature": 0.5}


    def sample(input_ids, attention_mask):
        return model.generate(
            input_ids, attention_mask=attention_mask, do_sample=True, top_k=0, max_new_tokens=16, temperature=0.5
        )
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that the sampler applies the declared temperature, within 12%. GEN004 judges the other sampler
    settings (top-p, penalties) together.

    ## Known false alarms
    With a temperature schedule, the temperature may currently be 1 while `settings` declares its final value.

    ## Remedy
    Pass the temperature to the sampling call, together with `do_sample=True`.

    ## Sources
    BoBaCai/grpo-dual: item 6 of its deep diagnosis compares the largest probability with and without temperature.
    """
    declared = settings.get("temperature")
    if not isinstance(declared, int | float) or declared <= 0:
        raise probes.NotApplicable("needs settings['temperature']")
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    measured, error = probes.sampling_filters.measured_temperature(sample, model, tokenizer, rows, declared)
    greedy = measured == 0 and declared > 0.05
    twice = abs(measured / declared**2 - 1) < slack and abs(declared - 1) >= 0.1
    other = not twice and abs(measured - declared) > max(slack * declared, error)
    if other and not greedy and not hasattr(model, "get_output_embeddings"):
        raise probes.Unjudged(
            "the probe replaced the output head of this model, so its later effect on the logits is unknown"
        )
    return fires(
        greedy or other,
        "The sampler is greedy although temperature {declared:g} is declared."
        if greedy
        else "The sampler uses a temperature of {measured:.3g}, but {declared:g} is declared.",
        measured=measured,
        declared=declared,
    )
