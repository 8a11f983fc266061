"""Finds the causes of the log-probability differences in a token batch, and the share that each cause explains.

The difference of a token is the trainer's log-probability minus the rollout engine's. Each cause predicts a part of the
difference. First, the log-probabilities are aligned. Then the part predicted by the strongest cause is subtracted
repeatedly, until no cause explains enough. The cause of the remaining difference is judged by the level of the
difference, or remains unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec import structs

from ..record import StepRecord
from . import alignment
from .alignment import LARGEST
from .batch import TokenBatch, Tokens

AGREE = 1e-8
"""k3 in nats per token below which the trainer and the engine agree, so no search for a cause is needed."""
ROUNDING = 2e-3
"""Maximum k3 in nats per token that rounding to bf16 explains (the warning threshold of RAT004)."""
LEAST = 0.15
"""Minimum share of the squared difference that a cause must explain."""
FEWEST = 200
"""Minimum number of tokens for a judgement."""
BINS = 10


class Cause(NamedTuple):
    """A cause of the mismatch.

    Attributes:
        name: key of the record field ``mismatch_causes``.
        share: share of the squared difference that the cause explains, 0 to 1.
        effect: size of the effect, in the unit of the check that reports the cause.
    """

    name: str
    share: float
    effect: float


class _Part(NamedTuple):
    """The part (N,) of the difference predicted by a cause."""

    name: str
    predicted: np.ndarray
    effect: float


def causes_of(batch: TokenBatch) -> list[Cause]:
    """Return the causes of the mismatch, the largest first. The list is empty if the trainer and the engine agree, or
    if there are fewer than 200 tokens.

    Raises `BatchError` if lists of the batch differ in length from their response.
    """
    tokens = Tokens(batch)
    found = list(_of_reference(tokens, batch))
    tokens.keep(np.isfinite(tokens.engine) & np.isfinite(tokens.trainer))
    if len(tokens) < FEWEST:
        return found
    left = np.clip(tokens.trainer - tokens.engine, -LARGEST, LARGEST)
    whole = float((left**2).sum())
    if whole / (2 * len(left)) < AGREE:
        return found
    parts: dict[str, Cause] = {}

    def take(part: _Part) -> None:
        nonlocal left
        rest = left - part.predicted
        share = float((left**2).sum() - (rest**2).sum()) / whole
        before = parts[part.name].share if part.name in parts else 0.0
        parts[part.name], left = Cause(part.name, share + before, part.effect), rest

    for part in alignment.parts(tokens, left):
        take(_Part(*part))
    tokens.engine = tokens.trainer - left  # the aligned difference
    while (best := _best(tokens, left, whole)) is not None:
        take(best)
    if "stale" not in parts:  # stale weights may also explain the remaining difference
        for part in _rest(tokens, left, whole, batch, bursts="retokenised" not in parts):
            take(part)
    told = [cause for cause in parts.values() if cause.share >= LEAST]
    return sorted(told, key=lambda cause: -cause.share) + found


def examined(record: StepRecord, batch: TokenBatch) -> StepRecord:
    """Return the record with the causes of its batch. Metrics of the mismatch that the record lacks are added.

    Raises `BatchError` if lists of the batch differ in length from their response.
    """
    tokens = Tokens(batch)
    found = {cause.name: [cause.share, cause.effect] for cause in causes_of(batch)}
    tokens.keep(np.isfinite(tokens.engine) & np.isfinite(tokens.trainer))
    if not len(tokens):
        return structs.replace(record, mismatch_causes=found)
    gap, lengths = tokens.trainer - tokens.engine, np.bincount(tokens.response)
    surprises = [-np.bincount(tokens.response, side) / lengths for side in (tokens.engine, tokens.trainer)]
    measured = {
        "rollout_mismatch_kl": float(np.mean(np.expm1(np.minimum(gap, 20.0)) - gap)),
        "rollout_mismatch_k1": float(-gap.mean()),
        "rollout_surprise": float(surprises[0].mean()),
        "trainer_surprise": float(surprises[1].mean()),
        "rollout_logp_diff": float(np.abs(gap).mean()),
        "rollout_logp_diff_max": float(np.abs(gap).max()),
    }
    fresh = {name: value for name, value in measured.items() if getattr(record, name) is None}
    return structs.replace(record, mismatch_causes=found, **fresh)


def _best(tokens: Tokens, left: np.ndarray, whole: float) -> _Part | None:
    """Return the cause that explains the largest share of the remaining difference; None if no cause explains
    enough."""
    found = [part for test in _TESTS if (part := test(tokens, left)) is not None]
    gains = [float((left**2).sum() - ((left - part.predicted) ** 2).sum()) / whole for part in found]
    return found[int(np.argmax(gains))] if found and max(gains) >= LEAST else None


# -- the tests, each of which examines the remaining difference


def _routing(tokens: Tokens, left: np.ndarray) -> _Part | None:
    """Return the part due to routing: the trainer and the engine chose different experts for some tokens, and the
    differences of these tokens are larger."""
    moved = tokens.rerouted == 1
    if not moved.any() or moved.all():
        return None
    if (left[moved] ** 2).mean() < 2 * (left[~moved] ** 2).mean():
        return None
    return _Part("routing", np.where(moved, left, 0.0), float(moved.mean()))


def _filter(tokens: Tokens, left: np.ndarray) -> _Part | None:
    """Return the part due to a sampler that renormalised over fewer tokens, so that its log-probabilities are higher by
    a bounded amount.

    For two distributions over the same tokens, the mean of exp(difference) is 1. With a filter, the mean is the
    probability mass that the sampler kept.
    """
    ratio = np.exp(tokens.trainer - tokens.engine)
    excluded, error = 1 - ratio.mean(), ratio.std() / np.sqrt(len(ratio))
    below, above = left[left < 0], left[left > 0]
    one_sided = float((below**2).sum()) > 4 * float((above**2).sum())
    if not one_sided or excluded < max(5 * error, 1e-3) or np.quantile(left, 0.005) < -1.5:
        return None
    noise = float(np.sqrt((above**2).mean())) if len(above) else 0.0
    return _Part("filter", np.where(left < -2 * noise, left, 0.0), float(excluded))


def _temperature(tokens: Tokens, left: np.ndarray) -> _Part | None:
    """Return the part due to temperature. With a different temperature, the difference is linear in the
    log-probabilities from the trainer and the engine, in every group of responses."""
    engine = tokens.trainer - left
    y = _without_entropy(left, tokens.entropy)
    slopes, fits = [], []
    for side in (tokens.trainer, engine):
        x = _without_entropy(side, tokens.entropy)
        slopes.append(float((x * y).sum() / max((x * x).sum(), 1e-12)))
        fits.append(slopes[-1] * float((x * y).sum() / max((y * y).sum(), 1e-12)))
    if min(fits) < 0.25 or slopes[0] * slopes[1] <= 0 or not _in_every_group(tokens, left, engine):
        return None
    # difference = (1 - 1/r) trainer = (r - 1) engine, where r is the sampler's temperature / the loss's temperature
    of_trainer, of_engine = slopes
    ratio = float(np.sqrt(max(1 + of_engine, 1e-3) / max(1 - of_trainer, 1e-3)))
    middle = (tokens.trainer + engine) / 2
    return _Part("temperature", _fitted(middle, tokens.entropy, left), ratio)


def _without_entropy(values: np.ndarray, entropy: np.ndarray) -> np.ndarray:
    """Return the residuals of ``values`` after a linear fit on a constant and, if known, the entropy."""
    return np.asarray(values - _fitted(np.zeros_like(values), entropy, values))


def _fitted(values: np.ndarray, entropy: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the linear fit of ``wanted`` on ``values``, a constant and, if known, the entropy."""
    known = np.isfinite(entropy).all()
    given = np.stack([values, np.ones_like(values), entropy if known else np.zeros_like(values)], 1)
    weights, *_ = np.linalg.lstsq(given, wanted, rcond=None)
    return np.asarray(given @ weights)


