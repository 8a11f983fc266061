from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GEN008", kind="defect", severity="warning", explains=("GEN004", "ADV003"))
def logits_processor_lowers_entropy(
    model: Any, render: Any, tokenizer: Any, processors: Any, prompts: Any = None, *, loss: float = 0.1
) -> Fires | None:
    """A logits processor makes the sampled distribution much sharper than the policy.

    ## What it sees
    The probe measures the entropy of the first response token for each of the adapter's prompts, without processors and
    with each processor alone. The probe fires if a processor lowers the mean entropy by more than 0.1 nats and by more
    than a fifth.

    ## Thresholds
    - `loss`: decrease in the entropy of the next token, in nats, above which the probe fires. A single processor must
      cause the decrease.

    ## Why it matters
    The processor, not the policy, makes the responses similar, and the loss does not account for the processor.

    ## Example
    ```python
    from my_trainer import model, prompts, render, tokenizer


    def only_best(tokens, logits):
        return logits.masked_fill(logits < logits.amax(-1, keepdim=True), float("-inf"))


    processors = {"only_best": only_best}
    ```
    Warning: The logits processor only_best lowers the first token's entropy from 3.79 to 0 nats.

    ```python
    from my_trainer import model, prompts, render, tokenizer


    def unchanged(tokens, logits):
        return logits


    processors = {"unchanged": unchanged}
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the first token of a response, with each processor alone. The probe does not cover processors
    that act later (repetition, minimum length) or only in combination; GEN004 compares the complete distribution.

    ## Known false alarms
    Some processors, such as a grammar, restrict the output by design.

    ## Remedy
    Remove the processor, and shape the reward instead.

    ## Sources
    BoBaCai/grpo-dual, deep diagnosis item 9: more than 0.1 nats without a penalty identifies it as the cause.
    """
    import torch

    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))
    with probes.model_modes.forced_eval_mode(model), torch.no_grad():
        logits = probes.intercept.logits_of(model, ids, real)[:, -1].float()

    def entropy(of: Any) -> float:
        table = of.log_softmax(-1)
        return float((table.exp() * -table.clamp(min=-1e4)).sum(-1).mean())

    whole = entropy(logits)
    left = {name: entropy(processor(ids, logits.clone()).float()) for name, processor in processors.items()}
    if not left:
        raise probes.NotApplicable("the adapter names no processors")
    name = min(left, key=lambda n: left[n])
    return fires(
        whole - left[name] > max(loss, 0.2 * whole),
        "The logits processor {name} lowers the first token's entropy from {whole:.3g} to {left:.3g} nats.",
        name=name,
        whole=whole,
        left=left[name],
    )
