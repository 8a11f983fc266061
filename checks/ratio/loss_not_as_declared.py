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
    """The loss differs from the one that the settings declare.

    ## What it sees
    The weight that the loss gives to the log-probability of each token of four responses: of two lengths each, at a
    ratio of 1, and with the first token moved. From these follow the average over tokens, the level of the ratio, the
    clip and the KL estimator. It fires where `loss_type`, `loss_agg_mode`, `importance_sampling_level` or
    `kl_estimator` declare another one.

    ## Why it matters
    A mean over tokens weighs long responses more than a mean over responses does, and a constant divisor changes the
    size of the step. Comparing runs by their declared loss then compares something else.

    ## Example
    ```python
    import torch

    settings = {"loss_type": "grpo"}


    def objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy):
        ratio, advantages = (logprobs - old_logprobs).exp(), advantages[:, None]
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -(clipped * mask).sum() / mask.sum()
    ```
    Error: loss_type=grpo declares aggregation 'sequence mean', measured is 'token mean'.

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
    It certifies the form of the loss on one batch. The average over micro-batches and ranks is not measured: divisions
    outside the loss are missing. The KL and the entropy bonus are measured on the `objective` only. Clip bounds are
    judged by RAT007, the normaliser by ADV014.

    ## Known false alarms
    A trainer that scales its loss outside the function that the adapter gives.

    ## Remedy
    Set the loss to what you want to train, or correct the declaration: `grpo-doctor probe` prints the measured formula.

    ## Sources
    arXiv 2402.03300 (GRPO), 2503.20783 (Dr.GRPO), 2503.14476 (DAPO), 2507.18071 (GSPO), 2506.13585 (CISPO); TRL
    `loss_type`, verl `loss_agg_mode`.
    """
    form = probes.loss_form.loss_form(objective, loss, render, tokenizer, model, prompts, advantages, settings)
    wrong = form.contradictions(settings or {})
    return fires(
        bool(wrong),
        "{what}.",
        what="; ".join(wrong),
        note=f"The loss is {form.name or 'of no known name'}: {form.formula}",
    )
