from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("KL006", severity="critical", explains=("KL002", "ENT006", "ENT011", "RAT007", "GEN004"))
def probe_reference(
    mask: Any,
    render: Any,
    tokenizer: Any,
    logprobs: Any = None,
    reference_logprobs: Any = None,
    model: Any = None,
    prompts: Any = None,
    settings: Any = None,
    *,
    limit: float = 1e-4,
    low_precision: float = 1e-2,
) -> Fires | None:
    """## What the probe does
    The probe checks two properties before any update. First, in the batch of the loss, the ids before the response must
    equal the prompt as it was rendered for the rollout. A loss that uses the raw prompt would score a text that was
    never sampled. Second, policy and reference model must assign canary responses the same log-probabilities. The KL
    must be at most 1e-4 nats per token, or 0.01 with half precision. The KL is estimated as the mean of exp(x) - 1 - x
    over tokens (k3), where x is the log-probability difference. If a `kl_coef` of 0 is declared, the reference model is
    not checked.

    ## What this certifies, and what it does not
    The probe certifies the prompt ids of the loss, and the agreement of policy and reference model at the start. The
    probe assumes that the adapter's model has not been trained with RL yet. The probe also fires for a trained
    checkpoint with the original reference model; such a finding does not indicate a problem.

    ## Thresholds of the probe
    - `limit`: maximum KL (nats per token) at which policy and reference model count as equal.
    - `low_precision`: maximum KL (nats per token) at which policy and reference model count as equal if a module
      computes in half precision.
    """
    craft = probes.crafted_inputs
    _, own, responses = craft.answered(render, tokenizer, model, prompts)
    with probes.model_modes.without_dropout(model):
        batch = craft.batch_of(mask(own, responses))
    strange = sum(craft.row_ids(batch, n)[: len(prompt)] != prompt for n, prompt in enumerate(own))
    between = [craft.row_ids(batch, n)[len(prompt) : len(prompt) + 1] for n, prompt in enumerate(own)]
    strange = strange or sum(b != said[:1] for b, said in zip(between, responses, strict=True))
    if strange:
        hidden = sum(_hidden(batch, n, prompt) for n, prompt in enumerate(own))
        return fires(
            True,
            "In {hidden} of {rows} prompts, the loss masks tokens that the rollout attends to. Padding is detected by "
            "token id, and the prompt contains the padding id."
            if hidden == strange
            else "{strange} of {rows} prompts reach the loss with ids that differ from those in the rollout.",
            strange=strange,
            hidden=hidden,
            rows=len(own),
        )
    if logprobs is None or reference_logprobs is None:
        raise probes.NotApplicable(
            "needs logprobs and reference_logprobs; without them, only the prompt ids were compared (equal in loss and "
            "rollout)"
        )
    if (settings or {}).get("kl_coef") == 0:
        return None
    with probes.model_modes.without_dropout(model), probes.intercept.precision() as precision:
        policy = craft.response_logprobs(logprobs, batch, responses, own)
        try:
            reference = craft.response_logprobs(reference_logprobs, batch, responses, own)
        except probes.from_loss.OtherTokensError:
            return fires(True, "The loss passes different ids to the reference model than to the policy.")
    import torch

    mismatch = craft.k3(torch.cat(policy), torch.cat(reference).to(policy[0]))
    return fires(
        not mismatch <= (limit if precision.half is None else low_precision),
        "Before any update, policy and reference model differ by {mismatch:.3g} nats per token.",
        mismatch=mismatch,
    )


def _hidden(batch: Any, row: int, prompt: list[int]) -> bool:
    """Return whether a row contains the prompt, but masks some of its tokens."""
    ids, real = batch.input_ids[row].tolist(), batch.attention_mask[row].tolist()
    size = len(prompt)
    return any(ids[n : n + size] == prompt and not all(real[n : n + size]) for n in range(len(ids) - size + 1))
