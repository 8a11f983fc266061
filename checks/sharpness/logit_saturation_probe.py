from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("SHP001", severity="warning")
def probe_sharpness(
    model: Any,
    render: Any,
    tokenizer: Any,
    prompts: Any = None,
    base: Any = None,
    *,
    first_gap: float = 7.0,
    top1: float = 0.99,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies only the first token, which a template may determine, so check more tokens before you draw
    conclusions.

    ## What the probe does
    The probe reads the policy's next token after each of the adapter's prompts, before any update. The probe fires if,
    on average, the gap between the two largest logits is above 7 and the largest probability is above 0.99. The
    adapter's `base` model, if given, shows whether the policy started with saturated logits. RL is not the cause of
    saturation before the first update.

    ## Thresholds of the probe
    - `first_gap`: gap between the two largest logits of the first token above which the probe may fire.
    - `top1`: probability of the most likely first token above which the probe may fire.
    """
    import torch

    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))

    def sharpness(of: Any) -> tuple[float, float]:
        with probes.model_modes.forced_eval_mode(of), torch.no_grad():
            two = probes.intercept.logits_of(of, ids, real)[:, -1].float()
        high = two.topk(2).values
        return float((high[:, 0] - high[:, 1]).mean()), float(two.softmax(-1).amax(-1).mean())

    own_gap, own_top1 = sharpness(model)
    born = "" if base is None else " (base model: gap {:.3g}, top-1 {:.3g})".format(*sharpness(base))
    return fires(
        own_gap > first_gap and own_top1 > top1,
        "Before the first update, the logit gap is {own_gap:.3g} and the top-1 probability is {own_top1:.4f}{born}.",
        own_gap=own_gap,
        own_top1=own_top1,
        born=born,
    )
