"""Combines the data of all ranks of a TRL run into one record per step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from ..engine.logits import LogitStatistics
from ..engine.losses import kl_tokens
from ..engine.measure import LARGEST_K3
from ..mismatch import Response
from ..record import NUMBER_FIELDS, Event, StepRecord
from ..rollouts import rollouts_of
from ..run import Sample

EQUAL = 1e-8
"""Difference below which the rewards of a group count as equal. The standard deviation cannot be used, because float32
rounding makes it differ from 0."""


@dataclass(frozen=True)
class Ids:
    """Token ids with a special meaning."""

    ends: frozenset[int]
    pad: int | None
    template: frozenset[int]


@dataclass
class Local:
    """The data of one rank for the current step, accumulated over its micro-batches."""

    losses: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    prompt_in_mask: int = 0
    pad_in_mask: int = 0
    mask_gaps: int = 0
    tokens: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """The sum of each per-token quantity (or one sum for each of the most likely tokens), and the number of tokens."""
    ratio_max: float | None = None
    largest_difference: float | None = None
    """Largest difference between the log-probabilities from the trainer and the generator, in nats."""
    given: set[str] = field(default_factory=set)
    rewards: dict[str, tuple[float, list[float]]] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rollouts: list[Sample] = field(default_factory=list)
    """Prompts and completions, with their turns and tool calls."""
    responses: list[list[int]] = field(default_factory=list)
    """Ids of the responses, until the tokens of the responses are counted."""
    lengths: list[int] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)
    ends: int = 0
    headers: int = 0
    turns: int | None = None
    """Number of model turns over all responses; None if every response is one turn by construction."""
    generation_training_mode: bool | None = None
    generation_checkpointing: bool | None = None
    grad_norm: float | None = None
    not_finite: str | None = None
    """"NaN" or "infinite" if the gradient is not finite; otherwise None."""
    learning_rate: float | None = None
    skipped: str | None = None
    applied: bool | None = None
    moved: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    progress: dict[str, float | None] = field(default_factory=dict)
    token_batch: list[Response] = field(default_factory=list)
    """Responses for the token batch of the step; empty on most steps."""

    def batch(self, inputs: Mapping[str, Any], loss: Tensor, ends: frozenset[int], logprobs: Tensor | None) -> None:
        """Add a micro-batch: prompts [B, P] padded on the left, responses [B, T] padded on the right, and advantages
        [B] or [B, T]."""
        ids, mask, tools = inputs["completion_ids"], inputs["completion_mask"], inputs.get("tool_mask")
        advantages = inputs["advantages"]
        advantages = advantages if advantages.dim() == 1 else advantages[:, 0]
        self.losses.append(float(loss.detach()))
        self.advantages += advantages.float().tolist()
        self.mask_gaps += int((mask.diff(dim=1) > 0).sum())
        self.prompt_in_mask += int((inputs["prompt_mask"].diff(dim=1) < 0).sum())
        # tokens after the first end token are padding, whatever their id, because a policy may sample the padding id
        # itself
        trained = trained_mask(inputs)
        is_end = torch.isin(ids, torch.tensor(sorted(ends), device=ids.device)).int()
        before = is_end.cumsum(1) - is_end
        if tools is not None:  # every turn has an end token
            begins = trained & ~torch.nn.functional.pad(trained, (1, 0))[:, :-1]
            before = before - torch.where(begins, before, 0).cummax(1).values
        self.pad_in_mask += int((trained & (before > 0)).sum())
        self._logprobs(inputs, trained, logprobs)

    def _logprobs(self, inputs: Mapping[str, Any], mask: Tensor, logprobs: Tensor | None) -> None:
        """Add the log-probabilities [B, T] of the loss, the rollout and the generator, and the advantages."""
        old, sampled = inputs.get("old_per_token_logps"), inputs.get("sampling_per_token_logps")
        named = {"old": old, "reference": inputs.get("ref_per_token_logps"), "sampling": sampled}
        self.given |= {name for name, there in named.items() if there is not None}
        fresh = bool(self.texts)  # the rollout is from this step, so no update has happened since
        scored = old if old is not None else logprobs if fresh else None
        if sampled is not None and scored is not None:
            self._mismatch(sampled[mask].float(), scored[mask].float())
        if logprobs is None or not mask.any():
            return
        spread = inputs["advantages"].float()
        spread = spread[:, None].expand_as(logprobs) if spread.dim() == 1 else spread
        now = logprobs[mask].float()
        self.add("logprob", now)
        self.add("spread", spread[mask])
        self.add("product", now * spread[mask])
        if old is not None:
            ratio = (now - old[mask].float()).exp()
            self.add("ratio_mean", ratio)
            self.ratio_max = max(self.ratio_max or 0.0, float(ratio.max()))
            if fresh:
                self.add("ratio_first_minibatch", (ratio - 1).abs())

    def _mismatch(self, generator: Tensor, trainer: Tensor) -> None:
        """Record how much the log-probabilities [M] from the trainer and the generator differ on the same sampled
        tokens."""
        known = ~generator.isnan()  # vLLM returns NaN if it could not score a token
        generator, trainer = generator[known], trainer[known]
        if not len(generator):
            return
        self.add("rollout_mismatch_kl", kl_tokens(generator, trainer, "k3").clamp(max=LARGEST_K3))
        difference = (trainer - generator).abs()
        self.add("rollout_logp_diff", difference)
        self.largest_difference = max(self.largest_difference or 0.0, float(difference.max()))

    def add(self, name: str, values: Tensor) -> None:
        """Add values [M] or [M, 5] to the sum of a quantity."""
        total, count = self.tokens.get(name, (0.0, 0))
        added = values.double().sum(0).cpu().numpy()
        self.tokens[name] = total + added, count + len(values)

    def sharpness(self, rows: LogitStatistics, eos_probability: Tensor) -> None:
        """Add logit statistics at N positions."""
        self.add("logit_max", rows.largest)
        self.add("logit_gap", rows.gap)
        self.add("entropy_mean", rows.entropy)
        self.add("topk_probs", rows.top_probs)
        self.add("eos_probability", eos_probability)

    def rollout(self, name: str, weight: float, given: list[Any], named: Mapping[str, Any], ids: Ids) -> None:
        """Add the input and the result of a reward function, in the order of the prompts."""
        self.rewards[name] = weight, [math.nan if r is None else float(r) for r in given]
        if self.prompts:
            return
        self.prompts = [_text(p) for p in named["prompts"]]
        self.texts = [_text(c) for c in named["completions"]]
        pairs = zip(named["prompts"], named["completions"], strict=True)
        self.rollouts = [s for p, c in pairs for s in islice(rollouts_of({"prompt": p, "completion": c}), 1)]
        self.responses = [[int(i) for i in tokens] for tokens in named.get("completion_ids") or []]
        ended = ids.ends | {ids.pad}
        self.cut = [not tokens or tokens[-1] not in ended for tokens in self.responses]  # TRL counts in the same way

    def counted(self, tool_mask: Tensor | None, ids: Ids) -> None:
        """Count the tokens of the responses that were rewarded; a tool mask [B, T] is 1 on the model's tokens.

        Text from a tool or an environment does not count towards lengths, end tokens and headers.
        """
        responses, self.responses = self.responses, []
        for row, tokens in enumerate(responses):
            own = [True] * len(tokens)
            if tool_mask is not None and bool(tool_mask[row].any()):  # all 0: truncated and excluded from the loss
                own = tool_mask[row, : len(tokens)].bool().tolist()
            turns = _turns(tokens, own)
            self.lengths.append(sum(map(len, turns)))
            self.ends += max((sum(i in ids.ends for i in turn) for turn in turns), default=0)
            self.headers += any(i in ids.template for turn in turns for i in turn)
            if tool_mask is not None:
                self.turns = (self.turns or 0) + len(turns)


def rollouts(parts: Sequence[Local], settings: Mapping[str, Any]) -> list[Sample]:
    """Return all responses of a step, with their rewards if the result of every reward function is known."""
    said = [sample for part in parts for sample in part.rollouts]
    known = len(parts[0].rewards) >= int(settings.get("reward_functions", 1))
    totals = total_rewards(parts) if known else []
    if len(totals) != len(said):
        return said
    return [replace(s, reward=None if math.isnan(r) else r) for s, r in zip(said, totals, strict=True)]


def trained_mask(inputs: Mapping[str, Any]) -> Tensor:
    """Return the mask [B, T] of the trained response tokens, which are tokens of the model, not of a tool or an
    environment."""
    mask: Tensor = inputs["completion_mask"].bool()
    tools = inputs.get("tool_mask")
    return mask if tools is None else mask & tools.bool()


def _turns(tokens: Sequence[int], own: Sequence[bool]) -> list[list[int]]:
    """Return the model's tokens as one list per turn."""
    stretches = groupby(zip(tokens, own, strict=True), key=itemgetter(1))
    return [[token for token, _ in stretch] for mine, stretch in stretches if mine]


