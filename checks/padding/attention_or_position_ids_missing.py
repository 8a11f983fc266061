from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe(
    "PAD004",
    kind="defect",
    severity="critical",
    explains=("RAT003", "RAT004", "RAT007", "KL006", "GEN004", "ENT006", "ENT011"),
)
def attention_or_position_ids_missing(
    render: Any,
    tokenizer: Any,
    mask: Any = None,
    logprobs: Any = None,
    sample: Any = None,
    rollout: Any = None,
    model: Any = None,
    prompts: Any = None,
    *,
    limit: float = 1e-3,
    low_precision: float = 3e-2,
) -> Fires | None:
    """The log-probabilities of a sample depend on the padding of its batch.

    ## What it sees
    The probe scores samples of unequal length twice: together in a padded batch, and each sample alone. The
    log-probability of every response token must be the same within 0.001 nats if every module computed in float32. If a
    module computed in half precision, because of its weights or autocast, the limit is 0.03 plus 1.5% of the largest
    absolute log-probability. The probe disables dropout. In float32, the probe also scores a single sample with the
    loss, if the forward passes of the loss are visible. The log-probabilities from the loss must equal those that the
    model assigns to the same ids without padding. Rows padded to a fixed width have the same wrong positions in every
    batch, so comparing batches would not show the error. The attention mask that `sample` or `rollout` passes to
    `model.generate` must mark exactly the tokens of each prompt. There must be no padding between a prompt and the
    generated tokens.

    ## Thresholds
    - `limit`: largest accepted difference, in nats, between log-probabilities with and without padding in float32.
    - `low_precision`: largest accepted difference, in nats, between log-probabilities with and without padding in half
      precision.

    ## Why it matters
    Without an attention mask, the model attends to padding. With position ids that count padding, every token has a
    wrong position. In both cases, the policy is scored on a text that differs from the generated text, and ratio and
    KL measure the padding.

    ## Example
    ```python
    from my_trainer import model, prompts, render, tokenizer
    from my_trainer import batch as mask


    def logprobs(input_ids, attention_mask):
        logits = model(input_ids).logits[:, :-1]
        return logits.log_softmax(-1).gather(-1, input_ids[:, 1:, None])[:, :, 0]
    ```
    Critical: Log-probabilities change by up to 0.623 nats when the sample is padded in a batch.

    ```python
    from my_trainer import model, prompts, render, tokenizer
    from my_trainer import batch as mask


    def logprobs(input_ids, attention_mask):
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        logits = model(input_ids, attention_mask=attention_mask, position_ids=positions).logits[:, :-1]
        return logits.log_softmax(-1).gather(-1, input_ids[:, 1:, None])[:, :, 0]
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that generation gets the correct mask, and that the log-probabilities of the loss do not depend
    on padding for the probe's prompts. The probe does not certify a separate rollout engine (RAT004 compares engine and
    trainer), packing without padding, or attention limits at long contexts.

    ## Known false alarms
    In half precision, the results of some kernels depend on the shape of the batch; raise `low_precision`. In
    mixture-of-experts models with a capacity limit, log-probabilities depend on the batch by design.

    ## Remedy
    Pass `attention_mask`. With left padding and absolute positions, also pass `position_ids`.

    ## Sources
    huggingface/trl#2708 (attention_mask missing), OpenRLHF#217 (position_ids).
    """
    craft = probes.crafted_inputs
    if model is not None and (sample is not None or rollout is not None):
        pairs, special = craft.rendered(render, prompts, padded=True), craft.special_ids(tokenizer)
        found = _of_generation(sample, rollout, model, pairs, special)
        if bool(found.when):
            return found
    if mask is None or logprobs is None:
        raise probes.NotApplicable("needs mask and logprobs, or a loss")
    _, own, responses = craft.answered(render, tokenizer, model, prompts)
    with probes.model_modes.without_dropout(model), probes.intercept.precision() as precision:
        together = _scored(mask, logprobs, own, responses)
        alone = [_scored(mask, logprobs, [p], [r])[0] for p, r in zip(own, responses, strict=True)]
    difference = max(float((a - b).abs().max()) for a, b in zip(together, alone, strict=True))
    largest = max(float(row.abs().max()) for row in together)
    exact = together[0].dtype.itemsize >= 4 and precision.half is None
    if not difference <= (limit if exact else low_precision * (1 + largest / 2)):
        return fires(
            True,
            "Log-probabilities change by up to {difference:.3g} nats when the sample is padded in a batch.",
            difference=difference,
        )
    if not exact or model is None or not probes.from_loss.derived(logprobs):
        return None
    with probes.model_modes.without_dropout(model):
        difference = max(_from_plain(model, mask, logprobs, p, r) for p, r in zip(own, responses, strict=True))
    return fires(
        difference > limit,
        "The log-probabilities of a single padded sample differ by up to {difference:.3g} nats from those of the "
        "same ids without padding.",
        difference=difference,
    )


