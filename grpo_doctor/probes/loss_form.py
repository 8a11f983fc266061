"""Determines a trainer's policy loss from the weight of each token's log-probability.

The weight of a token is the negative derivative of the loss with respect to the token's log-probability. The derivative
at zero advantages is subtracted. Properties that cannot be measured through a trainer's functions stay unknown.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from . import gradient_effect
from .crafted_inputs import flat_ids
from .entry_points import Unjudged
from .gradient_effect import LENGTHS, LONGER
from .loss_trials import advantages_of, equal_prompts, scored

INSIDE = 5e-4
"""Log-ratio of one token that is within every common clip bound, even within the bound of 3e-4 on the mean over a
response."""
SEARCHED = 1e-5, 2.0
"""Range of log-ratios in which a clip bound is searched."""
EDGE = 4e-3
"""Relative distance from a declared clip bound at which both sides of the bound are tried."""
EQUAL = 0.02
"""Relative difference up to which two weights count as equal."""
REVERSED = "reversed k3"
FOLLOWS = 2e-3
"""Relative difference up to which a weight counts as following the ratio."""

Weights = Callable[[Sequence[int], Sequence[float]], list[Tensor]]
"""Maps the lengths of four responses and the log-ratios of their first tokens to the token weights (R,) of each
response. A weight is multiplied by the sign of the advantage; the advantages are `gradient_effect.SIGNS`."""


class LossForm(msgspec.Struct, kw_only=True):
    """The measured properties of a policy loss; an empty string or None means unknown.

    Attributes:
        aggregation: token mean, sequence mean, sequence sum (mean over responses) or constant.
        ratio: token, sequence mean, sequence sum or none.
        clip: stop (no gradient beyond the bound), cap (the weight of the ratio stays at the bound) or none.
        low, high: distance of the lower bound of the ratio from 1 (at A < 0), and distance of the upper bound from 1
            (at A > 0).
        dual: ratio above which a token has no gradient at A < 0 (dual clip).
        kl: KL estimator with the same gradient as the loss (k1, k2, k3 or none); k3 times the ratio has the gradient of
            k2.
        beta: coefficient of the KL term.
        entropy: coefficient of the entropy bonus; negative for a penalty.
        baseline: mean that is subtracted from the rewards (group, batch or none).
        normaliser: std, batch, none or leave one out.
        ddof: degrees of freedom of the group's standard deviation.
    """

    aggregation: str = ""
    ratio: str = ""
    clip: str = ""
    low: float | None = None
    high: float | None = None
    dual: float | None = None
    kl: str = ""
    beta: float | None = None
    entropy: float | None = None
    baseline: str = ""
    normaliser: str = ""
    ddof: int | None = None

    @property
    def asymmetric(self) -> bool:
        """Return whether the upper clip bound is wider than the lower one."""
        return self.low is not None and self.high is not None and self.high > 1.05 * self.low

    @property
    def name(self) -> str:
        """Return the common name of the loss; empty if no known form fits."""
        for form in _tables()["forms"]:
            wanted = {key: value for key, value in form.items() if key not in ("name", "source")}
            if all(getattr(self, key) == value for key, value in wanted.items()):
                return str(form["name"])
        return ""

    @property
    def formula(self) -> str:
        """Return the loss as a formula, without unknown parts."""
        ratio = _RATIOS.get(self.ratio, "r")
        term = _CLIPS[self.clip].format(r=ratio, bounds=self._bounds()) if self.clip in _CLIPS else f"{ratio} A"
        if self.dual is not None:
            term += f", from below {self.dual:.3g} A for A < 0"
        said = f"-{_AGGREGATIONS.get(self.aggregation, 'Σ')} [{term}]"
        if self.kl not in ("", "none"):
            said += f" + {self.beta or 0:.3g} KL_{self.kl}(policy, reference)"
        if self.entropy:
            said += f" {'-' if self.entropy > 0 else '+'} {abs(self.entropy):.3g} H"
        if self.normaliser:
            said += f", A = {self._advantage()}"
        return said

    def _bounds(self) -> str:
        low, high = ("?" if bound is None else f"{bound:.2g}" for bound in (self.low, self.high))
        return f"1 - {low}, 1 + {high}"

    def _advantage(self) -> str:
        centred = {"group": "(R - group mean)", "batch": "(R - batch mean)", "none": "R"}.get(self.baseline, "R")
        over = {
            "std": f" / group std{'' if self.ddof is None else f' (ddof {self.ddof})'}",
            "batch": " / batch std",
            "leave one out": " K / (K - 1)",
        }
        return centred + over.get(self.normaliser, "")

    def contradictions(self, settings: Mapping[str, Any]) -> list[str]:
        """Return one clause for each declared setting that contradicts the measured loss, and one clause for a reversed
        KL estimator."""
        found = []
        if self.kl == REVERSED:
            found.append(
                f"KL (coefficient {self.beta:.3g}) is k3 with the difference reversed, d = policy - reference: "
                "with d = reference - policy, exp(d) - d - 1 estimates the KL"
            )
        for setting, values in _tables()["declared"].items():
            for part, wanted in values.get(str(settings.get(setting)), {}).items():
                measured = getattr(self, part)
                if measured and measured != wanted:
                    declared = f"{setting}={settings[setting]} declares the {part} {wanted!r}"
                    found.append(f"{declared}, but the probe measured {measured!r}")
        return found


_RATIOS = {"token": "r_t", "sequence mean": "r^(1/|o|)", "sequence sum": "r_seq", "none": "log π"}
_CLIPS = {"stop": "min({r} A, clip({r}, {bounds}) A)", "cap": "sg(clip({r}, {bounds})) A log π"}
_AGGREGATIONS = {
    "token mean": "1/Σ|o| Σ_i Σ_t",
    "sequence mean": "1/N Σ_i 1/|o_i| Σ_t",
    "sequence sum": "1/N Σ_i Σ_t",
    "constant": "1/(N L) Σ_i Σ_t",
}


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("loss_forms.toml").read_text(encoding="utf-8"))


def loss_form(
    objective: Any = None,
    loss: Any = None,
    render: Any = None,
    tokenizer: Any = None,
    model: Any = None,
    prompts: Any = None,
    advantages: Any = None,
    settings: Mapping[str, Any] | None = None,
) -> LossForm:
    """Return the form of the `objective` or, without one, of the `loss`, and of the `advantages`.

    Raises `Unjudged` if there is neither an `objective` nor a `loss`, or if the advantages do not affect the gradient.
    """
    form = LossForm()
    if objective is not None:
        _measure(form, partial(_of_objective, objective), settings or {})
        weight = _of_objective(objective, (2, 2, 2, 2), (0.0,) * 4)[0][0]
        _kl(form, *gradient_effect.pulls(objective), weight)
        form.entropy = _entropy(objective, weight)
    elif None not in (loss, render, tokenizer, model):
        whole = _Whole(loss, model, render, tokenizer, prompts, settings or {})
        _measure(form, whole.weights, settings or {})
        away = whole.pulls()
        if len(away):  # a constant gradient cannot be distinguished from an entropy bonus here
            _kl(form, torch.zeros(4), away, whole.weights((2, 2, 2, 2), (0.0,) * 4)[0][0])
    else:
        raise Unjudged("needs objective, or loss with render, model and tokenizer")
    if advantages is not None:
        _advantages(form, advantages)
    return form


def _measure(form: LossForm, weights: Weights, settings: Mapping[str, Any]) -> None:
    """Measure aggregation, ratio and clip. Raises `Unjudged` if the advantages do not affect the gradient."""
    base = weights(LENGTHS, (0.0,) * 4)
    if min(float(w.abs().min()) for w in base) < 1e-9:
        raise Unjudged("a token has no gradient at a ratio of 1; see RAT007")
    form.aggregation = _aggregation(base, weights(LONGER, (0.0,) * 4))
    form.ratio = _ratio(base, weights(LENGTHS, (INSIDE,) * 4))
    if form.ratio not in ("", "none"):
        _clip(form, base, weights, settings)


def _aggregation(base: list[Tensor], longer: list[Tensor]) -> str:
    own, other = (torch.stack([w.mean() for w in some]).double() for some in (base, longer))
    if max(float(w.std(correction=0) / w.mean().abs()) for w in base) > EQUAL:
        return ""
    size, larger = torch.tensor(LENGTHS).double(), torch.tensor(LONGER).double()
    if _are_equal(own * size) and _are_equal(other * larger):
        return "sequence mean"
    if not (_are_equal(own) and _are_equal(other)):
        return ""
    if _are_equal(torch.stack([own.mean() * size.sum(), other.mean() * larger.sum()])):
        return "token mean"
    if not _are_equal(torch.stack([own.mean(), other.mean()])):
        return ""
    return "sequence sum" if abs(float(own.mean()) * len(LENGTHS) - 1) < EQUAL else "constant"


def _are_equal(values: Tensor) -> bool:
    return float((values - values.mean()).abs().max()) <= EQUAL * float(values.abs().mean())


def _ratio(base: list[Tensor], moved: list[Tensor]) -> str:
    """Return the kind of ratio, from how the weights of the first token and of another token grow with the log-ratio of
    the first token."""
    first = float(torch.stack([m[0] / b[0] for m, b in zip(moved, base, strict=True)]).log().mean())
    rest = [float((m[1] / b[1]).log()) for m, b in zip(moved, base, strict=True)]
    mean = [INSIDE / n for n in LENGTHS]
    near = EQUAL * INSIDE
    if abs(first) < 5 * near and max(map(abs, rest)) < 5 * near:
        return "none"
    if abs(first - INSIDE) < 10 * near and max(map(abs, rest)) < 5 * near:
        return "token"
    if all(abs(r - m) < 10 * near for r, m in zip(rest, mean, strict=True)):
        return "sequence mean"
    return "sequence sum" if all(abs(r - INSIDE) < 10 * near for r in rest) else ""


def _clip(form: LossForm, base: list[Tensor], weights: Weights, settings: Mapping[str, Any]) -> None:
    """Find the log-ratios at which a weight stops following the ratio, upwards and downwards, for A > 0 and A < 0.

    The declared bounds are tried first, then the range is bisected.
    """
    low = settings.get("epsilon") or 0.0
    up, down = math.log1p(settings.get("epsilon_high") or low), -math.log1p(-low) if low < 1 else 0.0
    declared = [up, down, down, up] if min(up, down) > SEARCHED[0] else []
    towards = (1.0, -1.0, -1.0, 1.0)
    scale = LENGTHS if form.ratio == "sequence mean" else (1,) * 4

    def factors(log_ratios: Sequence[float]) -> list[float]:
        signed = [s * r * n for s, r, n in zip(towards, log_ratios, scale, strict=True)]
        return [float(w[0] / b[0]) for w, b in zip(weights(LENGTHS, signed), base, strict=True)]

    def follows(factor: float, log_ratio: float, sign: float) -> bool:
        return abs(factor / math.exp(sign * log_ratio) - 1) < FOLLOWS

    far = factors((SEARCHED[1],) * 4)
    bounded = [not follows(f, SEARCHED[1], s) for f, s in zip(far, towards, strict=True)]
    inside, outside = ([end] * 4 for end in SEARCHED)
    tried = [[share * bound for bound in declared] for share in (1 - EDGE, 1 + EDGE) if declared]
    while any(b and o > (1 + 3 * EDGE) * i for b, i, o in zip(bounded, inside, outside, strict=True)):
        middle = tried.pop() if tried else [math.sqrt(a * b) for a, b in zip(inside, outside, strict=True)]
        for n, factor in enumerate(factors(middle)):
            (inside if follows(factor, middle[n], towards[n]) else outside)[n] = middle[n]
    at = [math.exp(s * math.sqrt(a * b)) for s, a, b in zip(towards, inside, outside, strict=True)]
    form.high = at[0] - 1 if bounded[0] else None
    form.low = 1 - at[2] if bounded[2] else None
    stopped = bounded[0] and abs(far[0]) < EQUAL
    form.clip = "stop" if stopped else "cap" if bounded[0] and abs(far[0] / at[0] - 1) < 0.1 else ""
    if not any(bounded):
        form.clip = "none"
    form.dual = at[3] if bounded[3] and form.clip == "stop" else None


def _kl(form: LossForm, same: Tensor, away: Tensor, weight: Tensor) -> None:
    """Store the KL estimator and its coefficient, determined from the gradient towards a reference at
    `gradient_effect.TOWARDS`."""
    if float(away.abs().max()) < 1e-9:
        form.kl = "k1" if float(same.abs().max()) > 1e-9 else "none"
        form.beta = float(same.abs().mean() / weight) if form.kl == "k1" else None
        return
    apart = torch.tensor(gradient_effect.TOWARDS).double()
    for name, wanted in (("k3", apart.expm1()), ("k2", apart), (REVERSED, -(-apart).expm1())):
        scale = away.double() / wanted
        if _are_equal(scale):
            form.kl, form.beta = name, float(scale.mean() / weight)


def _entropy(objective: Any, weight: Tensor) -> float | None:
    """Return the coefficient of the entropy bonus, in units of the weight of a token of these responses."""
    mask, entropy = torch.ones(4, 2), torch.ones(4, 2, requires_grad=True)
    new = torch.full((4, 2), -1.0, requires_grad=True)
    value = objective(new, new.detach(), new.detach(), torch.tensor(gradient_effect.SIGNS), mask, entropy)
    found = torch.autograd.grad(value, entropy, allow_unused=True)[0] if value.requires_grad else None
    return None if found is None else -float(found.mean() / weight)


def _of_objective(objective: Any, lengths: Sequence[int], log_ratios: Sequence[float]) -> list[Tensor]:
    """Return the token weights of an objective; see `Weights`."""
    shape = len(lengths), max(lengths)
    mask = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).float()
    shift = torch.zeros(shape)
    shift[:, 0] = torch.tensor(log_ratios)
    signs = torch.tensor(gradient_effect.SIGNS)
    found = []
    for advantages in (signs, 0 * signs):
        new = torch.full(shape, -1.0, requires_grad=True)
        value = objective(new, new.detach() - shift, new.detach(), advantages, mask, torch.ones(shape))
        gradient = torch.autograd.grad(value, new, allow_unused=True)[0] if value.requires_grad else None
        found.append(torch.zeros(shape) if gradient is None else gradient)
    weights = (found[1] - found[0]) * signs[:, None]
    return [row[:length] for row, length in zip(weights, lengths, strict=True)]


class _Whole:
    """A whole loss, whose gradient for the logits of a token is the token's weight times (1 - p) / temperature."""

    def __init__(
        self, loss: Any, model: Any, render: Any, tokenizer: Any, prompts: Any, settings: Mapping[str, Any]
    ) -> None:
        self.loss, self.model = loss, model
        self.render, self.tokenizer, self.prompts = render, tokenizer, prompts
        self._made: dict[tuple[int, ...], tuple[list[Any], list[Any], list[Tensor]]] = {}
        measured = gradient_effect.temperature_of(
            loss, model, *equal_prompts(render, tokenizer, model, prompts, LENGTHS)
        )
        self.temperature = measured or float(settings.get("temperature") or 1.0)

    def weights(self, lengths: Sequence[int], log_ratios: Sequence[float]) -> list[Tensor]:
        """Return the token weights of the loss; see `Weights`."""
        made, responses, shares = self._samples(tuple(lengths))
        found = gradient_effect.pushes(
            self.loss, self.model, made, responses, log_ratios=log_ratios, temperature=self.temperature
        )
        return [p.towards / s * sign for p, s, sign in zip(found, shares, gradient_effect.SIGNS, strict=True)]

    def pulls(self) -> Tensor:
        """Return the additional rise (4,), as in the second result of `gradient_effect.pulls`. The tensor is empty if
        no pass without gradient has an effect."""
        made, responses, shares = self._samples((2, 2, 2, 2))
        moved = gradient_effect.anchor_effect(
            self.loss, self.model, made, responses, [-t for t in gradient_effect.TOWARDS]
        )
        first = torch.stack([share[0] for share in shares]).cpu()
        return torch.tensor(moved) / first if moved else torch.empty(0)

    def _samples(self, lengths: tuple[int, ...]) -> tuple[list[Any], list[Any], list[Tensor]]:
        """Return four samples with responses of these lengths, the responses, and the (1 - p) / temperature of their
        tokens."""
        if lengths not in self._made:
            made, responses = equal_prompts(self.render, self.tokenizer, self.model, self.prompts, lengths)
            self._made[lengths] = made, responses, self._shares(made, responses)
        return self._made[lengths]

    def _shares(self, made: list[Any], responses: list[Any]) -> list[Tensor]:
        """Return (1 - p) / temperature of each response token."""
        ids = [flat_ids(self.render(p)) for p in made]
        with torch.no_grad():
            found = scored(self.model, ids, responses, self.tokenizer, self.temperature)
        return [(1 - own.exp()) / self.temperature for _, own in found]