def _text(turn: Any) -> str:
    """Return a prompt or response as text; for a dialogue, return its last turn."""
    if isinstance(turn, str):
        return turn
    last = turn[-1] if isinstance(turn, Sequence) and turn else turn
    content = last.get("content") if isinstance(last, Mapping) else last
    return content if isinstance(content, str) else str(content)


def total_rewards(parts: Sequence[Local]) -> list[float]:
    """Return the weighted sums of the reward functions over all ranks. A function that returned no value for a response
    is ignored for that response."""
    columns = []
    for name in parts[0].rewards:
        weight = parts[0].rewards[name][0]
        columns.append([weight * r for part in parts for r in part.rewards.get(name, (0.0, []))[1]])
    return [
        math.nan if all(r != r for r in row) else math.fsum(r for r in row if r == r)
        for row in zip(*columns, strict=False)
    ]


def merged(parts: Sequence[Local], step: int, settings: Mapping[str, Any]) -> StepRecord:
    """Merge the data of all ranks into one record. Metrics that TRL computes over all ranks are used as they are."""
    first = parts[0]
    unnamed = first.grad_norm is None  # a norm that is not finite already shows this
    broken = next((p.not_finite for p in parts if p.not_finite is not None), None) if unnamed else None
    values: dict[str, Any] = {
        **first.progress,
        "learning_rate": first.learning_rate,
        "update_applied": first.applied,
        "update_skipped_reason": first.skipped,
        "weight_delta": first.moved,
        "grad_norm": first.grad_norm,
        "generation_training_mode": first.generation_training_mode,
        "generation_checkpointing": first.generation_checkpointing,
        "prompt_tokens_in_mask": sum(p.prompt_in_mask for p in parts),
        "pad_tokens_in_mask": sum(p.pad_in_mask for p in parts),
        "response_tokens_outside_mask": sum(p.mask_gaps for p in parts),
        "loss": _mean([loss for p in parts for loss in p.losses]),
        "rollout_logp_diff_max": max(
            (p.largest_difference for p in parts if p.largest_difference is not None), default=None
        ),
        "ratio_max": max((p.ratio_max for p in parts if p.ratio_max is not None), default=None),
        "events": broken and [Event(kind="nan", message=f"the gradient is {broken}")],
    }
    values |= _advantages([a for p in parts for a in p.advantages])
    values |= _rewards(parts, settings) or _of_trl(first.metrics, settings)
    values |= _lengths(parts)
    values |= _tokens(parts)
    values |= _measured(first.metrics, settings)
    return StepRecord(step=step, **{k: v for k, v in values.items() if v is not None})


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _advantages(values: list[float]) -> dict[str, Any]:
    if not values:
        return {}
    mean = math.fsum(values) / len(values)
    live = [v for v in values if abs(v) > 1e-6]
    return {
        "advantage_mean": mean,
        "advantage_std": math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)),
        "advantage_min": min(values),
        "advantage_max": max(values),
        "advantage_rms_live": math.sqrt(math.fsum(v * v for v in live) / len(live)) if live else None,
        "advantage_abs_values": sorted({round(abs(v), 4) for v in live})[:8] or None,
    }


