from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe(
    "PAD002",
    severity="critical",
    explains=("LEN002", "LEN003", "KL001", "ENT006", "ENT011", "GRD006", "GEN004", "RAT007"),
)
def probe_mask(
    mask: Any,
    render: Any,
    tokenizer: Any,
    model: Any = None,
    loss: Any = None,
    reference: Any = None,
    prompts: Any = None,
    rollout: Any = None,
    turns: Any = None,
    settings: Any = None,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies which tokens of a sampled response enter the loss. The probe certifies neither the weights of
    the tokens (length normalisation, advantages) nor masks of other kinds. Masks of other kinds exclude tool results,
    tokens of low entropy (`settings["top_entropy_quantile"]` below 1) or overlong responses by design. GEN005 tests
    whether the loss uses the sampled ids.

    ## What the probe does
    The probe combines prompts of unequal length with canary responses of 1 to 9 tokens, with and without EOS. The probe
    uses batches of one sample and of several samples, in both orders. The mask must mark exactly the response tokens. A
    mask of shape (N, T) refers to the tokens, and a mask of shape (N, T-1) refers to the positions that predict the
    tokens. A narrower mask refers to the last tokens. If the trainer has only a `loss`, the mask is the set of
    positions whose logits get a nonzero gradient. Outside the response, the part of the gradient that comes from the
    advantages, or from a reference model close to the policy, must be zero. The advantages must move the
    log-probability of the next token more than that of any other token. The weight of a response must stay the same if
    the other prompts of its batch are longer; otherwise, severity is **error**. The weight must also stay the same if
    one response becomes longer and the others become shorter by the same number of tokens. If the weight changes, the
    mean counts padding, and severity is **warning**. ENT006 checks other gradients outside the responses if `settings`
    declare an `entropy_coef`. For multi-turn rollouts, the probe passes the result of the rollout to the loss. If the
    environment answers only tool calls, the probe uses the adapter's `turns`. The loss must include exactly the
    generated tokens, and no tokens of a tool or the environment.
    """
    craft = probes.crafted_inputs
    own = [ids for _, ids in craft.rendered(render, prompts)]
    words = craft.plain_ids(tokenizer, model, own)
    count: dict[str, Any] = {"rows": 0, "first": 0, "last": 0, "missed": 0, "extra": 0, "wrong": 0}
    infinite = _of_masks(mask, own, words, craft.special_ids(tokenizer).eos, count)
    whole = loss, model, reference, render, tokenizer, prompts
    _refuse_other_terms(mask, whole, settings or {}, count)
    if infinite and not count["wrong"]:
        return fires(
            True,
            "The gradient of the loss is NaN in {infinite} of the test batches. A response that is only an end token "
            "leaves an empty mask, so the loss divides by 0.",
            infinite=infinite,
        )
    judged = not count["wrong"] and loss is not None and model is not None
    found = _of_whole(mask, whole, rollout, turns, count) if judged else None
    return found or fires(
        count["wrong"] > 0,
        "In {wrong} of {rows} samples, the loss mask is wrong. The mask excludes {missed} response tokens (first "
        "token: {first}, last token: {last}) and includes {extra} prompt or padding tokens.",
        **count,
    )


def _refuse_other_terms(
    mask: Any, whole: tuple[Any, Any, Any, Any, Any, Any], declared: dict[str, Any], count: dict[str, Any]
) -> None:
    """Raise `Unjudged` if the loss excludes tokens by their entropy, or if another term of the loss trains additional
    tokens."""
    if float(declared.get("top_entropy_quantile") or 1.0) < 1 and count["missed"] and not count["extra"]:
        raise probes.Unjudged(
            "settings['top_entropy_quantile'] excludes tokens by their entropy: probe without this setting"
        )
    if not declared.get("entropy_coef") or not count["extra"] or count["missed"]:
        return
    if probes.from_loss.derived(mask):
        of_loss = dict.fromkeys(count, 0)
        _of_loss(*whole, count=of_loss)
        if not of_loss["extra"]:
            raise probes.Unjudged("another term of the loss trains tokens outside the responses: see ENT006")


def _of_whole(
    mask: Any, whole: tuple[Any, Any, Any, Any, Any, Any], rollout: Any, turns: Any, count: dict[str, Any]
) -> Fires | None:
    """Count the tokens that the gradient of the loss trains; fire if the loss is wrong apart from its mask."""
    loss, model, _, _, tokenizer, prompts = whole
    found = None
    try:
        found = _of_loss(*whole, count=count)
    except probes.Unjudged:
        if probes.from_loss.derived(mask):
            raise  # if the trainer has its own mask, that mask has been judged
    if found is None and not count["wrong"] and isinstance(rollout, probes.from_rollout.RolloutEntryPoints):
        return _of_turns(loss, model, rollout, tokenizer, prompts, turns)
    return found


def _of_masks(mask: Any, own: list[list[int]], words: list[int], eos: int | None, count: dict[str, Any]) -> int:
    """Count the tokens that the masks of canary batches exclude and include, and the batches with a NaN gradient."""
    craft = probes.crafted_inputs
    infinite = 0
    orders = [
        *((own[::direction], lengths, endings) for direction, lengths, endings in craft.ORDERS),
        (own[:1], (9,), 2),
        (own[-1:], (1,), 2),
        ([own[0]] * 2, (4, 1), 1),
    ]
    for rows, lengths, endings in orders:
        limit = None
        for ending in range(endings if eos is not None else 1):
            told = craft.endings(lengths[: len(rows)], eos, limit)[ending]
            responses = craft.canary_responses(words, told, eos)
            try:
                try:
                    batch, responses = probes.generations.put_through(mask, rows, responses, eos)
                except (probes.NotFinite, probes.NotObserved) as error:  # some trainers skip a batch with a NaN loss
                    # a single sample may have an advantage of 0 / 0
                    infinite += len(rows) > 1 and isinstance(error, probes.NotFinite)
                    responses = craft.canary_responses(words, [(n + 1, ends) for n, ends in told], eos)
                    batch, responses = probes.generations.put_through(mask, rows, responses, eos)
            except probes.NotFinite:
                continue
            except probes.from_loss.NoGradientError:
                if not told[0][1] or len(rows) == 1:
                    break  # truncated responses are excluded by design, and a single sample may have no gradient
                raise
            except probes.Unjudged:
                if len(rows) == 1:
                    break  # a single sample may have no gradient, because its reward is the mean
                raise
            _compare(batch, rows, responses, eos, count)
            limit = craft.room(batch, rows, responses)  # a fixed width that only truncated responses fill
    return infinite


def _of_loss(
    loss: Any, model: Any, reference: Any, render: Any, tokenizer: Any, prompts: Any, count: dict[str, Any]
) -> Fires | None:
    """Count the tokens that the loss excludes and includes; fire if the loss is shifted or depends on padding."""
    push = probes.gradient_effect
    made, responses = push.four(render, tokenizer, model, prompts)
    found = push.pushes(loss, model, made, responses)
    if not all(bool(p.trained.all()) for p in found):  # the clip may act at one sign only
        opposite = push.pushes(loss, model, made, responses, signs=[-sign for sign in push.SIGNS])
        found = [
            p._replace(trained=p.trained | o.trained, aimed=p.aimed.where(p.trained, o.aimed))
            for p, o in zip(found, opposite, strict=True)
        ]
    found = [p for p in found if bool(p.trained.any())]
    penalised = push.reference_effect(loss, model, reference, made, responses)
    _count(found, [p.outside for p in penalised] or [0] * len(found), count)
    moved = sum(int(p.trained.sum()) for p in found)
    off = moved - sum(int((p.trained & p.aimed).sum()) for p in found)
    if 2 * off > moved:
        return fires(
            True,
            "Log-probabilities and labels are misaligned: at {off} of {moved} trained positions, the target is not "
            "the next token.",
            off=off,
            moved=moved,
        )
    if count["wrong"] or any(float((p.towards * sign).min()) < 0 for p, sign in zip(found, push.SIGNS, strict=False)):
        return None  # the size of an update is meaningless if its sign is wrong: see RAT007
    return _of_penalty(penalised) or _of_padding(loss, model, made, responses)


def _count(found: list[Any], beside: list[int], count: dict[str, Any]) -> None:
    """Add up the response tokens of each sample that get no policy gradient, and the other tokens that get a
    gradient."""
    for p, outside in zip(found, beside, strict=False):
        missed = (~p.trained).tolist()
        count["rows"] += 1
        count["wrong"] += any(missed) or p.outside + outside > 0
        count["missed"] += sum(missed)
        count["extra"] += max(p.outside, outside)
        count["first"] += missed[0]
        count["last"] += missed[-1]


def _of_penalty(penalised: list[Any]) -> Fires | None:
    """Fire if the penalty excludes the first or the last token of every response."""
    exempt = [place for place, at in (("first", 0), ("last", -1)) if _left_out(penalised, at)]
    if not exempt:
        return None
    return fires(
        True,
        "The KL penalty excludes the {exempt} token of every response, but the policy loss includes it.",
        error=True,
        exempt=exempt[0],
    )


def _left_out(pushes: list[Any], at: int) -> bool:
    """Return whether the loss trains every response, but never the token at this position."""
    return bool(pushes) and all(bool(p.trained.any()) and not bool(p.trained[at]) for p in pushes)


def _of_padding(loss: Any, model: Any, made: Any, responses: Any) -> Fires | None:
    """Fire if the weight of a response depends on the length of the other prompts in its batch.

    Try fewer samples if the response and the longer prompts do not share a forward pass; GRD006 reports that effect.
    """
    push = probes.gradient_effect
    for count in (4, 2):
        shorter, longer = ([made[0], *[other] * (count - 1)] for other in (made[0], made[-1]))
        said, signs = responses[:count], push.SIGNS[:: 4 // count]
        one, two = (push.pushes(loss, model, b, said, signs=signs)[0].towards.norm() for b in (shorter, longer))
        weight = float(two / one) if float(one) else 1.0
        if abs(weight - 1) <= 0.05:
            ends = len({*map(len, responses)}) > 1  # without an EOS, all responses end at the limit
            return _of_width(loss, model, made[0], responses) if ends else None
        one, two = (push.structure(loss, [model], batch, said).together for batch in (shorter, longer))
        if one == two:
            return fires(
                True,
                "The loss gives a response {weight:.2f} times the weight when the other prompts of its batch are "
                "longer: the denominator counts prompt or padding tokens.",
                error=True,
                weight=weight,
            )
    return None


def _of_width(loss: Any, model: Any, prompt: Any, responses: Any) -> Fires | None:
    """Fire if the weight of a response changes when another response is longer and the total length is the same."""
    push = probes.gradient_effect
    words = [i for r in responses for i in r[:-1]]

    def said(lengths: list[int]) -> list[Any]:
        return [[*row, r[-1]] for row, r in zip(probes.crafted_inputs.canaries(words, lengths), responses, strict=True)]

    four = [prompt] * 4
    narrow, wide = said([3, 2, 4, 4]), said([3, 2, 2, 6])
    one, two = (push.pushes(loss, model, four, made)[0].towards.norm() for made in (narrow, wide))
    weight = float(two / one) if float(one) else 1.0
    if not abs(weight - 1) > 0.05:
        return None
    one, two = (push.structure(loss, [model], four, made).together for made in (narrow, wide))
    if one != two:
        return None
    return fires(
        True,
        "The loss gives a response {weight:.2f} times the weight when its batch contains a longer response, although "
        "the number of response tokens is the same. The denominator counts padding.",
        warning=True,
        weight=weight,
    )


def _of_turns(loss: Any, model: Any, rollout: Any, tokenizer: Any, prompts: Any, turns: Any) -> Fires | None:
    """Fire if the loss trains environment text between two turns, or does not train all generated tokens."""
    try:
        said = probes.multi_turn.four_conversations(rollout, model, tokenizer, prompts, turns)
    except probes.Unjudged:
        return None  # one turn, or the turns cannot be separated
    try:
        foreign, missed, _ = probes.multi_turn.of_loss(loss, model, said)
    except probes.Unjudged as reason:  # the mask of one turn has been judged
        return fires(False, "", note=f"PAD002 does not cover conversations with several turns: {reason}.")
    return fires(
        foreign + missed > 0,
        "In multi-turn rollouts, the loss includes {foreign} tokens that the policy did not generate."
        if not missed
        else "In multi-turn rollouts, the loss omits {missed} tokens that the policy generated."
        if not foreign
        else "In multi-turn rollouts, the loss includes {foreign} tokens that the policy did not generate and omits "
        "{missed} tokens that it generated.",
        foreign=foreign,
        missed=missed,
    )


def _compare(
    batch: Any, prompts: list[list[int]], responses: list[list[int]], eos: int | None, count: dict[str, Any]
) -> None:
    marked = probes.crafted_inputs.trained_tokens(batch)
    for n, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if probes.crafted_inputs.left_out(batch, n, response, eos):
            continue  # overlong responses that are filtered by design
        positions = probes.crafted_inputs.response_positions(batch, n, response, prompt)
        if positions is None and count["wrong"]:
            continue
        if positions is None:
            raise probes.Unjudged("the loss batch does not contain the sampled ids; see GEN005")
        trained = set(marked[n].nonzero().flatten().tolist())
        missed, extra = set(positions) - trained, trained - set(positions)
        count["rows"] += 1
        count["wrong"] += bool(missed or extra)
        count["missed"] += len(missed)
        count["extra"] += len(extra)
        count["first"] += positions[0] in missed
        count["last"] += positions[-1] in missed
        if missed or extra:
            ids = batch.input_ids[n].tolist()
            row = {"prompt": prompt, "response": response, "trained": [int(ids[i]) for i in sorted(trained)]}
            count.setdefault("crafted", ", ".join(f"{name} {row[name]}" for name in row))
