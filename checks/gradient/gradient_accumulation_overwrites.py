import inspect
from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("GRD006", kind="defect", severity="critical", explains=("ENT007", "STL001"))
def gradient_accumulation_overwrites(
    backward: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    step: Any = None,
    optimizer: Any = None,
    prompts: Any = None,
    settings: Any = None,
    loss: Any = None,
    sync: Any = None,
    *,
    limit: float = 0.999,
    low_precision: float = 0.99,
    slack: float = 0.02,
) -> Fires | None:
    """Gradients of micro-batches do not add up to the full-batch gradient, or the previous gradient is not cleared.

    ## What it sees
    The probe passes four samples of equal length through the trainer's `backward`: as one batch, as two micro-batches
    and as four micro-batches. Samples of unequal length are passed as one batch and as four micro-batches. The
    directions (cosine at least 0.999) and norms (within 2%) of the gradients must match. Severity is warning if only
    the norms differ, because Adam cancels out the norm. Severity is also warning if the gradients match only for
    samples of equal length. In the trainer's own `step`, the gradient that the optimizer receives must not contain the
    previous step's gradient. The gradient may otherwise change between two steps, for example because a critic or
    running statistics were updated. Some losses split their batch into packs of tokens or parts of a fixed size.
    Severity is warning if the weight of a response depends on the other samples in the same part of the batch.

    ## Thresholds
    - `limit`: minimum cosine between the gradients with one and with several micro-batches.
    - `low_precision`: minimum cosine between the gradients if a module computes in half precision.
    - `slack`: relative difference between the gradient norms with one and with several micro-batches above which the
      probe fires.

    ## Why it matters
    `p.grad.copy_(g)` keeps only the gradient of the last micro-batch, so most of every batch is silently discarded. A
    wrong divisor changes the size of the gradient relative to clipping and weight decay. If the loss of each
    micro-batch is divided by its own token count, tokens in micro-batches with short responses have more weight. With
    such a divisor, the gradient depends on the micro-batch size that fits into memory.

    ## Example
    ```python
    from my_trainer import loss, model, optimizer, prompts, render, tokenizer


    def backward(prompts, responses, advantages, micro_batches=1):
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = slice(start, start + size)
            optimizer.zero_grad()
            share = sum(map(len, responses[part])) / sum(map(len, responses))
            (share * loss(prompts[part], responses[part], advantages[part])).backward()
    ```
    Critical: The micro-batch gradient has a cosine of 0.256 with the full-batch gradient and 0.15 times its norm.

    ```python
    from my_trainer import loss, model, optimizer, prompts, render, tokenizer


    def backward(prompts, responses, advantages, micro_batches=1):
        size = len(prompts) // micro_batches
        for start in range(0, len(prompts), size):
            part = slice(start, start + size)
            share = sum(map(len, responses[part])) / sum(map(len, responses))
            (share * loss(prompts[part], responses[part], advantages[part])).backward()
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies accumulation for samples of equal and of unequal length, for these numbers of micro-batches.

    ## Known false alarms
    If the trainer normalises advantages per micro-batch, the gradients also differ; normalise advantages before
    splitting the batch. A token mean over each micro-batch may be intended (TRL's `loss_type="bnpo"`); if so, declare
    `settings["loss_type"] = "bnpo"`.

    ## Remedy
    Divide the loss of each micro-batch by the number of micro-batches, and sum the gradients. Divide token means by the
    token count of the whole batch.

    ## Sources
    grpo-dual 2baccd3 (KL 0.000, one-token answers); fault `overwritten-accumulation` of the engine;
    huggingface/transformers#34191 (token means of unequal micro-batches).
    """
    if step is not None and optimizer is not None and not isinstance(step, probes.updates.PlainStep):
        made, _, responses = probes.crafted_inputs.answered(render, tokenizer, model, prompts)
        kept = _kept(step, sync, optimizer, model, made, responses)
        if kept is not None and kept < limit:
            return fires(
                True,
                "The gradient of a step still contains the previous step's gradient (cosine {cosine:.3f} with the "
                "gradient of the step alone).",
                cosine=kept,
            )
    token_mean_meant = (settings or {}).get("loss_type") == "bnpo"
    found = None
    if "micro_batches" in inspect.signature(backward).parameters:
        lengths = [[4] * 4] if token_mean_meant else [[4] * 4, [2, 7, 3, 6]]
        batches = [probes.loss_trials.equal_prompts(render, tokenizer, model, prompts, some) for some in lengths]
        found = _of_micro_batches(backward, model, batches, limit, low_precision, slack)
    if (found is None or not found.when) and loss is not None and not token_mean_meant:
        found = _of_own_parts(loss, model, *probes.gradient_effect.four(render, tokenizer, model, prompts)) or found
    if found is None:
        raise probes.NotApplicable("backward does not accept micro_batches")
    return found


