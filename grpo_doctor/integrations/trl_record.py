"""What the ranks of a TRL run saw of one step, and the one record that follows from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..engine.logits import LogitStatistics
from ..record import NUMBER_FIELDS, StepRecord
from ..run import Sample

SHOWN = 4
"""Responses of a step that become samples."""
EQUAL = 1e-8
"""Rewards of a group that differ by less are equal; a std test fails on what float32 leaves of a mean."""


@dataclass
class Local:
    """What one rank saw of the step under way. Micro-batches add up."""

    losses: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    prompt_in_mask: int = 0
    pad_in_mask: int = 0
    mask_gaps: int = 0
    first_ratio: list[float] = field(default_factory=list)
    mismatch: list[float] = field(default_factory=list)
    looked_at: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    top_probs: list[float] = field(default_factory=lambda: [0.0] * 5)
    rewards: dict[str, tuple[float, list[float]]] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)
    ends: int = 0
    generation_training_mode: bool | None = None
    generation_checkpointing: bool | None = None
    grad_norm: float | None = None
    not_finite: str | None = None
    learning_rate: float | None = None
    skipped: str | None = None
    applied: bool | None = None
    moved: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def batch(self, inputs: Mapping[str, Any], loss: Tensor, ends: set[int]) -> None:
        """A micro-batch: prompts [B, P] padded left, responses [B, T] padded right, advantages [B] or [B, T]."""
        mask, ids = inputs["completion_mask"], inputs["completion_ids"]
        advantages = inputs["advantages"]
        advantages = advantages if advantages.dim() == 1 else advantages[:, 0]
        self.losses.append(float(loss.detach()))
        self.advantages += advantages.float().tolist()
        self.mask_gaps += int((mask.diff(dim=1) > 0).sum())
        self.prompt_in_mask += int((inputs["prompt_mask"].diff(dim=1) < 0).sum())
        # what stands behind the first end is padding, whatever its id: a policy may sample the padding id itself
        is_end = torch.isin(ids, torch.tensor(sorted(ends), device=ids.device)).int()
        self.pad_in_mask += int((mask.bool() & (is_end.cumsum(1) - is_end > 0)).sum())
        sampled, old = inputs.get("sampling_per_token_logps"), inputs.get("old_per_token_logps")
        if sampled is not None and old is not None:
            difference = (sampled - old)[mask.bool()].float()
            self.mismatch += [float((difference.exp() - difference - 1).nanmean())]

    def sharpness(self, rows: LogitStatistics) -> None:
        """Statistics of the logits at N positions."""
        self.looked_at += len(rows.largest)
        named = {"logit_max": rows.largest, "logit_gap": rows.gap, "entropy": rows.entropy}
        for name, values in named.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(values.sum())
        added = rows.top_probs.sum(0).tolist()
        self.top_probs = [a + b for a, b in zip(self.top_probs, added, strict=True)]

    def rollout(
        self, name: str, weight: float, given: list[Any], named: Mapping[str, Any], ends: set[int], pad: int | None
    ) -> None:
        """What a reward function was shown and what it gave, in the order of the prompts."""
        self.rewards[name] = weight, [math.nan if r is None else float(r) for r in given]
        if self.prompts:
            return
        self.prompts = [_text(p) for p in named["prompts"]]
        self.texts = [_text(c) for c in named["completions"]]
        responses = named.get("completion_ids") or []
        self.lengths = [len(ids) for ids in responses]
        self.cut = [not len(ids) or int(ids[-1]) not in {*ends, pad} for ids in responses]  # as TRL counts
        self.ends = sum(sum(int(i) in ends for i in ids) for ids in responses)

    def samples(self, step: int) -> list[Sample]:
        """A few responses with what they earned."""
        totals = total_rewards([self])
        return [
            Sample(step=step, prompt=prompt[:2000], response=text[:2000], reward=reward)
            for prompt, text, reward in list(zip(self.prompts, self.texts, totals, strict=False))[:SHOWN]
        ]


def _text(turn: Any) -> str:
    """A prompt or response as text; of a dialogue the last turn."""
    if isinstance(turn, str):
        return turn
    last = turn[-1] if isinstance(turn, Sequence) and turn else turn
    content = last.get("content") if isinstance(last, Mapping) else last
    return content if isinstance(content, str) else str(content)


def total_rewards(parts: Sequence[Local]) -> list[float]:
    """Weighted sums of the reward functions over all ranks; a function that gave none for a response is left out."""
    columns = []
    for name in parts[0].rewards:
        weight = parts[0].rewards[name][0]
        columns.append([weight * r for part in parts for r in part.rewards.get(name, (0.0, []))[1]])
    return [
        math.nan if all(r != r for r in row) else math.fsum(r for r in row if r == r)
        for row in zip(*columns, strict=False)
    ]


def merged(parts: Sequence[Local], step: int, settings: Mapping[str, Any]) -> StepRecord:
    """One record of all ranks. What TRL measured over all ranks itself is taken from it."""
    first = parts[0]
    values: dict[str, Any] = {
        "learning_rate": first.learning_rate,
        "update_applied": first.applied,
        "update_skipped_reason": first.skipped or (f"not finite: {first.not_finite}" if first.not_finite else None),
        "weight_delta": first.moved,
        "grad_norm": first.grad_norm,
        "generation_training_mode": first.generation_training_mode,
        "generation_checkpointing": first.generation_checkpointing,
        "prompt_tokens_in_mask": sum(p.prompt_in_mask for p in parts),
        "pad_tokens_in_mask": sum(p.pad_in_mask for p in parts),
        "response_tokens_outside_mask": sum(p.mask_gaps for p in parts),
        "loss": _mean([loss for p in parts for loss in p.losses]),
        "rollout_mismatch_kl": _mean([m for p in parts for m in p.mismatch]),
    }
    values |= _advantages([a for p in parts for a in p.advantages])
    values |= _rewards(parts, int(settings["group_size"]))
    values |= _lengths(parts)
    values |= _sharpness(parts)
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


def _rewards(parts: Sequence[Local], k: int) -> dict[str, Any]:
    """Of steps that generated: groups are ``k`` consecutive responses, over the ranks in their order."""
    totals = total_rewards(parts)
    if not totals or len(totals) % k:
        return {}
    known = [r for r in totals if r == r]
    groups = [totals[i : i + k] for i in range(0, len(totals), k)]
    dead = [g for g in groups if max(g) - min(g) < EQUAL]
    mean = _mean(known)
    names = parts[0].rewards
    components = {n: _mean([r for p in parts for r in p.rewards[n][1] if r == r]) for n in names}
    top, floor = max(known, default=math.nan), min(known, default=math.nan)
    return {
        "reward_mean": mean,
        "reward_std": math.sqrt(math.fsum((r - (mean or 0.0)) ** 2 for r in known) / len(known)) if known else None,
        "reward_min": floor if known else None,
        "reward_max": top if known else None,
        "reward_components": {n: c for n, c in components.items() if c is not None} if len(names) > 1 else None,
        "judge_failure_rate": 1 - len(known) / len(totals),
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
    return {
        "response_length_mean": sum(lengths) / len(lengths),
        "response_length_median": (lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2,
        "response_length_min": lengths[0],
        "response_length_max": lengths[-1],
        "truncated_rate": sum(cut) / len(cut),
        "eos_rate": 1 - sum(cut) / len(cut),
        "eot_per_response": sum(p.ends for p in parts) / len(lengths),
        "unique_rate": len(texts) / sum(texts.values()),
        "top_pattern_share": max(texts.values()) / sum(texts.values()),
    }


def _sharpness(parts: Sequence[Local]) -> dict[str, Any]:
    rows = sum(p.looked_at for p in parts)
    if not rows:
        return {}
    top = [sum(p.top_probs[i] for p in parts) / rows for i in range(5)]
    total = {name: sum(p.sums.get(name, 0.0) for p in parts) / rows for name in ("logit_max", "logit_gap", "entropy")}
    return {
        "logit_max": total["logit_max"],
        "logit_gap": total["logit_gap"],
        "topk_probs": top,
        "top1_prob": top[0],
        "entropy_mean": total["entropy"],
    }


def _measured(metrics: Mapping[str, float], settings: Mapping[str, Any]) -> dict[str, Any]:
    """TRL's own exact means, and what a reward function logged under the name of a record field.

    TRL's entropy is that of the tempered policy: ours is taken where T is not 1.
    """
    found = {name: value for name, value in metrics.items() if name in NUMBER_FIELDS}
    if "clip_ratio/region_mean" in metrics:
        found["clip_fraction"] = metrics["clip_ratio/region_mean"]
    # 0.0 is what TRL logs where no token was left in the mask: nothing was measured
    if settings.get("temperature") == 1.0 and metrics.get("entropy"):
        found["entropy_mean"] = metrics["entropy"]
    return found
