from typing import Any

from grpo_doctor import Fires, check, fires, probe, probes
from grpo_doctor.series import Column


@check(
    "GEN004",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=(
        "RAT004",
        "RAT003",
        "RAT005",
        "DIV004",
        "REW001",
        "REW009",
        "REW015",
        "STL001",
        "LEN002",
        "LEN003",
        "PAD005",
    ),
    invalidates=("importance ratios since step {onset}",),
)
def sampling_filters_not_in_logprob(
    rollout_mismatch_kl: Column,
    rollout_mismatch_raw_kl: Column,
    top_p: Column = None,
    top_k: Column = None,
    temperature: Column = None,
    *,
    differ: float = 1e-3,
    bad: float = 1e-2,
    agree: float = 1e-4,
) -> Fires:
    """Sampling uses filters that the loss does not apply.

    ## What it sees
    The generator's raw logits agree with the trainer (k3 below 1e-4) and its final scores do not: above 1e-3 a
    warning, above 1e-2 an error, on 3 of 5 rows. Between raw logits and scores stand only processors and temperature:
    top-p, top-k, min-p, penalties, a minimum length, a clip, T.

    ## Thresholds
    - `differ`: k3 of the final scores, nats per token, for a warning.
    - `bad`: k3 of the final scores, nats per token, for an error.
    - `agree`: k3 of the raw logits, nats per token, up to which they agree.

    ## Why it matters
    The loss takes log-probabilities of another distribution than the one that drew. A token forced by a mask has a
    log-probability near -15 under the policy, and the gradient follows it.

    ## Known false alarms
    A small penalty did no harm by itself (0.65 and 0.62 against 0.63): hence a note unless the run suffers. top-p of
    0.99 gives about 1e-3.

    ## Remedy
    Neutral sampling parameters, and the same temperature in sampling and loss; or the processed log-probabilities.

    ## Sources
    Faults `penalty-over-prompt` and `double-temperature` of the engine; TRL documentation (temperature in the
    log-probs, processed_logprobs); grpo-dual (T 0.75, top-k 50, top-p 0.9, three penalties, loss on raw logits);
    Schulman et al. 2017 (arXiv 1707.06347), the clip.
    """
    filters = (abs(rollout_mismatch_raw_kl) <= agree) & (rollout_mismatch_kl > differ)
    return fires(
        filters,
        "Raw logits agree, but final scores differ by {scores:.3g} nats/token: the loss does not apply the "
        "sampler's logits processors or temperature.",
        error=filters & (rollout_mismatch_kl > bad),
        scores=rollout_mismatch_kl,
        raw=rollout_mismatch_raw_kl,
        top_p=top_p,
        top_k=top_k,
        temperature=temperature,
    )