def _of_micro_batches(
    backward: Any, model: Any, batches: Any, limit: float, low_precision: float, slack: float
) -> Fires:
    """Return a finding if micro-batches give a different gradient than the whole batch. Responses have equal lengths in
    the first batch, and unequal lengths in the other batches."""
    with probes.intercept.precision() as precision:
        cosine, ratio = _split(backward, model, *batches[0], numbers=(2, 4))
    limit = limit if precision.half is None else low_precision
    if not (cosine >= limit and abs(ratio - 1) <= slack):
        return fires(
            True,
            "The micro-batch gradient has a cosine of {cosine:.3f} with the full-batch gradient and {ratio:.2f} "
            f"times its norm{': the divisor is wrong' if cosine >= limit else ''}.",
            warning=cosine >= limit,
            cosine=cosine,
            ratio=ratio,
        )
    for batch in batches[1:]:
        cosine, ratio = _split(backward, model, *batch, numbers=(4,))  # two halves may have equal token counts
    return fires(
        not (cosine >= limit and abs(ratio - 1) <= slack),
        "With responses of unequal length, micro-batches give a different gradient than the full batch (cosine "
        "{cosine:.3f}, {ratio:.2f} times the norm). The loss of every micro-batch is divided by its own token count.",
        warning=True,
        cosine=cosine,
        ratio=ratio,
    )


def _of_own_parts(loss: Any, model: Any, made: Any, responses: Any) -> Fires | None:
    """Return a finding if the loss splits its batch and the weight of a response depends on the other samples in its
    part; None if the loss does not split the batch."""
    push = probes.gradient_effect

    def weight(batch: Any, said: Any) -> float:
        return float(push.pushes(loss, model, batch, said)[0].towards.norm())

    shorter, longer = ([made[0], *[other] * 3] for other in (made[0], made[-1]))
    before, after = (push.structure(loss, [model], batch, responses).together for batch in (shorter, longer))
    if len(before) == len(responses) == len(after) or getattr(loss, "updates", 1) > 1:
        return None  # one part, or separate updates
    if before != after:
        one = weight(shorter, responses)
        times = weight(longer, responses) / one if one else 1.0
        return _unequal(
            times,
            "when longer prompts reduce the samples per forward pass from {before} to {after}",
            before=len(before),
            after=len(after),
        )
    # parts of a fixed size: reorder the samples, so that other samples share the part of the first sample
    orders = [responses[:1] + responses[n:] + responses[1:n] for n in range(1, len(responses))]
    weights = [weight(shorter, said) for said in orders]
    times = max(weights) / min(weights) if min(weights) else 1.0
    return _unequal(times, "when other samples share its forward pass")


def _unequal(times: float, words: str, **evidence: Any) -> Fires:
    return fires(
        abs(times - 1) > 0.05,
        "A response has {weight:.2f} times the weight " + words + ". The loss of every micro-batch is divided by its "
        "own token count.",
        warning=True,
        weight=times,
        **evidence,
    )


def _split(backward: Any, model: Any, made: Any, responses: Any, *, numbers: tuple[int, ...]) -> tuple[float, float]:
    """Return the lowest cosine with the gradient of the whole batch for these numbers of micro-batches, and the ratio
    of norms that is farthest from 1."""
    advantages = probes.loss_trials.torch_of([1.0, -1.0, 0.5, -0.2], model)
    worst, ratio = 1.0, 1.0
    with probes.model_modes.without_dropout(model):
        whole = probes.loss_trials.gradient(model, backward, made, responses, advantages, micro_batches=1)
        if float(whole.norm()) == 0:
            raise probes.Unjudged("the gradient is 0; see STL004")
        for parts in numbers:
            split = probes.loss_trials.gradient(model, backward, made, responses, advantages, micro_batches=parts)
            worst = min(worst, probes.loss_trials.cosine(split, whole))
            length = float(split.norm() / whole.norm())
            ratio = length if abs(length - 1) > abs(ratio - 1) else ratio
    return worst, ratio


def _kept(step: Any, sync: Any, optimizer: Any, model: Any, prompts: Any, responses: Any) -> float | None:
    """Return the cosine between the gradient of a step on fresh state and that of the same step after a step on other
    samples; None if a step has no gradient."""
    import torch

    seen: list[Any] = []

    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    own = [p for _, p in probes.loss_trials.trainable(model) if id(p) in held]  # the others are never reset

    def caught(*args: Any, **kwargs: Any) -> None:
        gradients = (p.grad for p in own)
        seen.append(torch.cat([g.detach().flatten().float() for g in gradients if g is not None] or [torch.zeros(1)]))

    half = len(prompts) // 2
    first, second = (prompts[:half], responses[:half]), (prompts[half:], responses[half:])
    model.zero_grad(set_to_none=True)
    with probes.intercept.replaced(optimizer, "step", caught), probes.model_modes.without_dropout(model):
        for made, said in (second, first, second):
            probes.model_modes.fixed_chance()
            step(made, said, probes.loss_trials.torch_of([1.0, -0.5][: len(made)] * len(made), model)[: len(made)])
            if sync is not None:  # otherwise the next samples would count as stale
                sync()
    if len(seen) != 3 or len({len(g) for g in seen}) > 1 or not all(bool(g.any()) for g in seen):
        return None
    alone, between, after = seen
    added, other = (g - alone * (g @ alone) / (alone @ alone) for g in (after, between))
    if (
        probes.loss_trials.cosine(added, other) < 0.5
    ):  # the added part does not come from the previous step: for example, a critic has learned
        return 1.0
    return probes.loss_trials.cosine(alone, after)
