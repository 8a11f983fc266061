from typing import Any

from grpo_doctor import Fires, any_of, check, fires, probe, probes
from grpo_doctor.series import Column, baseline, isnan, moving_median, previous, where


@check(
    "GEN002",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("RAT004", "RAT005", "KL001", "KL002", "STL001", "REW009", "REW015", "DIV004", "GRD002"),
    withholds={
        "lower-learning-rate": "the rollouts come from stale weights; a lower learning rate only delays the divergence",
        "raise-group-size": "more responses from a stale policy do not help",
    },
    invalidates=("updates since step {onset}: their samples come from an older policy",),
)
def stale_rollout_weights(
    mismatch: Column = any_of("rollout_mismatch_raw_kl", "rollout_gap"),
    rollout_mismatch_kl: Column = None,
    rollout_mismatch_raw_kl: Column = None,
    generation_training_mode: Column = None,
    generation_checkpointing: Column = None,
    *,
    equal: float = 1e-3,
    usual: float = 2e-3,
    bad: float = 1e-2,
    times: float = 3.0,
    rows: int = 10,
) -> Fires:
    """The rollout engine uses stale weights: its mismatch with the trainer grows with every update.

    ## What it sees
    k3 between trainer and rollout engine (raw logits, else final scores) is below 1e-3 on the first row, before any
    update (2e-3, or 0.05 nats of mean difference, where k3 is derived from that). Now it is above 1e-2, and its
    median over 5 rows has tripled within 10 rows or is above 30 times the first limit. Rows generated in train mode
    with checkpointing are skipped (GEN001). Held on 3 of 5 rows.

    ## Thresholds
    - `equal`: k3, nats per token, below which the first row shows equal weights.
    - `usual`: the same where k3 is inferred from a mean difference.
    - `bad`: k3, nats per token, above which the weights differ.
    - `times`: factor by which k3 must have grown.
    - `rows`: rows within which it must have grown.

    ## Why it matters
    Samples from an old policy are scored as if the current one had drawn them. The policy drifts away from its
    samples: the reward stays flat while KL and gradient norm grow.

    ## Known false alarms
    Asynchronous training with a declared lag shows a constant mismatch. Half-precision engines show 1e-3.

    ## Remedy
    Synchronise the weights after every update and verify it with a canary prompt. Merge the adapter before the
    transfer.

    ## Sources
    Fault `stale-rollout-weights` of the engine; NeMo-RL#2631, vllm#29341, trl#5312, verl-omni#552, ms-swift#9855.
    """
    broken_mode = (generation_training_mode == 1) & (generation_checkpointing == 1)
    now = moving_median(abs(mismatch), 5)
    grown = (now > times * previous(now, rows)) | (now > 30 * equal)
    began = baseline(abs(mismatch), 1)
    inferred = isnan(rollout_mismatch_kl) & isnan(rollout_mismatch_raw_kl)
    return fires(
        (began < where(inferred, usual, equal)) & (now > bad) & grown & (abs(mismatch) > bad) & ~broken_mode,
        "Rollout engine and trainer agreed on the first row and now differ by {now:.3g} nats/token, so the rollout "
        "engine uses stale weights.",
        now=now,
        first=began,
    )


@probe(
    "GEN002",
    severity="critical",
    explains=("GEN004", "RAT003", "RAT004", "KL001"),
)
def probe_seams(
    sample: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    prompts: Any = None,
    sync: Any = None,
    step: Any = None,
    reference: Any = None,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe changes every trainable weight, calls the adapter's `sync` if there is one, and samples again from the
    same random state: if every token is the same, the sampler uses different weights than the trainer updates. It
    certifies that the sampler uses the updated weights, LoRA weights included. It does not certify how soon: an
    engine that is refreshed every tenth step passes if `sync` refreshes it. Without `sync`, the trainer's own `step`
    is used. Where a copy of the model generates and neither is provided, nothing is judged.

    ## What the probe does
    Every trainable weight is changed, the adapter's `sync` is called if there is one, else its own `step`, and the
    sampler runs again from the same random state. If it draws exactly the same tokens, it uses different weights.
    """
    craft = probes.crafted_inputs
    pairs = craft.rendered(render, prompts)
    rows = [ids for _, ids in pairs]
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))
    model.eval()
    before = probes.sampling.sampled(sample, ids, real, model)
    copies = probes.generations.copies_that_generate(lambda: sample(ids, real), model, craft.special_ids(tokenizer).pad)
    steps = step is not None and not isinstance(step, probes.updates.PlainStep)
    if sync is None and not steps and any(c is not reference for c in copies):
        raise probes.Unjudged("a copy of the model generates, and neither sync nor step says when it is given weights")
    before_copies = [(c, {n: p.detach().clone() for n, p in c.named_parameters()}) for c in copies]
    if not _moved(model, ids, real):
        raise probes.Unjudged("the trainable weights have no say in the model's next token")
    if sync is not None:
        sync()
    elif steps:
        responses = craft.canaries(craft.plain_ids(tokenizer, model, rows), [3] * len(rows))
        step([p for p, _ in pairs], responses, probes.loss_trials.spread(len(rows), model))
    after = probes.sampling.sampled(sample, ids, real, model)
    share = probes.sampling.agreement(before, after, ids.shape[1])
    stale, held = _stale(model, before_copies)
    if stale and len(stale) < held:
        return fires(
            True,
            "After the update {stale} of {held} weights of the sampler are still the old ones: {names}.",
            stale=len(stale),
            held=held,
            names=", ".join(stale[:3]) + (" …" if len(stale) > 3 else ""),
        )
    return fires(
        share == 1,
        "Every trainable weight was changed, but the sampler still returns the same tokens, so it uses other weights.",
        share=share,
    )


def _stale(model: Any, copies: Any) -> tuple[list[str], int]:
    """The trainable weights that the sampler's copies still hold as they were before, and how many they hold."""
    trained = dict(probes.loss_trials.trainable(probes.intercept.language_model(model)))
    pairs = [(n, p, before[n]) for c, before in copies for n, p in c.named_parameters() if n in trained]
    return [name for name, now, before in pairs if now.equal(before)], len(pairs)


def _moved(model: Any, ids: Any, real: Any) -> bool:
    """Changes every trainable weight until a next token is another one; an adapter of a trained model needs more."""
    import torch

    def likeliest() -> Any:
        return probes.intercept.logits_of(model, ids, real)[:, -1].argmax(-1)

    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        before = likeliest()
        for size in (1, 3, 10, 30):
            for _, parameter in probes.loss_trials.trainable(model):
                spread = float(parameter.float().std()) if parameter.numel() > 1 else 0.0
                noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                parameter.add_(size * noise * max(spread, 0.05))
            if not bool((likeliest() == before).all()):
                return True
    return False
