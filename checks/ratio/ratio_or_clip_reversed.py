import math
from typing import Any

from grpo_doctor import Fires, fires, probe, probes
from grpo_doctor.diagnosis.wording import number

FAR = 0.5
"""Log-ratio at which the clip is tested: a ratio of 1.65 or 0.61, beyond usual bounds and within a dual clip of 3."""


@probe("RAT007", kind="defect", severity="critical", explains=("RAT001", "STL001", "GRD006"))
def ratio_or_clip_reversed(
    loss: Any = None,
    objective: Any = None,
    render: Any = None,
    tokenizer: Any = None,
    model: Any = None,
    prompts: Any = None,
    settings: Any = None,
) -> Fires | None:
    """The loss has the wrong sign, or the clip acts on the wrong side of the ratio.

    ## What it sees
    The probe uses four samples, two with a positive and two with a negative advantage. Severity is **critical** if the
    loss moves a sample against its advantage. At ratios of 1.65 and 0.61, the clip may stop a step that increases the
    distance to the old policy. Severity is **error** if the clip stops a step that decreases the distance (A > 0 at
    0.61, or A < 0 at 1.65). If `settings` declare `epsilon`, a clip must not act at 0.8 of the bound, and must act at
    1.25 of the bound. Otherwise, severity is **error**. Severity is also **error** if a sample has no gradient at a
    ratio of 1. If `settings` declare `epsilon`, the old log-probabilities that the `objective` receives must affect the
    gradient; otherwise, severity is **error**. A forward pass of the policy without gradient on the samples must also
    affect the gradient, unless the pass is used only for logging. If the pass has no effect, severity is **warning**
    with a declared `epsilon`, and **info** without one.

    ## Why it matters
    The minimum of the clipped and the unclipped objective is pessimistic: it ignores gains beyond the bound but not
    losses. With the maximum, or with the clip alone, a good answer that has become unlikely never becomes likely again.
    A bad answer that has become likely is never unlearned. If old and new are swapped, or the sign of the advantage is
    lost, training unlearns rewarded responses. At a ratio of 1, as in the first update, only a wrong sign is visible.

    ## Example
    ```python
    import torch


    def objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy):
        ratio, advantages = (logprobs - old_logprobs).exp(), advantages[:, None]
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return (clipped * mask).sum() / mask.sum()
    ```
    Critical: The loss moves 4 of 4 samples against the sign of their advantage.

    ```python
    import torch


    def objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy):
        ratio, advantages = (logprobs - old_logprobs).exp(), advantages[:, None]
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -(clipped * mask).sum() / mask.sum()
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the direction of the policy gradient for positive and negative advantages, at three ratios. The
    probe uses the trainer's `objective`. Without an `objective`, the probe uses a `loss`. The old log-probabilities of
    the `loss` come from a forward pass without gradient, a sampling loop, or a scripted engine. A loss that divides by
    its own detached log-probabilities always has a ratio of 1, so only the sign is certified. If the loss itself
    samples and weights tokens by the log-probabilities of its sampler, a weight that is inverted or applied twice is an
    error. The rule for weights also applies to a sampling loop that draws by means other than `multinomial` and
    `argmax`. The probe certifies neither that the old log-probabilities are correct (RAT003) nor the size of a step.

    ## Known false alarms
    Some methods exclude tokens far from the old policy on both sides (IcePop and other double-sided masks). Ignore
    RAT007 for double-sided masks, and for deliberate training on positive samples only. Soft gates and other bounds
    (SAPO, CISPO, GSPO, a dual clip of 2 or more) pass the probe and cause no false alarms.

    ## Remedy
    Use `-torch.min(ratio * A, ratio.clamp(1 - eps, 1 + eps) * A)`, with `ratio = exp(new - old)`.

    ## Sources
    Schulman et al. 2017 (arXiv 1707.06347), equation 7; TRL and verl, dual clip (`delta`,
    `clip_ratio_c`).
    """
    declared = settings or {}
    if objective is not None:
        return _judged(lambda far: _of_objective(objective, far), declared, takes_old="epsilon" in declared)
    if loss is None or render is None or model is None or tokenizer is None:
        raise probes.NotApplicable("needs objective, or loss with render, model and tokenizer")
    samples = probes.gradient_effect.four(render, tokenizer, model, prompts)
    return _of_loss(loss, model, *samples, declared)


