from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GEN007", kind="defect", severity="error", explains=("GEN004", "DIV001", "ADV003"))
def temperature_without_effect(
    sample: Any, model: Any, render: Any, tokenizer: Any, settings: Any, prompts: Any = None, *, slack: float = 0.12
) -> Fires | None:
    """The declared temperature does not reach the sampler.

    ## What it sees
    The effective temperature, measured on a scripted model as for GEN006. The illness is a sampler that is greedy, or
    that draws at temperature 1 although another is declared.

    ## Thresholds
    - `slack`: relative error of the measured temperature that is let pass.

    ## Why it matters
    A group of greedy samples holds one answer K times: no reward differs, nothing is learnt. And whoever turns a knob
    that is not wired draws conclusions from noise.

    ## What this certifies, and what it does not
    It certifies that the temperature acts, within 12 %. Other settings of the sampler (top-p, penalties) are judged
    together by GEN004.

    ## Known false alarms
    A schedule that is at temperature 1 just now while `settings` declare its end.

    ## Remedy
    Pass it where sampling happens, and pass `do_sample=True`.

    ## Sources
    BoBaCai/grpo-dual: item 6 of its deep diagnosis compares the largest probability with and without temperature.
    """
    declared = settings.get("temperature")
    if not isinstance(declared, int | float) or declared <= 0:
        raise probes.Unjudged("needs settings['temperature']")
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    measured = probes.sampling_filters.measured_temperature(sample, model, tokenizer, rows, declared)
    greedy = measured == 0 and declared > 0.05
    return fires(
        greedy or (abs(declared - 1) > 2 * slack and abs(measured - 1) < slack),
        "The sampler is greedy, but a temperature of {declared:g} is declared."
        if greedy
        else "The sampler uses a temperature of {measured:.3g}, but {declared:g} is declared.",
        measured=measured,
        declared=declared,
    )
