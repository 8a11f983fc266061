from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GEN001", severity="critical", explains=("GEN004", "RAT003"))
def probe_mode(
    sample: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    prompts: Any = None,
    step: Any = None,
    loss: Any = None,
    *,
    limit: float = 0.9,
) -> Fires | None:
    """## What the probe does
    The probe samples twice from the same random state: first in the mode after an update, then in eval mode without
    gradient checkpointing. To set the mode after an update, the probe calls the trainer's own `step` if the adapter has
    one, and `model.train()` otherwise. The probe does not change the model's gradient-checkpointing setting. The probe
    fires if fewer than 90% of the tokens are equal. The probe also fires if dropout is active, because dropout samples
    the text from a distribution other than the policy.

    A trainer that never leaves eval mode generates correctly. Therefore, severity is warning if neither `step` nor
    `loss` shows that the trainer calls `train()`, and the model was not passed in train mode. A sampler that is not
    reproducible with a fixed random seed cannot be judged.

    ## What this certifies, and what it does not
    The probe certifies that generation does not depend on the mode, for prompts and lengths like those of the probe.
    The probe cannot detect a mode that another part of the trainer sets between `step` and `sample`. Therefore, the
    adapter's `sample` must contain everything that the trainer does around generation.

    ## Thresholds of the probe
    - `limit`: share of equal tokens, 0 to 1, below which generation counts as depending on the mode.
    """
    craft = probes.crafted_inputs
    inner = probes.intercept.language_model(model)
    shown = inner.training
    pairs = craft.rendered(render, prompts)
    rows = [ids for _, ids in pairs]
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))
    own = step is not None and not isinstance(step, probes.updates.PlainStep)
    update = step if own else loss
    if update is not None:
        words = craft.plain_ids(tokenizer, model, rows)
        update(
            [p for p, _ in pairs], craft.canaries(words, [3] * len(rows)), probes.loss_trials.spread(len(rows), model)
        )
    shown = own or shown or inner.training
    if not own:
        model.train()
    pad = craft.special_ids(tokenizer).pad
    copies = probes.generations.copies_that_generate(lambda: sample(ids, real), model, pad)
    shown = shown or any(copy.training for copy in copies)
    as_is = probes.sampling.sampled(sample, ids, real, model)
    with probes.model_modes.forced_eval_mode(model, *copies):
        wanted = probes.sampling.sampled(sample, ids, real, model)
        share = probes.sampling.agreement(as_is, wanted, ids.shape[1])
        again = wanted if share == 1 else probes.sampling.sampled(sample, ids, real, model)
    if probes.sampling.agreement(wanted, again, ids.shape[1]) < 1:
        raise probes.Unjudged("the sampler is not reproducible: the same random state gives different tokens")
    first = float((as_is[:, ids.shape[1]] == wanted[:, ids.shape[1]]).float().mean())
    dropout = share < limit and _of_dropout(sample, [model, *copies], ids, real) >= limit
    mode = "In the mode after an update" if shown else "If an update leaves the model in train mode"
    return fires(
        share < limit,
        f"{mode}, responses are sampled with dropout on; call eval() before the rollout."
        if dropout
        else f"{mode}, generation agrees with generation in eval mode on only {{share:.0%}} of the tokens "
        f"({{first:.0%}} of the first tokens).",
        warning=not shown,
        share=share,
        first=first,
    )


def _of_dropout(sample: Any, models: list[Any], ids: Any, real: Any) -> float:
    """Return the share of equal tokens between the model's current mode and eval mode without dropout."""
    with probes.model_modes.without_dropout(*models):
        found = probes.sampling.sampled(sample, ids, real, models[0])
        with probes.model_modes.forced_eval_mode(*models):
            wanted = probes.sampling.sampled(sample, ids, real, models[0])
    return float(probes.sampling.agreement(found, wanted, ids.shape[1]))
