import functools
from typing import Any

from grpo_doctor import Fires, fires, probe, probes


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
    The probe certifies that the sampler uses the updated weights, including LoRA weights. The probe does not certify
    how soon the sampler receives updated weights. An engine that is refreshed every tenth step passes if `sync`
    refreshes the engine. If a copy of the model generates and the adapter provides neither `sync` nor `step`, the probe
    is skipped.

    ## What the probe does
    The probe changes every trainable weight, calls the adapter's `sync` (or else its `step`), and runs the sampler
    again from the same random state. If the sampler draws exactly the same tokens, it does not use the weights that the
    trainer updates.
    """
    craft = probes.crafted_inputs
    pairs = craft.rendered(render, prompts)
    rows = [ids for _, ids in pairs]
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))
    model.eval()
    before = probes.sampling.sampled(sample, ids, real, model)
    copies = probes.generations.copies_that_generate(lambda: sample(ids, real), model, craft.special_ids(tokenizer).pad)
    if sync is None and step is not None and not isinstance(step, probes.updates.PlainStep):
        responses = craft.canaries(craft.plain_ids(tokenizer, model, rows), [3] * len(rows))
        samples = [p for p, _ in pairs], responses, probes.loss_trials.spread(len(rows), model)
        sync = functools.partial(step, *samples)
    if sync is None and any(c is not reference for c in copies):
        raise probes.Unjudged("a copy of the model generates, and neither sync nor step shows when it receives weights")
    before_copies = [(c, _weights(c)) for c in copies]
    if not _change_until_token_differs(model, ids, real):
        raise probes.Unjudged("the trainable weights do not affect the model's next token")
    if sync is not None:
        sync()
    after = probes.sampling.sampled(sample, ids, real, model)
    share = probes.sampling.agreement(before, after, ids.shape[1])
    stale, held = _stale(model, before_copies)
    if 0 < len(stale) < held:
        return fires(
            True,
            "After the update, {stale} of {held} weights of the sampler still have their old values: {names}.",
            stale=len(stale),
            held=held,
            names=", ".join(stale[:3]) + (" …" if len(stale) > 3 else ""),
        )
    return fires(
        share == 1,
        "Every trainable weight was changed, but the sampler still returns the same tokens, so it uses different "
        "weights.",
        share=share,
    )


def _weights(copy: Any) -> dict[str, Any]:
    return {name: parameter.detach().clone() for name, parameter in copy.named_parameters()}


def _stale(model: Any, copies: Any) -> tuple[list[str], int]:
    """Return the names of trainable weights that are unchanged in the sampler's copies, and the number of trainable
    weights in the copies."""
    trained = dict(probes.loss_trials.trainable(probes.intercept.language_model(model)))
    pairs = [(n, p, before[n]) for c, before in copies for n, p in c.named_parameters() if n in trained]
    return [name for name, now, before in pairs if now.equal(before)], len(pairs)


def _change_until_token_differs(model: Any, ids: Any, real: Any) -> bool:
    """Change every trainable weight until a next token differs; an adapter of a trained model needs larger changes."""
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