def _from_plain(model: Any, mask: Any, logprobs: Any, prompt: list[int], response: list[int]) -> float:
    """Return the largest difference between the log-probabilities of a padded response and those of its ids without
    padding. Return 0 if the loss scores other ids."""
    import torch

    craft = probes.crafted_inputs
    batch = craft.batch_of(mask([prompt], [response]))
    if craft.row_ids(batch, 0) != [*prompt, *response]:
        return 0.0
    found = craft.response_logprobs(logprobs, batch, [response], [prompt])[0].detach()
    ids = torch.tensor([[*prompt, *response]], device=found.device)
    with torch.no_grad():
        table = probes.intercept.logits_of(model, ids, torch.ones_like(ids))[0, -len(response) - 1 : -1]
    plain = table.float().log_softmax(-1).gather(-1, ids[0, -len(response) :, None]).squeeze(-1)
    return float((found - plain).abs().max())


def _scored(mask: Any, logprobs: Any, prompts: list[list[int]], responses: list[list[int]]) -> list[Any]:
    """Return the log-probabilities of each response in one batch."""
    batch = probes.crafted_inputs.batch_of(mask(prompts, responses))
    return [row.detach() for row in probes.crafted_inputs.response_logprobs(logprobs, batch, responses, prompts)]


def _continues_after_padding(rollout: Any, model: Any, pairs: Any, special: Any) -> int:
    """Return the number of prompts for which a sampling loop continues after the padding instead of after the prompt.
    At the padding, the model emits a token that it emits nowhere else. At every other position, the model ends the
    response.
    """
    seen: list[Any] = []
    word = next(n for n in range(len(special.all) + 1) if n not in special.all)
    end = special.eos if special.eos is not None else special.pad

    def say(forward: Any) -> Any:
        seen.append(forward.input_ids)
        said = forward.logits.new_full(forward.logits.shape[:2], end).long()
        if len(seen) == 1:
            real = forward.attention_mask
            real = forward.input_ids != special.pad if real is None else real
            said = said.masked_fill(real[:, -said.shape[1] :] == 0, word)
        return forward.logits.new_full(forward.logits.shape, -1e4).scatter(-1, said[..., None], 1e4)

    with probes.intercept.forwards([model], say):
        rollout([p for p, _ in pairs])
    return int((seen[1][:, -1] == word).sum()) if len(seen) > 1 else 0


def _of_generation(sample: Any, rollout: Any, model: Any, pairs: Any, special: Any) -> Fires:
    """Fire if generation gets a wrong attention mask or right padding."""
    craft = probes.crafted_inputs
    own = [ids for _, ids in pairs]
    ended = [[special.eos if special.eos is not None else special.pad]]
    with probes.generations.scripted_generate(model, ended, special.pad, special.eos) as calls:
        if rollout is not None:
            rollout([p for p, _ in pairs])
        else:
            sample(*craft.pad_left(own, special.pad, craft.device_of(model)))
    given = [
        [int(i) for i, r in zip(ids, real, strict=True) if r]
        for call in calls[:1]
        for ids, real in zip(call.input_ids, call.attention_mask, strict=True)
    ]
    strange = sum(row not in own for row in given)
    behind = sum(int(not real[-1]) for call in calls[:1] if not call.looped for real in call.attention_mask)
    if not strange and rollout is not None and any(c.looped and not c.attention_mask[:, -1].all() for c in calls[:1]):
        behind = _continues_after_padding(rollout, model, pairs, special)
    return fires(
        bool(strange or behind),
        "`generate` receives a wrong attention mask for {strange} of {rows} prompts."
        if strange
        else "{behind} of {rows} prompts are padded on the right, so generation continues after the padding.",
        strange=strange,
        behind=behind,
        rows=len(given),
    )
