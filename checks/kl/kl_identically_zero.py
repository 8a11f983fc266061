from typing import Any

from grpo_doctor import Fires, check, fires, probe, probes
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, best, each, isnan, lowest, row, total, where, words


@check("KL003", kind="defect", severity="warning", vital=True)
def kl_identically_zero(
    kl: Column,
    kl_coef: Column = None,
    grad_norm: Column = None,
    reward_gained: Column = None,
    loss: Column = None,
    *,
    zero: float = 1e-8,
    least_rows: int = 5,
    proving_rows: int = 15,
) -> Fires:
    """The logged KL is constant (0 or another value), so it measures nothing.

    ## What it sees
    Five or more recorded values of the KL after the first, every one below 1e-8 in size, or every one the same number
    to more than three digits, in a run that does not declare a KL coefficient of 0. It is an error where the run
    declares a coefficient above 0 and fifteen values are 0; a small KL that prints as 0 grows in time. It is an info
    where the KL is 0 without a declared coefficient, because trainers without a KL term log 0 (unless the loss is
    also 0 on more than fifteen rows), and where the reward has gained. Rows with a gradient norm of exactly 0 are not
    counted: a policy that does not move stays at its reference.

    ## Thresholds
    - `zero`: |KL|, nats per token, below which it counts as 0.
    - `least_rows`: recorded values after the first that must all be 0.
    - `proving_rows`: the same for an error.

    ## Why it matters
    A policy that has been updated differs from its reference. A KL of exactly zero is computed against the policy
    itself, is printed after multiplication by a small coefficient, or is not computed. It can neither constrain the
    policy nor show drift. The same holds for a KL that is identical to the last digit on different samples: no update
    reaches the policy, or the KL is not measured on the samples.

    ## Known false alarms
    The first steps; LoRA before its first update (B is zero); runs whose updates are all skipped; TRL with beta=0
    logs no KL at all.

    ## Remedy
    Compute the KL token by token against a frozen copy of the initial policy (`disable_adapter` with LoRA), and log
    it before the coefficient. Probe KL006 verifies it.

    ## Sources
    beita6969/colab-grpo's log: 0.005 times a squared difference of mean log-probabilities, logged as 0.0000 in 19 of
    19 blocks.
    """
    seen, nothing = row(kl), total(abs(kl) >= zero) == 0
    alike = nothing | ((lowest(kl) == best(kl)) & (each(_rounded, kl) != kl))
    moved = total(~(grad_norm == 0))
    found = (moved > least_rows) & alike & ~(kl_coef == 0)
    idle = (total(loss == loss) > proving_rows) & (best(abs(loss)) < zero)  # where nothing moves either
    return fires(
        found & ~reward_gained & ~(nothing & isnan(kl_coef) & ~idle),
        "All {seen} logged KL values are {value}, so the KL measures nothing and constrains nothing.",
        hold=(1, 1),
        info=found,
        error=found & nothing & (kl_coef > 0) & (moved > proving_rows),
        value=words(_value, where(nothing, 0.0, kl)),
        seen=seen,
    )


def _rounded(kl: float) -> float:
    """Rounded to three digits: a value logged so coarsely may repeat on every row."""
    return round(float(kl), 3)


def _value(kl: float) -> str:
    return f"exactly {number(kl, 6)}" if kl else "0"


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
    """## What this certifies, and what it does not
    The probe shifts every trainable weight of the policy slightly and recomputes the reference's log-probabilities,
    which must not change. It detects a single module used for both, and a LoRA adapter left on for the reference. At
    the first step no other probe can detect this, because policy and reference are equal. It does not certify that
    the reference is correct (KL006), nor references that are intentionally synchronised later. A KL to the old
    policy, whose ratio the loss also uses, is a warning: PPO has such a penalty, but it does not act towards a
    reference.
    """
    craft = probes.crafted_inputs
    if (settings or {}).get("kl_coef") == 0:
        raise probes.NotApplicable("settings['kl_coef'] is 0: there is no KL term")
    if not probes.loss_trials.trainable(model):
        raise probes.Unjudged("no parameter requires a gradient; see STL004")
    own = [ids for _, ids in craft.rendered(render, prompts)]
    words = craft.plain_ids(tokenizer, model, own)
    responses = craft.canaries(words, [5, 3, 6, 4][: len(own)], craft.special_ids(tokenizer).eos)

    def scored() -> dict[int, Any]:
        return _scored(reference_logprobs, craft.batch_of(mask(own, responses)), responses, own)

    with probes.model_modes.without_dropout(model):
        before = scored()
        probes.loss_trials.move(model)
        after = scored()
    both = before.keys() & after.keys()
    if not both:
        raise probes.Unjudged("the reference's forward pass cannot be distinguished from the old policy's")
    # where either may be the reference, it is the one that moves less
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
    """The reference's log-probabilities of the responses, one tensor for each forward that may be the reference's."""
    import torch

    if probes.from_loss.derived(reference_logprobs):
        ways = probes.from_loss.of_reference(reference_logprobs)
    else:
        with torch.no_grad():
            ways = {0: reference_logprobs(batch.input_ids, torch.as_tensor(batch.attention_mask))}
    tables = {n: table.detach().clone() for n, table in ways.items()}
    given = probes.crafted_inputs.response_logprobs
    return {n: torch.cat(given(lambda *_, t=t: t, batch, responses, own)) for n, t in tables.items()}
