from contextlib import closing
from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("ENT011", kind="defect", severity="error", explains=("ENT006",))
def entropy_surrogate_without_gradient(
    backward: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    prompts: Any = None,
    reference: Any = None,
    settings: Any = None,
) -> Fires | None:
    """The entropy term does not have the gradient of entropy: it is detached, or uses only sampled log-probabilities.

    ## What it sees
    As in ENT006, the probe sets the advantages to zero. The probe fires if the remaining gradient is that of the mean
    log-probability of the responses (|cosine| above 0.95). The |cosine| with the entropy gradient must be lower by 0.1
    or more. The probe also fires if no gradient remains although `settings["entropy_coef"]` declares a coefficient,
    because the entropy is then detached.

    ## Why it matters
    In on-policy training, the expected gradient of the log-probabilities is zero, so the term adds noise and drift but
    no entropy. The true gradient of entropy is -E[log p · grad log p].

    ## Example
    ```python
    from my_trainer import batch, model, prompts, render, scores, tokenizer


    def loss(prompts, responses, advantages):
        ids, attention, mask = batch([render(prompt) for prompt in prompts], responses)
        logprobs, entropy = scores(ids, attention)
        policy = -(advantages[:, None] * logprobs * mask).sum() / mask.sum()
        return policy - 0.05 * (-logprobs * mask).sum() / mask.sum()
    ```
    Error: The gradient of the entropy term is that of the mean log-probability of the sampled tokens (cosine 1.00), not
    that of the entropy (cosine -0.39).

    ```python
    from my_trainer import batch, model, prompts, render, scores, tokenizer


    def loss(prompts, responses, advantages):
        ids, attention, mask = batch([render(prompt) for prompt in prompts], responses)
        logprobs, entropy = scores(ids, attention)
        policy = -(advantages[:, None] * logprobs * mask).sum() / mask.sum()
        return policy - 0.05 * (entropy * mask).sum() / mask.sum()
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that the entropy term is not the mean log-probability of the sampled tokens. ENT006 tests the
    sign of a correct entropy term.

    ## Known false alarms
    A supervised term on the same responses (imitation alongside RL) has the same gradient; give the probe a loss
    without the supervised term. An entropy bonus inside rewards or advantages has no gradient by design; do not declare
    such a bonus as `entropy_coef`. A k1 penalty to the reference also has the same gradient. If the settings declare an
    `entropy_coef` of 0, KL005 judges the term instead. KL005 also judges the term if there is a reference or a
    `kl_coef` but no declared entropy coefficient.

    ## Remedy
    Compute the entropy from the logits over the full vocabulary, and average it over the response mask.

    ## Sources
    beita6969/colab-grpo, whose author switched the bonus off because "0.01 caused drift".
    """
    coefficient = (settings or {}).get("entropy_coef")
    if coefficient == 0:
        raise probes.NotApplicable("settings['entropy_coef'] is 0: there is no entropy term")
    if coefficient is None and (reference is not None or (settings or {}).get("kl_coef")):
        raise probes.NotApplicable("there is a reference, and settings declare no entropy_coef: see KL005")
    cases = probes.loss_trials.entropy_cases(backward, model, render, tokenizer, prompts, reference, settings or {})
    with closing(cases):
        first = next(cases, None)
    if first is not None and first.name.endswith(probes.loss_trials.OPPOSITE):
        first = None  # a loss that is not odd in the advantages leaves a gradient, even without an entropy term
    if first is None and coefficient:
        return fires(
            True,
            "An entropy coefficient of {coefficient:g} is declared, but no entropy gradient is applied.",
            coefficient=coefficient,
        )
    if first is None:
        raise probes.Unjudged("the gradient at zero advantages is 0: the entropy term is off")
    return fires(
        abs(first.surrogate) > max(0.95, abs(first.cosine) + 0.1),
        "The gradient of the entropy term is that of the mean log-probability of the sampled tokens (cosine "
        "{surrogate:.2f}), not that of the entropy (cosine {cosine:.2f}).",
        cosine=first.cosine,
        surrogate=first.surrogate,
    )
