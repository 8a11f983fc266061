from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("TOK007", kind="defect", severity="warning", explains=("LEN002", "LEN003"))
def eos_not_expected_at_target_end(
    model: Any, tokenizer: Any, render: Any, supervised: Any, *, least_probability: float = 0.1
) -> Fires | None:
    """The policy gives EOS a low probability at the end of supervised answers.

    ## What it sees
    The probe uses up to 16 supervised pairs of the adapter. The probe measures the policy's probability of an end token
    directly after the last word of the answer. The probe fires if the median is below 0.1.

    ## Thresholds
    - `least_probability`: minimum median probability of an end token after the last word of the answer.

    ## Why it matters
    A policy that has not learned to stop begins RL with responses at the length limit, so the reward function scores
    truncated text.

    ## What this certifies, and what it does not
    The probe certifies that the policy learned to end its answers, on the data of the supervised stage. The probe
    certifies neither that generation stops at the EOS (TOK004) nor that freely generated answers end.

    ## Known false alarms
    A base model before any supervised stage has not learned to stop. Some answers can reasonably continue.

    ## Remedy
    Label the EOS (see TOK003), then repeat the supervised stage.

    ## Sources
    BoBaCai/grpo-dual, deep diagnosis of a policy without entropy.
    """
    import torch

    craft = probes.crafted_inputs
    ends = sorted(probes.sampling.end_ids(tokenizer, model))
    if not ends:
        raise probes.NotApplicable("the tokenizer has no EOS")
    found = []
    with probes.model_modes.forced_eval_mode(model), torch.no_grad():
        for prompt, answer in list(supervised)[:16]:
            ids = craft.flat_ids(render(prompt)) + craft.flat_ids(tokenizer(answer, add_special_tokens=False))
            given = torch.tensor([ids], device=craft.device_of(model))
            last = probes.intercept.logits_of(model, given, torch.ones_like(given))[0, -1].float()
            found.append(float(last.softmax(-1)[ends].sum()))
    median = float(torch.tensor(found).median())
    return fires(
        median < least_probability,
        "The policy gives EOS a probability of {median:.3g} at the end of supervised answers (median of {pairs}).",
        median=median,
        pairs=len(found),
    )