@probe("GEN004", severity="warning", explains=("RAT004", "RAT003", "RAT007"))
def probe_seams(
    sample: Any,
    logprobs: Any,
    model: Any,
    render: Any,
    tokenizer: Any,
    prompts: Any = None,
    *,
    limit: float = 1e-3,
    low_precision: float = 1e-2,
    severe: float = 0.1,
    shut: float = 0.01,
    filtered: float = 0.1,
) -> Fires | None:
    """## What this certifies, and what it does not
    It certifies that nothing shapes the samples that the loss does not know, for the settings the sampler has now. It
    does not name the filter (temperature, top-p, top-k, penalty, min_new_tokens, clipping: switch
    them off one by one), and filters that happen not to bind on the probe's prompts pass. Of a sampling loop that
    tells no log-probabilities it certifies the temperature, and that no filter leaves out what has 1 % of the
    probability; that is never more than a warning, for the loss may leave out the same.

    ## What the probe does
    One sample in eval mode: the log-probabilities under which the generator drew its tokens, after every processor,
    against those of the loss for the same tokens. Where the loss is one function, its log-probabilities come from its
    logits, and its temperature from its gradient. k3 above 1e-3 nats a token is a warning (1e-2 in half precision),
    above 0.1 an error. Whatever the precision, so are tokens that are left no chance (top-p, top-k, min-p) though they
    had more than 1 % of the probability on average; from 10 % it is an error. A filter that shuts out a share m makes
    every token that it keeps likelier by -log(1 - m) nats: at 10 %, as a top_p of 0.9 may, by 0.105. So far the ratio
    of the loss is from what was sampled before any update, half of the way to the clip at 1 - 0.2 of PPO. The
    `top_k=50` that transformers uses where nobody says a top_k is never more than a warning: on a small random model it
    cuts far more than on a trained one. A loop by hand is given logits of 64 words, and must
    draw from them all, at the temperature that the gradient of the loss shows: what it hands to `torch.multinomial`
    says so, or else draws are counted. Responses that hold the padding id are left out: a random model draws it, and
    a loss that tells padding by its id hides it.

    ## Thresholds of the probe
    - `limit`: k3, nats per token, above which samples are shaped behind the loss.
    - `low_precision`: the same where a module computed in half precision.
    - `severe`: k3, nats per token, above which it is an error: scores about 0.45 nats apart (k3 is near d² / 2).
    - `shut`: probability, a mean over the steps, above which tokens are shut out behind the loss.
    - `filtered`: the same, from which it is an error.
    """
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)] * 4
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))
    held, precise = probes.model_modes.held_in_eval(model), probes.intercept.precision()
    with held, probes.model_modes.without_dropout(model), precise as precision:
        drawn = probes.sampling.drawn(sample, model, ids, real)
        if drawn.logprobs is None:
            return _of_loop(sample, logprobs, model, tokenizer, rows, shut)
        ends = probes.sampling.end_ids(tokenizer, model)
        said = probes.sampling.finished(drawn.tokens, ids.shape[1], ends)
        pad = {craft.special_ids(tokenizer).pad} - ends
        some = [n for n, one in enumerate(said) if not pad & set(one)] or list(range(len(said)))
        responses = [said[n] for n in some]
        own = _of_loss(logprobs, drawn.tokens[some], real[some], [rows[n] for n in some], responses)
    theirs = _joined(drawn.logprobs[some], responses).to(own)
    mismatch = craft.k3(own, theirs)
    off = not mismatch <= (limit if precision.half is None else low_precision)
    behind = drawn.shut > shut and mismatch > drawn.shut**2 / 4  # a loss that leaves out the same tokens agrees
    # a filter alone makes every token that it keeps likelier
    likelier = float((theirs - own).min()) > -(0.01 if precision.half is None else 0.3)
    default = behind and drawn.default and likelier
    return fires(
        off or behind,
        "Sampler and loss disagree on the log-probabilities of the sampled tokens by {mismatch:.3g} nats/token"
        + ("; filters exclude {shut:.1%} of the probability" if behind else "")
        + (" (transformers defaults to top_k=50)." if default else "."),
        warning=True,
        error=not default and (not mismatch <= severe or (behind and drawn.shut >= filtered)),
        mismatch=mismatch,
        shut=drawn.shut,
    )


def _of_loop(sample: Any, logprobs: Any, model: Any, tokenizer: Any, rows: Any, shut: float) -> Fires:
    """Of a sampling loop that tells no log-probabilities: what it never draws of scripted logits, and its temperature
    beside that of the loss."""
    drawn = probes.sampling_filters.measured_temperature(sample, model, tokenizer, rows, 1.0)
    if not 0.05 < drawn < 20:
        raise probes.Unjudged("the sampler does not sample from its logits; see GEN007")
    scored = probes.from_loss.loss_temperature(logprobs, rows) if probes.from_loss.derived(logprobs) else None
    off = scored is not None and not 0.8 < drawn / scored < 1.25
    mass = probes.sampling_filters.shut_out(sample, model, tokenizer, rows, drawn)
    return fires(
        off or mass > shut,
        "The sampler uses a temperature of {drawn:.2g}, but the loss uses {scored:.2g}."
        if off
        else "The sampler never draws tokens that hold {mass:.1%} of the probability, but the loss includes them.",
        warning=True,
        error=off,
        drawn=drawn,
        scored=scored,
        mass=mass,
    )


def _joined(table: Any, responses: list[list[int]]) -> Any:
    """What a table (N, R) holds of each response, one after the other."""
    import torch

    return torch.cat([table[n, : len(r)] for n, r in enumerate(responses)])


def _of_loss(logprobs: Any, tokens: Any, real: Any, rows: Any, responses: list[list[int]]) -> Any:
    """The log-probabilities that the loss gives to the responses in these tokens (N, P + R), one after the other."""
    import torch

    if probes.from_loss.derived(logprobs):
        return torch.cat(probes.from_loss.scored(logprobs, rows, responses))
    ones = torch.zeros_like(tokens[:, real.shape[1] :])
    for n, response in enumerate(responses):
        ones[n, : len(response)] = 1
    with torch.no_grad():
        found = logprobs(tokens, torch.cat([real, ones], 1))[:, -ones.shape[1] :]
    return _joined(found, responses)
