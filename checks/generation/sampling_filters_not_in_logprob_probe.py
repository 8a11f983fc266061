from typing import Any

from grpo_doctor import Fires, fires, probe, probes


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
    The probe certifies that, at the sampler's current settings, the loss accounts for everything that shapes the
    samples. The probe does not identify the filter. To find it, turn off temperature, top-p, top-k, penalties,
    min_new_tokens and clipping one by one. Filters that have no effect on the probe's prompts pass. For a sampling loop
    without log-probabilities, the probe certifies the temperature, and that no filter excludes more than 1% of the
    probability mass. In such a sampling loop, a larger excluded probability is at most a warning, because the loss may
    exclude the same tokens.

    ## What the probe does
    The probe draws one sample in eval mode. The probe compares the log-probabilities that the sampler drew from, after
    all logits processors, with those that the loss computes for the same tokens. If the loss is a single function, the
    probe takes the log-probabilities from its logits and the temperature from its gradient. Severity is warning if the
    KL is above 0.001 nats per token (0.01 in half precision), and error if it is above 0.1. At any precision, severity
    is warning if the sampler's filters exclude more than 1% of the probability mass on average, and error at 10%. A
    filter that excludes a probability m raises every remaining log-probability by -log(1 - m) nats (0.105 at 10%, as
    with a top_p of 0.9). At 10%, the ratio before any update is 0.9, halfway from 1 to PPO's lower clip bound of 0.8.
    The default `top_k=50` of transformers gives at most a warning. This filter excludes far more probability mass on a
    random model than on a trained model. For a custom sampling loop, the probe provides the logits for 64 words. The
    loop must draw all 64 words, at the temperature that the gradient of the loss shows. The probe reads the
    distribution from the arguments of `torch.multinomial`, or counts draws. A `ScriptedSampler` samples from the model
    with the parameters that the engine receives. Responses that contain the padding id are skipped. A random model may
    draw this id, and a loss that detects padding by id masks it.

    ## Thresholds of the probe
    - `limit`: KL between sampler and loss (nats per token) above which the severity is warning.
    - `low_precision`: KL between sampler and loss (nats per token) above which the severity is warning if a module
      computes in half precision.
    - `severe`: KL (nats per token) above which the severity is error. At a KL of 0.1, scores differ by about 0.45 nats
      (the KL estimate is near x² / 2 for a difference x).
    - `shut`: probability of tokens that the sampler excludes and the loss includes, averaged over the steps, above
      which the severity is warning.
    - `filtered`: minimum probability of tokens that the sampler excludes and the loss includes at which the severity is
      error.
    """
    craft = probes.crafted_inputs
    rows = [ids for _, ids in craft.rendered(render, prompts)] * 2
    ids, real = craft.pad_left(rows, craft.special_ids(tokenizer).pad, craft.device_of(model))
    held, precise = probes.model_modes.forced_eval_mode(model), probes.intercept.precision()
    engine = probes.scripted_sampler.real_sampling()
    with held, engine, probes.model_modes.without_dropout(model), precise as precision:
        draws_of = probes.sampling.draws_of(sample, model, ids, real)
        if draws_of.logprobs is None:
            return _of_loop(sample, logprobs, model, tokenizer, rows, shut)
        some, responses = _without_padding(draws_of.tokens, ids.shape[1], tokenizer, model)
        own = _of_loss(logprobs, draws_of.tokens[some], real[some], [rows[n] for n in some], responses)
    theirs = _joined(draws_of.logprobs[some], responses).to(own)
    mismatch = craft.k3(own, theirs)
    exact = precision.half is None
    off = not mismatch <= (limit if exact else low_precision)
    behind = draws_of.shut > shut and mismatch > draws_of.shut**2 / 4  # a loss that excludes the same tokens agrees
    default = behind and draws_of.default and _likelier(own, theirs, exact)
    return fires(
        off or behind,
        "Sampler and loss disagree on the log-probabilities of the sampled tokens by {mismatch:.3g} nats/token"
        + ("; filters exclude {shut:.1%} of the probability" if behind else "")
        + (" (transformers defaults to top_k=50)." if default else "."),
        warning=True,
        error=not default and (not mismatch <= severe or (behind and draws_of.shut >= filtered)),
        mismatch=mismatch,
        shut=draws_of.shut,
    )


def _likelier(own: Any, theirs: Any, exact: bool) -> bool:
    """Return whether every token is more likely under the sampler, as with a filter alone."""
    return float((theirs - own).min()) > -(0.01 if exact else 0.3)


def _without_padding(tokens: Any, width: int, tokenizer: Any, model: Any) -> tuple[list[int], list[list[int]]]:
    """Return the rows and responses without the padding id, or all rows and responses if each response contains it."""
    ends = probes.sampling.end_ids(tokenizer, model)
    said = probes.sampling.finished(tokens, width, ends)
    pad = {probes.crafted_inputs.special_ids(tokenizer).pad} - ends
    some = [n for n, one in enumerate(said) if not pad & set(one)] or list(range(len(said)))
    return some, [said[n] for n in some]


def _of_loop(sample: Any, logprobs: Any, model: Any, tokenizer: Any, rows: Any, shut: float) -> Fires:
    """Judge a sampling loop without log-probabilities by the tokens that it never draws from scripted logits, and by
    its temperature compared with that of the loss."""
    drawn = probes.sampling_filters.measured_temperature(sample, model, tokenizer, rows, 1.0).value
    if not 0.05 < drawn < 20:
        raise probes.Unjudged("the sampler does not sample from its logits; see GEN007")
    scored = probes.from_loss.loss_temperature(logprobs, rows) if probes.from_loss.derived(logprobs) else None
    off = scored is not None and not 0.8 < drawn / scored < 1.25
    mass = probes.sampling_filters.shut_out(sample, model, tokenizer, rows, drawn)
    return fires(
        off or mass > shut,
        "The sampler uses a temperature of {drawn:.2g}, but the loss uses {scored:.2g}."
        if off
        else "The sampler never draws tokens with {mass:.1%} of the probability, but the loss includes these tokens.",
        warning=True,
        error=off,
        drawn=drawn,
        scored=scored,
        mass=mass,
    )


def _joined(table: Any, responses: list[list[int]]) -> Any:
    """Return the values of a table (N, R) at the tokens of each response, concatenated."""
    import torch

    return torch.cat([table[n, : len(r)] for n, r in enumerate(responses)])


def _of_loss(logprobs: Any, tokens: Any, real: Any, rows: Any, responses: list[list[int]]) -> Any:
    """Return the log-probabilities that the loss assigns to the responses in these tokens (N, P + R), concatenated."""
    import torch

    if probes.from_loss.derived(logprobs):
        return torch.cat(probes.from_loss.scored(logprobs, rows, responses))
    ones = torch.zeros_like(tokens[:, real.shape[1] :])
    for n, response in enumerate(responses):
        ones[n, : len(response)] = 1
    with torch.no_grad():
        found = logprobs(tokens, torch.cat([real, ones], 1))[:, -ones.shape[1] :]
    return _joined(found, responses)