def _rewards(parts: Sequence[Local], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the rewards, for a step that generated responses. The result is empty if the values of a
    reward function are unknown, because the sum of the other functions is not the reward."""
    names = parts[0].rewards
    totals = total_rewards(parts)
    if not totals or len(names) < int(settings.get("reward_functions", 1)):
        return {}
    known = [r for r in totals if r == r]
    mean = _mean(known)
    components = {n: _mean([r for p in parts for r in p.rewards[n][1] if r == r]) for n in names}
    return {
        "reward_mean": mean,
        "reward_std": math.sqrt(math.fsum((r - (mean or 0.0)) ** 2 for r in known) / len(known)) if known else None,
        "reward_min": min(known, default=None),
        "reward_max": max(known, default=None),
        "reward_components": {n: c for n, c in components.items() if c is not None} if len(names) > 1 else None,
        "judge_failure_rate": 1 - len(known) / len(totals),
        **_groups(totals, int(settings["group_size"])),
    }


def _groups(totals: list[float], k: int) -> dict[str, Any]:
    """Return the fields of groups of ``k`` consecutive responses, with the ranks in order. Groups with a missing reward
    are skipped."""
    if len(totals) % k:
        return {}
    groups = [g for g in (totals[i : i + k] for i in range(0, len(totals), k)) if not any(map(math.isnan, g))]
    if not groups:
        return {}
    dead = [g for g in groups if max(g) - min(g) < EQUAL]
    top, floor = max(map(max, groups)), min(map(min, groups))
    return {
        "groups": len(groups),
        "zero_variance_groups": len(dead),
        "live_groups": len(groups) - len(dead),
        "all_correct_groups": sum(g[0] == top for g in dead) if top > floor else None,
        "all_wrong_groups": sum(g[0] == floor for g in dead) if top > floor else None,
        "group_rewards": groups,
    }


def _lengths(parts: Sequence[Local]) -> dict[str, Any]:
    lengths = sorted(n for p in parts for n in p.lengths)
    if not lengths:
        return {}
    cut = [c for p in parts for c in p.cut]
    texts = Counter(t.strip() for p in parts for t in p.texts)
    shares = [n / sum(texts.values()) for n in texts.values()]
    return {
        "response_length_mean": sum(lengths) / len(lengths),
        "response_length_median": (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2,
        "response_length_min": lengths[0],
        "response_length_max": lengths[-1],
        "truncated_rate": sum(cut) / len(cut),
        "eos_rate": 1 - sum(cut) / len(cut),
        "eot_per_response": sum(p.ends for p in parts) / len(lengths),
        "turns_per_response": sum(turns) / len(lengths) if (turns := [p.turns for p in parts if p.turns]) else None,
        "chat_header_rate": sum(p.headers for p in parts) / len(lengths),
        "unique_rate": len(texts) / sum(texts.values()),
        "top_pattern_share": max(shares),
        "pattern_entropy": -math.fsum(s * math.log(s) for s in shares),
    }


def _tokens(parts: Sequence[Local]) -> dict[str, Any]:
    """Return means over the tokens of all ranks."""
    means: dict[str, Any] = {}
    for name in {name for p in parts for name in p.tokens}:
        seen = [p.tokens[name] for p in parts if name in p.tokens]
        if count := sum(n for _, n in seen):
            means[name] = (sum(total for total, _ in seen) / count).tolist()
    if "topk_probs" in means:
        means["top1_prob"] = means["topk_probs"][0]
    if "logprob" in means:
        logprob, spread, product = (means.pop(name) for name in ("logprob", "spread", "product"))
        means["logp_advantage_cov"] = product - logprob * spread
    return means


_OF_TRL = {
    "clip_ratio/region_mean": "clip_fraction",
    "sampling/importance_sampling_ratio/mean": "rollout_weight_mean",
    "sampling/importance_sampling_ratio/min": "rollout_weight_min",
    "sampling/importance_sampling_ratio/max": "rollout_weight_max",
    "tools/call_frequency": "tool_calls_per_response",
    "tools/failure_frequency": "tool_failure_rate",
}
"""Names of TRL's metrics, each with the record field of the same meaning."""


def _measured(metrics: Mapping[str, float], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return TRL's own exact means, and metrics that a reward function logged under the name of a record field.

    TRL measures entropy at the sampling temperature, so its value is used only if the temperature is 1.
    """
    found: dict[str, Any] = {name: value for name, value in metrics.items() if name in NUMBER_FIELDS}
    found |= {name: metrics.get(key) for key, name in _OF_TRL.items()}
    found["kl_estimator"] = "k3" if "kl" in found else None
    # TRL logs 0.0 if no token was left in the mask, so nothing was measured
    if metrics.get("entropy"):
        if settings.get("temperature") == 1.0:
            found["entropy_mean"] = metrics["entropy"]
        coef = metrics.get("entropy_coef", settings.get("entropy_coef"))
        found["entropy_loss"] = -coef * metrics["entropy"] if coef else None
    return found


def _of_trl(metrics: Mapping[str, float], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rewards as TRL logs them, for steps on which the result of a reward function is unknown."""
    found: dict[str, Any] = {"reward_mean": metrics.get("reward"), "reward_std": metrics.get("reward_std")}
    components = {k.split("/")[1]: v for k, v in metrics.items() if k.startswith("rewards/") and k.endswith("/mean")}
    found["reward_components"] = components if len(components) > 1 else None
    if settings.get("normaliser") != "batch":  # TRL then logs the share for the whole batch, 0 or 1
        found["zero_variance_share"] = metrics.get("frac_reward_zero_std")
    return found
