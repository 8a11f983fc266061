from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("TOK001", severity="error", explains=("TOK003", "PAD005"))
def probe_templates(
    render: Any, render_sft: Any, tokenizer: Any = None, prompts: Any = None, supervised: Any = None
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies the prompt part of both formats, id by id. TOK003 covers the answer (EOS, labels), and TOK004
    covers the end of generation. The probe tests only the given dialogues. If different code renders tools, images or
    very long prompts, add a prompt for each of them to the adapter.

    ## What the probe does
    The probe renders the adapter's prompts for RL and, with an answer, for the supervised stage. By default, there are
    three dialogues: with a system turn, with a line break, and with an earlier answer. The supervised ids must begin
    with the RL ids. Between the RL ids and the answer, there must be no line break and no generation header of the chat
    template. A line break or header that the supervised rendering adds there is missing from the RL prompt. The finding
    reports the first token that differs.
    """
    craft = probes.crafted_inputs
    answers = ["Custom -> Programmer : done", "12", "ok"]
    pairs = [(p, answers[n % 3]) for n, p in enumerate(prompts or craft.PROMPTS)] + list(supervised or ())[:4]
    differing, first = 0, ""
    for prompt, answer in pairs:
        wanted, got = craft.flat_ids(render(prompt)), craft.flat_ids(render_sft(prompt, answer))
        rest = got[len(wanted) :]
        header = _header(tokenizer, prompt)
        if got[: len(wanted)] == wanted and not _line_break(tokenizer, rest, answer) and rest[: len(header)] != header:
            continue
        differing += 1
        at = next((n for n, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got)))
        theirs, ours = (_shown(tokenizer, ids[at : at + 3]) for ids in (got, wanted))
        first = first or f"token {at} is {theirs}, but {ours} in RL"
    return fires(
        differing > 0,
        "The prompt ids of {differing} of {dialogues} dialogues differ between the supervised stage and RL: {first}.",
        differing=differing,
        dialogues=len(pairs),
        first=first,
    )


def _header(tokenizer: Any, prompt: Any) -> list[int | None]:
    """Return the generation header of the tokenizer's chat template. Without a template, return ids that match no
    sequence."""
    if not getattr(tokenizer, "chat_template", None):
        return [None]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    without, with_ = (
        probes.crafted_inputs.flat_ids(
            tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=wanted)
        )
        for wanted in (False, True)
    )
    return list(with_[len(without) :]) or [None]


def _line_break(tokenizer: Any, rest: list[int], answer: str) -> bool:
    """Return whether only line breaks are between the header and the answer."""
    if tokenizer is None:
        return False
    before, found, _ = tokenizer.decode(rest).partition(answer)
    return bool(found) and "\n" in before and before.isspace()


def _shown(tokenizer: Any, ids: list[int]) -> str:
    return repr(tokenizer.decode(ids)) if tokenizer is not None and ids else str(ids)
