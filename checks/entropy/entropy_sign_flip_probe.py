from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe(
    "ENT006",
    kind="defect",
    severity="critical",
    explains=("ENT001", "ENT002", "ENT004", "ENT005", "ENT007", "DIV001", "RAT007", "GRD006"),
    withholds={"entropy-bonus": "the bonus lowers entropy, so a larger coefficient does more harm"},
)
def entropy_sign_flip_probe(
    backward: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    prompts: Any = None,
    reference: Any = None,
    settings: Any = None,
    *,
    least_cosine: float = 0.5,
    alone: float = 0.8,
) -> Fires | None:
    """The entropy bonus lowers entropy: its gradient has the wrong sign or covers the wrong tokens.

    ## What it sees
    The probe uses the gradient that the trainer passes to the optimizer, after any gradient surgery. With advantages of
    zero, only the entropy term remains. The probe also uses the part of the gradient that does not change sign with the
    advantages. To cover every branch of the loss, each sample is tested alone and together with all samples. The
    descent direction must align with the gradient of the mean token entropy of the responses. The cosine with the
    entropy gradient must be at least 0.5, and at least 0.8 for a single sample. A correct sign gives 1, and a flipped
    sign gives -1. To remove the KL term, the probe copies the weights of the policy into the reference model.

    ## Thresholds
    - `least_cosine`: minimum cosine of the descent direction with the entropy gradient, for all samples together.
    - `alone`: minimum cosine of the descent direction with the entropy gradient, for a single sample.

    ## Why it matters
    The log can be correct while the gradient is wrong. In grpo-dual, the printed loss has the correct sign, but the
    applied gradient has the wrong sign. The coefficient in grpo-dual was raised from 0.2 to 6 although the entropy term
    itself lowered entropy. At coefficients up to 0.1, the records of a single run do not reveal a flipped sign.

    ## Example
    ```python
    from my_trainer import batch, model, prompts, render, scores, tokenizer


    def loss(prompts, responses, advantages):
        ids, attention, mask = batch([render(prompt) for prompt in prompts], responses)
        logprobs, entropy = scores(ids, attention)
        policy = -(advantages[:, None] * logprobs * mask).sum() / mask.sum()
        return policy + 0.05 * (entropy * mask).sum() / mask.sum()
    ```
    Critical: A step on the entropy term alone lowers entropy in 8 of 8 cases (clearest: sample 3 alone, mean gradient
    at opposite advantages). The gradient of the term has a cosine of -1.00 with the entropy gradient.

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
    The probe certifies the direction of the entropy term at the current weights. It covers the branches of the loss
    that its advantages and single samples reach. The probe does not certify that the coefficient has a sensible size
    (ENT008). To test branches that depend on other settings, use a separate adapter.

    ## Known false alarms
    By design, some entropy terms cover only some tokens (selected by quantile or covariance). To skip the probe for a
    partial entropy term, declare a coefficient of 0 in `settings["entropy_coef"]`.

    ## Remedy
    Use `-coef * H` in the loss, or subtract the gradient of H in gradient surgery. Then check whether the size of the
    coefficient is sensible (ENT008).

    ## Sources
    BoBaCai/grpo-dual; faults `flipped-entropy` and `flipped-entropy-gradient` of the engine.
    """
    coefficient = (settings or {}).get("entropy_coef")
    if coefficient == 0:
        raise probes.NotApplicable("settings['entropy_coef'] is 0: there is no entropy term")
    cases = list(
        probes.loss_trials.entropy_cases(backward, model, render, tokenizer, prompts, reference, settings or {})
    )
    if not cases:
        raise probes.Unjudged("the gradient at zero advantages is 0: the entropy term is off")
    worst = min(cases, key=lambda case: case.cosine - (least_cosine if case.samples > 1 else alone))
    bad = [case for case in cases if not case.cosine >= (least_cosine if case.samples > 1 else alone)]
    if coefficient is None and not worst.cosine < -0.9:
        if worst.cosine > 0.9:
            return None
        raise probes.Unjudged(
            "declare settings['entropy_coef']: the gradient at zero advantages may come from another term"
        )
    return fires(
        bool(bad),
        "A step on the entropy term alone {does} entropy in {flipped} of {cases} cases (clearest: {where}). The "
        "gradient of the term has a cosine of {cosine:.2f} with the entropy gradient.",
        does="lowers" if worst.cosine < -least_cosine else "does not raise",
        cosine=worst.cosine,
        flipped=len(bad),
        cases=len(cases),
        where=worst.name,
    )