def _advantages(form: LossForm, advantages: Any) -> None:
    """Store the baseline and the normaliser, determined from three groups of rewards with different means and
    spreads."""
    rewards = torch.tensor([[0.0, 0, 0, 1], [0, 1, 2, 5], [3, 3, 4, 6]]).double()
    found = advantages_of(advantages, rewards)
    by_group, by_batch = rewards - rewards.mean(1, keepdim=True), rewards - rewards.mean()
    for baseline, centred in (("group", by_group), ("batch", by_batch), ("none", rewards)):
        kept = centred.abs() > 1e-9
        scale = [(f[k] / c[k]) for f, c, k in zip(found, centred, kept, strict=True)]
        if all(_are_equal(s) for s in scale):
            form.baseline = baseline
            _normaliser(form, torch.stack([s.mean() for s in scale]), rewards)
            return


def _normaliser(form: LossForm, scale: Tensor, rewards: Tensor) -> None:
    """Store the kind of factor that is applied to the centred rewards of three groups."""
    size = rewards.shape[1]
    for ddof in (0, 1):
        if (
            _are_equal(scale * rewards.std(1, correction=ddof))
            and abs(float(scale[0] * rewards[0].std(correction=ddof)) - 1) < EQUAL
        ):
            form.normaliser, form.ddof = "std", ddof
            return
    if not _are_equal(scale):
        return
    one = float(scale.mean())
    form.normaliser = (
        "none" if abs(one - 1) < EQUAL else "leave one out" if abs(one * (size - 1) / size - 1) < EQUAL else "batch"
    )
