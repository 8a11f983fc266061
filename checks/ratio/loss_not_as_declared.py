from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("RAT011", kind="defect", severity="error")
def loss_not_as_declared(
    settings: Any,
    objective: Any = None,
    loss: Any = None,
    render: Any = None,
    tokenizer: Any = None,
    model: Any = None,
    prompts: Any = None,
    advantages: Any = None,
) -> Fires | None:
    """The computed loss differs from the declared loss.

    ## What it sees
    The probe passes four responses of two lengths to the loss and measures the weight of each token's log-probability.
    The first measurement uses a ratio of 1 for all tokens, and the second changes the ratio of the first token. From
    the weights, the probe derives how the loss averages over tokens, the ratio level (token or sequence), the clip and
    the KL estimator. The probe fires if `loss_type`, `loss_agg_mode` or `importance_sampling_level` declares a
    different form. The probe also fires if the KL term is the k3 estimator with a reversed log-ratio.

    ## Why it matters
    A mean over tokens gives long responses more weight than a mean over responses, and a constant divisor changes the
    size of the step. If the declaration is wrong, comparisons of runs by their declared loss are also wrong. On the
    policy's own samples, the k3 estimator equals the KL in expectation. With the reversed difference, the estimator is
    biased: tokens that the policy prefers get exponentially large weights.

    ## Example
    ```python
    import torch

    settings = {"loss_type": "grpo"}


    def objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy):
        ratio, advantages = (logprobs - old_logprobs).exp(), advantages[:, None]
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -(clipped * mask).sum() / mask.sum()
    ```
    Error: loss_type=grpo declares the aggregation 'sequence mean', but the probe measured 'token mean'.

    ```python
    import torch

    settings = {"loss_type": "grpo"}


    def objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy):
        ratio, advantages = (logprobs - old_logprobs).exp(), advantages[:, None]
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -((clipped * mask).sum(1) / mask.sum(1)).mean()
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the form of the loss on one batch. The probe does not measure the average over micro-batches and
    ranks, because divisions outside the loss are not visible. The probe measures the KL and the entropy bonus only on
    the `objective`. RAT007 judges the clip bounds, and ADV014 judges the normaliser.

    ## Known false alarms
    A trainer may scale its loss outside the function that the adapter provides.

    ## Remedy
    Use the loss that you want to train, or correct the declaration. `grpo-doctor probe` prints the measured formula.

    ## Sources
    arXiv 2402.03300 (GRPO), 2503.20783 (Dr.GRPO), 2503.14476 (DAPO), 2507.18071 (GSPO), 2506.13585 (CISPO); TRL
    `loss_type`, verl `loss_agg_mode`.
    """
    form = probes.loss_form.loss_form(objective, loss, render, tokenizer, model, prompts, advantages, settings)
    wrong = form.contradictions(settings or {})
    always = ". The ratio is 1 in every update of a batch, so a clip has no effect" if form.ratio == "none" else ""
    return fires(
        bool(wrong),
        "{what}.",
        what="; ".join(wrong),
        note=f"The loss is {form.name or 'of an unknown type'}: {form.formula}{always}",
    )