def _in_every_group(tokens: Tokens, left: np.ndarray, engine: np.ndarray) -> bool:
    """Return whether the slope of the difference against the log-probability has the same sign in four groups of
    responses."""
    middle = (tokens.trainer + engine) / 2
    slopes = []
    for group in range(4):
        own = tokens.response % 4 == group
        if own.sum() >= FEWEST // 8:
            x = middle[own] - middle[own].mean()
            slopes.append(float((x * left[own]).sum()))
    return len({slope > 0 for slope in slopes}) == 1


def _prompt(tokens: Tokens, left: np.ndarray) -> _Part | None:
    """Return the part due to the prompt: the difference is largest for the first tokens of a response and then
    decreases."""
    lengths = np.bincount(tokens.response)[tokens.response]
    quarter = np.minimum(3, 4 * tokens.position // np.maximum(1, lengths))
    scaled = left / _local_scale(tokens, left)
    energy = [float((scaled[quarter == q] ** 2).mean()) if (quarter == q).any() else np.nan for q in range(4)]
    early = energy[0] / max(energy[3], 1e-12)
    fades = energy[0] > energy[1] > energy[3]
    if not fades or early < 3:
        return None
    shrunk = np.sqrt(np.minimum(1.0, energy[3] / np.maximum(np.array(energy), 1e-12)))
    return _Part("prompt", left * (1 - shrunk[quarter]), early)


def _local_scale(tokens: Tokens, left: np.ndarray) -> np.ndarray:
    """Return, for each token, the root-mean-square difference among tokens with a similar log-probability."""
    scale = np.empty_like(left)
    for own in _binned(tokens, left):
        scale[own] = np.sqrt((left[own] ** 2).mean()) + 1e-9
    return scale


def _binned(tokens: Tokens, left: np.ndarray) -> list[np.ndarray]:
    """Return the tokens in `BINS` bins with similar log-probabilities."""
    return np.array_split(np.argsort(tokens.trainer - left / 2), BINS)


def _stale(tokens: Tokens, left: np.ndarray) -> _Part | None:
    """Return the part due to old weights: the difference correlates with the change in the policy since the start, or
    in the newest update."""
    best: _Part | None = None
    for change in (tokens.trainer - tokens.reference, tokens.new - tokens.trainer):
        change = np.clip(np.nan_to_num(change), -LARGEST, LARGEST)
        if (change**2).mean() < AGREE:
            continue
        behind = float((left * change).sum() / (change**2).sum())
        fit = behind * float((left * change).sum() / max((left**2).sum(), 1e-12))
        if behind <= 0.05 or fit < 0.1 or not _beyond_chance(tokens, left, change):
            continue
        whole = behind > 0.85 and fit > 0.8
        part = _Part("initial-weights" if whole else "stale", behind * change, behind)
        best = part if best is None or (part.predicted**2).sum() > (best.predicted**2).sum() else best
    return best


def _beyond_chance(tokens: Tokens, left: np.ndarray, change: np.ndarray) -> bool:
    """Return whether ``left`` and ``change`` correlate by more than chance explains, with one sum per response."""
    sums = np.bincount(tokens.response, left * change)
    return len(sums) > 3 and sums.mean() > 3 * sums.std(ddof=1) / np.sqrt(len(sums))


def _aged(tokens: Tokens, left: np.ndarray) -> _Part | None:
    """Return the part of the difference that grows with the recorded age of the weights."""
    age = tokens.age
    if not np.isfinite(age).all() or age.min() == age.max():
        return None
    size = np.bincount(tokens.response, np.abs(left)) / np.bincount(tokens.response)
    ages = np.bincount(tokens.response, age) / np.bincount(tokens.response)
    related = float(np.corrcoef(size, ages)[0, 1]) if len(size) > 3 and size.std() > 0 else 0.0
    if related * np.sqrt(len(size)) < 3:
        return None
    youngest = np.sqrt((left[age == age.min()] ** 2).mean())
    scale = {a: np.sqrt((left[age == a] ** 2).mean()) for a in np.unique(age)}
    shrunk = np.array([min(1.0, youngest / max(scale[a], 1e-12)) for a in age])
    return _Part("stale", left * (1 - shrunk), float(age.mean()))


_TESTS: tuple[Callable[[Tokens, np.ndarray], _Part | None], ...] = (
    _routing, _filter, _temperature, _prompt, _stale, _aged
)  # fmt: skip


# -- the difference that no test explains


def _rest(tokens: Tokens, left: np.ndarray, whole: float, batch: TokenBatch, bursts: bool) -> Iterator[_Part]:
    """Attribute a few large differences to routing, unless ``bursts`` is false because another cause produces them.
    Judge the other differences by their level."""
    if (left**2).sum() < LEAST * whole:
        return
    outlying = _outlying(tokens, left) if bursts else np.zeros(len(left), bool)
    bulk = left[~outlying]
    if outlying.any() and (bulk**2).mean() / 2 <= ROUNDING and not np.isfinite(tokens.rerouted).all():
        yield _Part("routing", np.where(outlying, left, 0.0), float(outlying.mean()))
        left = np.where(outlying, 0.0, left)
    level = float((left**2).mean())
    name = _by_level(tokens, level / 2, batch)
    if name:
        yield _Part(name, left, float(tokens.age.mean()) if name == "stale" else float(np.sqrt(level)))


def _by_level(tokens: Tokens, k3: float, batch: TokenBatch) -> str:
    """Return the name of the cause: quantisation, rounding, stale weights or other weights. Return an empty string if
    stale weights cannot be ruled out."""
    if batch.settings.get("quantization"):
        return "quantised"
    if k3 <= ROUNDING:
        return "precision"
    known = np.isfinite(tokens.age).all()
    if known and tokens.age.min() > 0:
        return "stale"
    moved = np.nan_to_num(tokens.trainer - tokens.reference)
    if not (known or (moved**2).mean() > AGREE):
        return ""
    return "other-weights"


def _outlying(tokens: Tokens, left: np.ndarray) -> np.ndarray:
    """Return the tokens with a much larger difference than other tokens with a similar log-probability, if these
    outliers account for most of the total difference."""
    usual = np.empty_like(left)
    for own in _binned(tokens, left):
        usual[own] = np.quantile(np.abs(left[own]), 0.25) / 0.3186 + 1e-6  # standard deviation of normal noise
    found = (np.abs(left) > 6 * usual) & (np.abs(left) > 0.05)
    share = float((left[found] ** 2).sum() / max((left**2).sum(), 1e-12))
    return found if share > 0.8 and found.mean() < 0.5 else np.zeros(len(left), bool)


def _of_reference(tokens: Tokens, batch: TokenBatch) -> Iterator[Cause]:
    """Return the cause ``reference`` if the reference model differs from the policy before any update, or equals the
    policy after some updates."""
    new = np.where(np.isnan(tokens.new), tokens.trainer, tokens.new)
    gap = tokens.reference - new
    gap = np.clip(gap[np.isfinite(gap)], -LARGEST, LARGEST)
    version = batch.weight_version
    if len(gap) < FEWEST or version is None:
        return
    k3 = float((gap**2).mean() / 2)
    if (version == 0 and k3 > ROUNDING) or (version > 0 and np.abs(gap).max() == 0):
        yield Cause("reference", 1.0, k3)
