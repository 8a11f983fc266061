import itertools
from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("TOK004", kind="defect", severity="error", explains=("LEN002", "LEN003", "LEN006", "PAD005"))
def probe_terminator(
    tokenizer: Any,
    model: Any = None,
    sample: Any = None,
    render: Any = None,
    rollout: Any = None,
    prompts: Any = None,
    settings: Any = None,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies that one terminator stops the sampler. The probe does not certify that the policy emits the
    terminator (TOK007). The probe does not cover stop strings or an inference server with separate settings.

    ## What the probe does
    The turn's terminator is the special token that the chat template writes after an assistant message (or
    `settings["turn_terminator"]`). With a sampler, a scripted model emits the terminator as the first token and a word
    at every later position. The sampler must not continue with words. Without a sampler, the terminator must be in the
    model's `generation_config.eos_token_id`. If a rollout discards the text after the terminator, only time is lost,
    and severity is **warning**.
    """
    craft = probes.crafted_inputs
    special = craft.special_ids(tokenizer)
    terminator = _terminator(tokenizer, settings or {}, special)
    if sample is None or model is None or render is None:
        config = getattr(model, "generation_config", None)
        if config is None:
            raise probes.NotApplicable("needs sample, model and render, or a model with a generation_config")
        known = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        went_on, cut = terminator not in known, False
    else:
        went_on, cut = _goes_on(sample, model, tokenizer, render, prompts, terminator, rollout)
    return fires(
        went_on,
        "Generation does not stop at {token!r} ({terminator}), which ends a turn"
        + ("; the rollout discards the text after it." if cut else " in the chat template."),
        warning=cut,
        error=not cut,
        token=tokenizer.convert_ids_to_tokens(terminator),
        terminator=terminator,
    )


def _terminator(tokenizer: Any, settings: Any, special: Any) -> int:
    if isinstance(settings.get("turn_terminator"), int):
        return int(settings["turn_terminator"])
    if not getattr(tokenizer, "chat_template", None):
        if special.eos is None:
            raise probes.NotApplicable("the tokenizer has neither a chat template nor an EOS")
        return int(special.eos)
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    whole = probes.crafted_inputs.flat_ids(tokenizer.apply_chat_template(turns, tokenize=True))
    open_ = probes.crafted_inputs.flat_ids(
        tokenizer.apply_chat_template(turns[:1], tokenize=True, add_generation_prompt=True)
    )
    closing = [i for i in whole[len(open_) :] if i in special.all]
    if not closing:
        raise probes.Unjudged("the chat template ends a turn without a special token; set settings['turn_terminator']")
    return int(closing[-1])  # the words before the terminator may contain an unknown token


def _goes_on(
    sample: Any, model: Any, tokenizer: Any, render: Any, prompts: Any, terminator: int, rollout: Any
) -> tuple[bool, bool]:
    """Return whether words follow the terminator, and whether the rollout discards them."""
    import torch

    craft = probes.crafted_inputs
    special = craft.special_ids(tokenizer)
    pairs = craft.rendered(render, prompts)
    word = craft.plain_ids(tokenizer, model, [ids for _, ids in pairs])[0]
    ids, real = craft.pad_left([ids for _, ids in pairs], special.pad, craft.device_of(model))
    with torch.no_grad():
        size = probes.intercept.logits_of(model, ids, real).shape[-1]

    def logits(count: int, _: Any) -> Any:
        row = torch.full((size,), -1e4)
        row[word] = 0.0
        row[terminator] = 1e4 if count % 4 == 0 else -1e4
        return row

    with probes.intercept.scripted_logits(model, logits):
        tokens = probes.sampling.sampled(sample, ids, real)[:, ids.shape[1] :].tolist()
    if any(terminator not in row for row in tokens):
        raise probes.Unjudged("the sampler never emitted the terminator")
    # directly after the terminator, because a multi-turn rollout with its own sampling loop has words of later turns
    went_on = any(pair == (terminator, word) for row in tokens for pair in itertools.pairwise(row))
    if not went_on or rollout is None:
        return went_on, False
    with probes.intercept.scripted_logits(model, logits), torch.no_grad():
        found = list(rollout([prompt for prompt, _ in pairs]))
    words = tokenizer.decode([word])
    return True, not any(words in row if isinstance(row, str) else word in craft.flat_ids(row) for row in found)
