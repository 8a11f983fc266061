from typing import Any

from grpo_doctor import Fires, fires, probe, probes

BOUND = 20.0
"""Log-ratio, nats, to which verl clamps before exp; a loss must be finite up to this value."""
FAR = 100.0
"""Log-ratio, nats, at which exp overflows in float32 (above 88.7)."""


@probe("GRD001", severity="error")
def probe_extremes(
    loss: Any, model: Any, render: Any, tokenizer: Any, reference: Any = None, prompts: Any = None
) -> Fires | None:
    """## What this certifies, and what it does not
    The probe certifies in two cases that loss and gradient stay finite, on response tokens and on padding. In the first
    case, policy, old policy and reference model all assign log-probabilities that are lower by 100 nats, so the ratio
    is 1. In the second case, the log-ratios are +20 or -20. Log-ratios of 100, at which exp overflows in float32, are
    tested only on padding, with severity info. Log-ratios on padding are unbounded, and if a mask is applied after exp,
    infinity becomes NaN. Severity is warning if only the test on padding fails. On a sampled token, only a collapsed
    policy reaches log-ratios of 100. The probe does not certify the model's own forward pass, or half precision in the
    optimizer.

    ## What the probe does
    The probe uses four samples with advantages of both signs. The probe lowers the logits of the first token of every
    response, or of every padding token. The logits are lowered in the forward passes with gradient, in the passes
    without gradient, or in all passes. A trainer that rejects the batch with an exception also passes.
    """
    made, responses = probes.gradient_effect.four(render, tokenizer, model, prompts)

    def breaks(by: float, **where: bool) -> bool:
        return not probes.extreme_logprobs.finite(loss, [model, reference], made, responses, by, **where)

    if breaks(0.0):
        raise probes.Unjudged("loss or gradient of ordinary samples is not finite; see PAD002")
    alike = [name for name, at in _PLACES.items() if breaks(FAR, policy=True, beside=True, padding=at)]
    near = [side for side, where in _SIDES.items() if breaks(BOUND, **where)]
    far = not (alike or near) and any(breaks(FAR, padding=True, **where) for where in _SIDES.values())
    return fires(
        bool(alike or near or far),
        "{what}",
        warning=bool(alike),
        error=bool(near) or "response tokens" in alike,
        info=far,
        what=_overflow(alike, near),
    )


_PLACES = {"response tokens": False, "padding": True}
_SIDES = {f"+{BOUND:g}": {"beside": True}, f"-{BOUND:g}": {"policy": True}}


def _overflow(alike: list[str], near: list[str]) -> str:
    if alike:
        return (
            f"Loss or gradient is not finite when policy, old policy and reference all lower the log-probabilities of "
            f"{' and '.join(alike)} by {FAR:g} nats (ratio 1)."
        )
    if near:
        return f"Loss or gradient is not finite at a log-ratio of {' and of '.join(near)} on one response token."
    return f"Loss or gradient is not finite at log-ratios of ±{FAR:g} on padding: the mask is applied after exp."
