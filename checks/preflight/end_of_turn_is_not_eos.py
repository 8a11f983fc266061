from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG036", severity="warning", confidence="medium", explains=("TOK004",))
def end_of_turn_is_not_eos(
    ends: Column = any_of("settings.turn_ends_with"),
    eos: Column = any_of("settings.eos_token"),
) -> Fires:
    """The chat template ends a turn with another token than the tokenizer's EOS.

    ## What it sees
    A `tokenizer_config.json` whose chat template closes turns with a special token (`<|im_end|>`, `<|eot_id|>`,
    `<end_of_turn>`, `<|end|>`) while `eos_token` is another one that the template does not write.

    ## Why it matters
    A trainer that stops at the tokenizer's EOS alone goes on behind the end of the turn: every response runs to the
    limit, counts as cut, and is trained on to its end.

    ## Known false alarms
    Engines that take several EOS tokens from `generation_config.json`, where the end of the turn is listed.

    ## Remedy
    `eos_token` the token that ends a turn.

    ## Sources
    huggingface/trl PR 7039; QwenLM/Qwen3#927; tokenizer_config.json of Qwen2.5 base models (`<|endoftext|>` beside
    `<|im_end|>`).
    """
    return fires(
        ends == ends,
        "The chat template ends a turn with {ends}, but EOS is {eos}.",
        hold=(1, 1),
        ends=ends,
        eos=eos,
    )
