from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("KL003", severity="error")
def probe_reference_stays(
    model: Any,
    reference_logprobs: Any,
    mask: Any,
    render: Any,
    tokenizer: Any,
    settings: Any = None,
    prompts: Any = None,
) -> Fires | None:
    """## What the probe does
    The probe shifts every trainable weight of the policy slightly and recomputes the log-probabilities of the reference
    model, which must not change. Severity is warning for a KL to the old policy, as in PPO, because that penalty does
    not pull the policy towards a reference model.

    ## What this certifies, and what it does not
    The probe detects a single module that is used for both models, and a LoRA adapter that stays active in the
    reference model. At the first step, no other probe can detect these bugs, because policy and reference model are
    equal. The probe does not certify that the reference model is correct (KL006), or that it is not synchronised later.
    """
    craft = probes.crafted_inputs
    if (settings or {}).get("kl_coef") == 0:
        raise probes.NotApplicable("settings['kl_coef'] is 0: there is no KL term")
    if not probes.loss_trials.trainable(model):
        raise probes.Unjudged("no parameter requires a gradient; see STL004")
    _, own, responses = craft.answered(render, tokenizer, model, prompts)

    def scored() -> dict[int, Any]:
        return _scored(reference_logprobs, craft.batch_of(mask(own, responses)), responses, own)

    with probes.model_modes.without_dropout(model):
        before = scored()
        probes.loss_trials.move(model)
        after = scored()
    both = before.keys() & after.keys()
    if not both:
        raise probes.Unjudged("the forward passes of reference model and old policy cannot be distinguished")
    # if several forward passes may be the reference's, use the pass that changes least
    moved = min(float((after[n] - before[n]).abs().max()) for n in both)
    of_old = (
        not moved < 1e-4
        and probes.from_loss.derived(reference_logprobs)
        and probes.from_loss.is_old(reference_logprobs)
    )
    return fires(
        not moved < 1e-4,
        "The KL is computed against the old policy, so it limits single steps but not the drift over many steps."
        if of_old
        else "The reference model changes with the policy: its log-probabilities move by up to {moved:.3g} nats "
        "when the policy's weights change.",
        warning=of_old,
        error=not of_old,
        moved=moved,
    )


def _scored(reference_logprobs: Any, batch: Any, responses: Any, own: Any) -> dict[int, Any]:
    """Return the reference's log-probabilities of the responses: one tensor for each forward pass that may belong to
    the reference."""
    import torch

    if probes.from_loss.derived(reference_logprobs):
        ways = probes.from_loss.of_reference(reference_logprobs)
    else:
        with torch.no_grad():
            ways = {0: reference_logprobs(batch.input_ids, torch.as_tensor(batch.attention_mask))}
    tables = {n: table.detach().clone() for n, table in ways.items()}
    given = probes.crafted_inputs.response_logprobs
    return {n: torch.cat(given(lambda *_, t=t: t, batch, responses, own)) for n, t in tables.items()}