def _of_loss(loss: Any, model: Any, made: Any, responses: Any, declared: dict[str, Any]) -> Fires | None:
    """Fire if a whole loss, or the weights from its sampler's log-probabilities, move samples in the wrong
    direction."""
    temperature = float(declared.get("temperature") or 1.0)

    def pushed(log_ratios: Any) -> Any:
        import torch

        found = probes.gradient_effect.pushes(
            loss, model, made, responses, log_ratios=log_ratios, temperature=temperature
        )
        return torch.stack([p.towards[:2] for p in found])

    # without a KL term, the reference pass of a LoRA model (adapter disabled) may have no effect
    reference = not declared.get("kl_coef") and hasattr(model, "disable_adapter")
    idle = not reference and _idle(loss, model, made, responses)
    with probes.generations.scripted_sampling() as sampling:
        found = _judged(pushed, declared, takes_old=idle, sure=False)
    made_up = bool(sampling.loops) and probes.forced_draws.by_logits()
    if bool(found.when):
        # old log-probabilities of one-hot logits stop updates but reverse none; a lost sign reverses all updates
        if made_up and (found.evidence["along"] or not found.evidence["against"]):
            raise probes.Unjudged("the loss samples in its own loop, so the probe cannot choose the tokens")
        return found
    weights = None if made_up else probes.gradient_effect.sampler_weights(loss, model, made, responses, FAR)
    return found if weights is None else _of_weights(weights[1])


def _idle(loss: Any, model: Any, made: Any, responses: Any) -> bool:
    """Return whether the policy scores the samples without gradient and the scores have no effect."""
    signs = probes.loss_trials.torch_of(probes.gradient_effect.SIGNS, model)
    own = probes.intercept.language_model(model)
    no_grad_passes = probes.gradient_effect.no_grad_passes(loss, [model], made, responses, signs)
    return any(b.module is own and b.scores and not b.acts for b in no_grad_passes)


def _of_weights(times: list[float]) -> Fires:
    """Fire if the sampler's log-probabilities weight tokens in the wrong direction, or twice. A token that is exp(FAR)
    times as likely under the policy as under the sampler gets a weight above 1, up to exp(FAR). A token that is
    exp(-FAR) times as likely gets a weight below 1."""
    told = [math.exp(FAR * (-1) ** n) for n in range(len(times))]
    some = [(t, r) for t, r in zip(times, told, strict=True) if abs(t) > 0.02]  # a clip or a mask may stop a token
    inverted = sum((t - 1) * (r - 1) < 0 and abs(t - 1) > 0.05 for t, r in some)
    twice = sum(abs(math.log(abs(t))) > 1.3 * FAR for t, _ in some)
    return fires(
        inverted > 0 or twice > 0,
        "{what}",
        error=True,
        what=f"The importance weight is inverted in {inverted} of {len(some)} samples: tokens that the sampler was "
        "less likely to draw than the policy get less weight."
        if inverted
        else f"The importance weight is applied more than once in {twice} of {len(some)} samples.",
    )


def _of_objective(objective: Any, log_ratios: list[float]) -> Any:
    """Return how much the objective raises the two response tokens of each sample, in shape (4, 2). ``log_ratios`` are
    those of the first token."""
    import torch

    mask = torch.tensor([[0.0, 1.0, 1.0]] * 4)
    shift = torch.zeros(4, 3)
    shift[:, 1] = torch.tensor(log_ratios)
    gradients = []
    for advantages in (torch.tensor(probes.gradient_effect.SIGNS), torch.zeros(4)):
        new = torch.tensor([[-2.0, -1.5, -0.5]] * 4, requires_grad=True)
        value = objective(new, new.detach() - shift, new.detach(), advantages, mask, torch.ones(4, 3))
        gradients.append(torch.autograd.grad(value, new, allow_unused=True)[0] if value.requires_grad else None)
    with_, without = (torch.zeros(4, 3) if g is None else g for g in gradients)
    return (without - with_)[:, 1:]


