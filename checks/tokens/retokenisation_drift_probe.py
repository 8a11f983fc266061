from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("TOK005", severity="warning")
def probe_fragile_ids(
    render: Any,
    tokenizer: Any,
    mask: Any = None,
    rollout: Any = None,
    env_mask: Any = None,
    tool_mask: Any = None,
    model: Any = None,
    prompts: Any = None,
    turns: Any = None,
    loss: Any = None,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies that the batch of the loss contains the sampled ids even if decoding and encoding would change
    them. GEN005 reports ids that change for other reasons (a fallback text, a dropped EOS). Word-level tokenizers, in
    which every sequence survives decoding and encoding, are not judged.

    ## What the probe does
    The probe takes a response whose ids change when it is decoded and encoded again (a word in an unusual split). In
    the trainer's batch, the ids must stay the same.

    A multi-turn rollout (`rollout`, `env_mask` or `tool_mask`) may return the whole conversation as ids. Each turn of
    the returned conversation must have been generated from exactly the ids that precede the turn. Some templates do not
    render k turns as a prefix of k + 1 turns: they strip earlier reasoning or drop a role. With such a template, the
    policy generates from a text that differs from the text it is trained on. Severity is **error** if a `loss` receives
    the conversation as one row. Severity is **warning** in three cases: there is no `loss`, the loss makes a separate
    sample of every turn, or only answers with `<think>` change.
    """
    speaks = next((s for s in (env_mask, tool_mask, rollout) if s is not None), None)
    unseen = None
    if speaks is not None and model is not None:
        try:
            drifted = _of_turns(speaks, model, tokenizer, prompts, turns, loss)
            if drifted is not None or mask is None:
                return drifted
        except probes.NotObserved as reason:
            unseen = reason
        except probes.Unjudged:
            pass  # one turn, or the turns cannot be separated
    if mask is None:
        raise unseen or probes.NotApplicable("needs mask, or a multi-turn rollout that returns ids")
    craft = probes.crafted_inputs
    own = [ids for _, ids in craft.rendered(render, prompts)]
    words = craft.plain_ids(tokenizer, model, own)
    fragile = _fragile(tokenizer, words, craft.special_ids(tokenizer).all)
    if fragile is None:
        raise probes.NotApplicable("every sequence that was tried survives decoding and encoding")
    eos = craft.special_ids(tokenizer).eos
    said = fragile if eos is None else [*fragile, eos]
    batch = craft.batch_of(mask(own, [said] * len(own)))
    # a loss may drop the last token
    changed = sum(
        all(craft.response_positions(batch, n, ids, prompt) is None for ids in (said, fragile))
        for n, prompt in enumerate(own)
    )
    if unseen is not None and not changed:
        raise unseen
    return fires(
        changed > 0,
        "{changed} of {rows} responses reach the loss with ids that differ from the sampled ids: the text was "
        "tokenised again.",
        changed=changed,
        rows=len(own),
        sampled=str(said),
    )


_REASONING = ("<think>one</think>two", "<think>three</think>four", "<think>five</think>six")


def _of_turns(speaks: Any, model: Any, tokenizer: Any, prompts: Any, turns: Any, loss: Any) -> Fires | None:
    """Fire if turns are generated after ids that differ from those that precede the turns in the trained
    conversation."""
    plain = probes.multi_turn.four_conversations(speaks, model, tokenizer, prompts, turns)
    elsewhere, lost = sum(s.elsewhere for s in plain), False
    always = bool(elsewhere) and _trained(loss, model, plain)
    if not elsewhere and turns is None:
        try:
            reasoned = probes.multi_turn.four_conversations(speaks, model, tokenizer, prompts, _REASONING)
            elsewhere = sum(s.elsewhere for s in reasoned)
        except probes.NotApplicable:
            pass  # only a tool call is answered
        except probes.Unjudged:
            lost = True
    if not (elsewhere or lost):
        return None
    return fires(
        True,
        "In four scripted conversations, {elsewhere} turns were generated from ids that differ from the returned ids. "
        "A conversation of k turns is not a prefix of the conversation of k + 1 turns."
        if elsewhere
        else "The rollout changes a turn that contains <think>.",
        error=always,
        elsewhere=elsewhere,
    )


def _trained(loss: Any, model: Any, conversations: Any) -> bool:
    """Return whether the loss trains the conversations exactly as the rollout returned them."""
    if loss is None:
        return False
    try:
        probes.multi_turn.of_loss(loss, model, conversations)
    except probes.Unjudged:
        return False
    return True


def _fragile(tokenizer: Any, words: list[int], special: frozenset[int]) -> list[int] | None:
    """Return ids that change when decoded and encoded: two tokens that encode as one, between two stable words."""
    for first in range(min(len(tokenizer), 600)):
        for second in (first, first + 1):
            pair = [words[0], first, second, words[1]]
            if {first, second} & special or second >= len(tokenizer):
                continue
            if list(tokenizer.encode(tokenizer.decode(pair), add_special_tokens=False)) != pair:
                return pair
    return None
