from typing import Any

from grpo_doctor import Fires, fires, probe, probes
from grpo_doctor.remedies import remedy


@probe(
    "TOK004",
    severity="error",
    explains=("LEN002", "LEN003", "LEN006", "PAD005"),
    remedies=(
        remedy(
            "stop-at-end-of-turn",
            "Let generation stop at the token that closes a turn",
            by_hand='end = tok.convert_tokens_to_ids("<|eot_id|>")\n'
            "model.generation_config.eos_token_id = [tok.eos_token_id, end]",
            trl='generation_kwargs={"eos_token_id": [128001, 128009]} for Llama 3',
            verl="set eos_token_id in the model's generation_config.json",
            evidence="a turn that does not end runs on into a made-up dialogue",
            source="CATALOGUE TOK004; Llama 3 has {128001, 128009}",
        ),
    ),
)
def eos_set_incomplete(
    tokenizer: Any, model: Any = None, sample: Any = None, render: Any = None, prompts: Any = None, settings: Any = None
) -> Fires | None:
    """Generation does not stop at the token that closes a turn in the chat template.

    ## What it sees
    The turn's terminator is the special token that the chat template writes after an assistant's words (or
    `settings["turn_terminator"]`). With a sampler, a scripted model emits it as its first token and a word ever
    after: the sampler must not go on with words. Without one, the terminator must be in the model's
    `generation_config.eos_token_id`.

    ## Why it matters
    The response then goes on after its end: it is cut at the limit, the reward sees a made-up dialogue, and length
    grows without meaning.

    ## What this certifies, and what it does not
    It certifies that one terminator stops the sampler. It does not certify that the policy emits it (TOK007), nor stop
    strings, nor an inference server with settings of its own.

    ## Known false alarms
    Samplers with `min_new_tokens` above 0 suppress the terminator at first; the probe then emits it again later.

    ## Remedy
    Put every terminator into the generation's EOS set.

    ## Sources
    CATALOGUE TOK004; founding document 003 lists `[128001, 128009]` for Llama 3.
    """
    craft = probes.craft
    special = craft.special_ids(tokenizer)
    terminator = _terminator(tokenizer, settings or {}, special)
    if sample is None or model is None or render is None:
        config = getattr(model, "generation_config", None)
        if config is None:
            raise probes.Unjudged("needs sample, model and render, or a model with a generation_config")
        known = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
        went_on = terminator not in known
    else:
        went_on = _goes_on(sample, model, tokenizer, render, prompts, terminator)
    return fires(
        went_on,
        "Generation does not stop at {token!r} ({terminator}), which closes a turn in the chat template.",
        token=tokenizer.convert_ids_to_tokens(terminator),
        terminator=terminator,
    )


def _terminator(tokenizer: Any, settings: Any, special: Any) -> int:
    if isinstance(settings.get("turn_terminator"), int):
        return int(settings["turn_terminator"])
    if not getattr(tokenizer, "chat_template", None):
        if special.eos is None:
            raise probes.Unjudged("the tokenizer has neither a chat template nor an EOS")
        return int(special.eos)
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    whole = probes.craft.flat_ids(tokenizer.apply_chat_template(turns, tokenize=True))
    open_ = probes.craft.flat_ids(tokenizer.apply_chat_template(turns[:1], tokenize=True, add_generation_prompt=True))
    closing = [i for i in whole[len(open_) :] if i in special.all]
    if not closing:
        raise probes.Unjudged("the chat template closes a turn with no special token; say settings['turn_terminator']")
    return int(closing[-1])  # the words before it may hold an unknown token


def _goes_on(sample: Any, model: Any, tokenizer: Any, render: Any, prompts: Any, terminator: int) -> bool:
    import torch

    craft = probes.craft
    special = craft.special_ids(tokenizer)
    rows = [ids for _, ids in craft.rendered(render, prompts)]
    word = craft.plain_ids(tokenizer, model, rows)[0]
    ids, real = craft.pad_left(rows, special.pad, craft.device_of(model))
    with torch.no_grad():
        size = model(input_ids=ids, attention_mask=real).logits.shape[-1]

    def logits(count: int) -> Any:
        row = torch.full((size,), -1e4)
        row[word] = 0.0
        row[terminator] = 1e4 if count % 4 == 0 else -1e4
        return row

    with craft.scripted_logits(model, logits):
        tokens = craft.sampled(sample, ids, real)[:, ids.shape[1] :]
    for row in tokens.tolist():
        if terminator not in row:
            raise probes.Unjudged("the sampler never emitted the terminator")
        if word in row[row.index(terminator) + 1 :]:
            return True
    return False