def _judged(pushed: Any, settings: dict[str, Any], takes_old: bool, sure: bool = True) -> Fires:
    """Judge the direction of the updates. ``takes_old``: the loss has old log-probabilities. Not ``sure``: the loss
    makes a forward pass that may compute old log-probabilities."""
    import torch

    signs = torch.tensor(probes.gradient_effect.SIGNS)
    on = pushed([0.0] * 4).cpu() * signs[:, None]
    least = 1e-4 * float(on.abs().max())
    if least == 0:
        raise probes.Unjudged("the advantages do not reach the gradient; see STL004")
    off = pushed([FAR, -FAR, FAR, -FAR]).cpu() * signs[:, None]
    first = on[:, 0].abs() > least  # the scripted ratio is the ratio of the first token
    ignored = takes_old and bool(first.any()) and bool(((off - on).abs() <= least).all())
    against = int(((on < -least).any(1) | (off < -least).any(1)).sum())
    none = (on.abs() <= least).all(1)
    silent = int(none.sum())
    lost = int(((off[:, 0] <= least) & first)[[1, 2]].sum())
    broken = against + lost + silent
    if not broken and not first.any():
        raise probes.Unjudged("no first response token has a gradient; see PAD002")
    wrong = _bound(pushed, signs, least, settings) if not broken and _clips(on, off, least) else []
    return fires(
        broken + len(wrong) + ignored > 0,
        "{what}",
        info=ignored,
        warning=ignored and "epsilon" in settings,
        error=lost + silent + len(wrong) > 0 or (ignored and sure),
        critical=against > 0,
        what=_words(against, lost, wrong, silent, ignored, sure),
        against=against,
        along=int((on > least).any(1).sum()),
        lost=lost,
        silent=silent,
    )


def _clips(on: Any, off: Any, least: float) -> bool:
    """Return whether a clip of single tokens acts, so that its bounds can be found. The clip of a sequence-level ratio
    also stops the second token. If the update does not grow by the scripted ratio, the temperature is not the declared
    one.
    """
    import torch

    grown = ((off[[1, 2], 0] / on[[1, 2], 0] / torch.tensor([-FAR, FAR]).exp() - 1).abs() < 0.1).all()
    return bool(grown & (off[:, 1] > least).all() & ~(off[[0, 3], 0] > least).all())


def _bound(pushed: Any, signs: Any, least: float, settings: dict[str, Any]) -> list[str]:
    """Return the errors of the clip bounds if the bounds are declared."""
    low = settings.get("epsilon")
    if not isinstance(low, float) or not 0 < low < 0.3:
        return []
    high = settings.get("epsilon_high") or low
    tried = [1 + 0.8 * high, 1 + 1.25 * high, 1 - 0.8 * low, 1 - 1.25 * low]
    moved = (pushed([math.log(r) for r in tried]).cpu() * signs[:, None])[:, 0] > least
    wrong = [(r, bool(m)) for r, m, right in zip(tried, moved, (True, False, True, False), strict=True) if m != right]
    return [f"{'a' if is_open else 'no'} gradient at a ratio of {number(ratio)}" for ratio, is_open in wrong]


def _words(against: int, lost: int, wrong: list[str], silent: int, ignored: bool, sure: bool) -> str:
    if against:
        return f"The loss moves {against} of 4 samples against the sign of their advantage."
    if ignored and sure:
        return "The loss ignores the old log-probabilities, so the ratio is always 1 and the clip never applies."
    if silent:
        return f"{silent} of 4 samples have no gradient at a ratio of 1, where no clip should apply."
    if lost:
        return (
            f"The clip acts on the wrong side. In {lost} of 2 cases, updates back towards the old policy are blocked "
            f"(A > 0 at a ratio of 0.61, A < 0 at 1.65)."
        )
    if wrong:
        return f"The clip does not act at the declared bounds: {', '.join(wrong)}."
    return (
        "The loss does not use the log-probabilities of the policy's no-gradient pass. If that pass computes the old "
        "log-probabilities, the ratio is always 1 and the clip never applies."
    )
