from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("RAT003", severity="error", explains=("RAT001", "RAT007", "GRD006", "ENT006", "ENT011"))
def probe_ratio(
    mask: Any,
    logprobs: Any,
    render: Any,
    tokenizer: Any,
    model: Any,
    prompts: Any = None,
    old_logprobs: Any = None,
    step: Any = None,
    loss: Any = None,
    *,
    limit: float = 1e-2,
    low_precision: float = 5e-2,
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies that the trainer's process uses the same function for scoring at rollout time and at update
    time. GEN004 and RAT004 check the generator's own log-probabilities.

    ## What the probe does
    The probe scores canary responses twice without an update in between. The first pass uses `old_logprobs` if the
    adapter has it, or else `logprobs`. The second pass uses `logprobs`, in the mode in which the trainer's own step
    leaves the model. For a `loss` that is a single function, the probe compares the pass with a gradient and the pass
    that acts as the old policy. The probe also tests whether the clip already acts before any update, for example
    because the old scores use a different temperature. RAT007 reports a clip whose range excludes 1, which stops all
    tokens of one sign. A loss that samples by itself may weight tokens by the log-probabilities of its sampler. With
    such a loss, all tokens of a response must have the same weight, or weights with a constant discount per token. A
    mean |ratio - 1| above 0.01 (0.05 in half precision) is a finding. Severity is **warning** if there is no evidence
    that updates run in train mode, or if dropout in the loss is the reason. If the old scores come from the policy or
    the reference model, the probe changes the policy's weights slightly, and the old scores must also change.

    ## Thresholds of the probe
    - `limit`: mean |ratio - 1| without an update, up to which scoring counts as identical.
    - `low_precision`: mean |ratio - 1| without an update, up to which scoring counts as identical if a module computes
      in half precision.
    """
    made, own, responses = probes.crafted_inputs.answered(render, tokenizer, model, prompts)
    mode = _mode_of_update(model, step, loss, made, responses)
    composite = old_logprobs is None and probes.from_loss.derived(logprobs)
    if composite:  # before the search for old scores, because a sampler's scores need no separate forward pass
        inputs = loss, model, render, tokenizer, prompts
        if (found := _stopped(*inputs) or _uneven(*inputs)) is not None:
            return found

    def off_one() -> tuple[float, bool]:
        """Return the mean |ratio - 1|, and whether it is larger than the precision explains."""
        with probes.intercept.precision() as precision:
            if composite:
                model.train(mode is not False)
                old, new = _of_forwards(mask, logprobs, own, responses)
            else:
                old, new = _of_seams(mask, old_logprobs or logprobs, logprobs, own, responses, model, mode is not False)
        ratio = float(sum((n - o).exp().sub(1).abs().mean() for o, n in zip(old, new, strict=True))) / len(own)
        return ratio, not ratio <= (limit if precision.half is None else low_precision)

    ratio, off = off_one()
    if off:
        with probes.model_modes.without_dropout(model):
            drops = not off_one()[1]
        return _not_one(ratio, drops, mode is not None)
    if not composite or not probes.from_loss.old_is_own(logprobs):
        return None
    probes.loss_trials.move(model)  # at first, the reference equals the policy and may serve as the old policy
    ratio, off = off_one()
    return fires(
        off,
        "The old log-probabilities do not follow the policy. After a small change to the policy's weights, the ratio "
        "differs from 1 by {ratio:.3g} on average before any update. The old log-probabilities come from the reference "
        "or from the initial weights.",
        error=True,
        ratio=ratio,
    )


FAR = 0.5
"""Log-ratio by which the probe changes the sampler's log-probability of a token."""

Rows = list[list[int]]


def _of_forwards(mask: Any, logprobs: Any, prompts: Rows, responses: Rows) -> tuple[list[Any], list[Any]]:
    """Return the old and new log-probabilities of a loss that is one function, from its own forward passes."""
    batch = probes.crafted_inputs.batch_of(mask(prompts, responses))
    old = probes.from_loss.of_old(logprobs)
    new = logprobs(batch.input_ids, batch.attention_mask)
    one, other = (
        probes.crafted_inputs.response_logprobs(lambda *_, t=t: t, batch, responses, prompts) for t in (old, new)
    )
    return one, other


def _of_seams(
    mask: Any, old: Any, new: Any, prompts: Rows, responses: Rows, model: Any, training: bool
) -> tuple[list[Any], list[Any]]:
    """Return the old log-probabilities of one function in eval mode, and the new log-probabilities of another function
    in the mode of an update."""
    found: list[list[Any]] = []
    model.eval()
    for score in (old, new):
        batch = probes.crafted_inputs.batch_of(mask(prompts, responses))
        rows = probes.crafted_inputs.response_logprobs(score, batch, responses, prompts)
        found.append([row.detach() for row in rows])
        model.train(training)
    return found[0], found[1]


def _mode_of_update(model: Any, step: Any, loss: Any, prompts: Any, responses: Any) -> bool | None:
    """Return whether the trainer makes its updates in train mode, or None if unknown."""
    model.eval()
    own = step is not None and not isinstance(step, probes.updates.PlainStep)
    if own:
        with probes.loss_trials.weights_kept(model):
            step(prompts, responses, probes.loss_trials.spread(len(prompts), model))
    elif loss is not None:
        with probes.intercept.ending_at_logits():
            loss(prompts, responses, probes.loss_trials.spread(len(prompts), model))
    return True if model.training else (False if own else None)


def _not_one(ratio: float, drops: bool, mode_is_known: bool) -> Fires:
    return fires(
        True,
        "Before any update, the ratio differs from 1 by {ratio:.3g} on average"
        + (": dropout is on in the forward pass of the loss." if drops else "."),
        warning=True,
        error=mode_is_known and not drops,
        ratio=ratio,
    )


def _stopped(loss: Any, model: Any, render: Any, tokenizer: Any, prompts: Any) -> Fires | None:
    """Fire if a negative advantage lowers tokens that a positive advantage does not raise. Only a ratio beyond the clip
    bound explains a token that moves in one direction only. In samples with tokens that move in both directions, tokens
    that are raised but not lowered also count."""
    push = probes.gradient_effect
    made, responses = push.four(render, tokenizer, model, prompts, push.LONGER)
    up, down = ([s * sign for s in push.SIGNS] for sign in (1.0, -1.0))
    one, other = (push.pushes(loss, model, made, responses, signs=signs) for signs in (up, down))
    stopped = tokens = 0
    pairs = [(one[n], other[n]) if sign > 0 else (other[n], one[n]) for n, sign in enumerate(push.SIGNS)]
    if any(all(_shut(p[k]) and _even(p[1 - k]) for p in pairs) for k in (0, 1)):
        return None  # the ratio is 1 everywhere and outside the clip range, which RAT007 reports
    for raised, lowered in ((p.trained, q.trained) for p, q in pairs):
        tokens += len(raised)
        stopped += int((lowered & ~raised).sum())
        stopped += int((raised & ~lowered).sum()) if bool((raised & lowered).any()) else 0
    if not stopped:
        return None
    return fires(
        True,
        "Before the first update, the clip removes the gradient of {stopped} of {tokens} tokens, so their ratio is not "
        "1.",
        error=True,
        stopped=stopped,
        tokens=tokens,
    )


def _uneven(loss: Any, model: Any, render: Any, tokenizer: Any, prompts: Any) -> Fires | None:
    """Fire if the sampler's log-probabilities give the tokens of one response different weights before any update,
    other than by a discount."""
    push = probes.gradient_effect
    made, responses = push.four(render, tokenizer, model, prompts, push.LONGER)
    with probes.intercept.precision() as precision:
        found = push.sampler_weights(loss, model, made, responses, FAR)
    apart = 1.1 if precision.half is None else 2.0
    for weight in found[0] if found is not None else ():
        size = weight[weight != 0].abs()
        if len(size) < 3:
            continue
        steps = size[1:] / size[:-1]
        if float(size.max() / size.min()) > apart and float(steps.max() / steps.min()) > apart:
            return fires(
                True,
                "Before any update, the tokens of one response have importance weights that differ by a factor of "
                "{factor:.2g}. Sampler and loss give the same tokens different log-probabilities.",
                error=True,
                factor=float(size.max() / size.min()),
            )
    return None


def _shut(push: Any) -> bool:
    return not bool(push.trained.any())


def _even(push: Any) -> bool:
    """Return whether all tokens of a sample get the same update, except for the effect of the tokens' own
    probabilities."""
    size = push.towards.abs()
    return bool(push.trained.all()) and float(size.max()) < 2 * float(size.min())
