"""Computes the record of a step from the tensors of the step."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..probes.entry_points import Ids
from .engine import Engine, Prepared
from .generation import Generated
from .losses import kl_tokens, live_groups
from .task import Example, Score

LARGEST_K3 = 10.0
"""Maximum of k3 per token in the agreement fields, as in verl. Without this limit, single tokens that the trainer would
almost never sample would dominate the mean."""

Fields = dict[str, Any]


@dataclass(frozen=True)
class Rollout:
    """The generator's output of one step: N responses in consecutive groups of K."""

    examples: Sequence[Example]
    prompts: Sequence[Ids]
    responses: Sequence[Ids]  # as extracted by the trainer
    drawn: Sequence[Ids]  # as sampled by the generator
    generated: Generated
    texts: Sequence[str]
    scores: Sequence[Score]
    own: Sequence[Score]  # the task's own score of the sampled response, before any shaping
    finished: Sequence[bool]  # of the sampled response


def reward_fields(engine: Engine, rollout: Rollout, rewards: Tensor) -> Fields:
    """Return fields of the rewards [G, K] and of other results of the task."""
    s, task = engine.settings, engine.task
    live = live_groups(rewards)
    dead = rewards[~live, 0]
    fields: Fields = {
        "reward_mean": float(rewards.mean()),
        "reward_std": float(rewards.std()),
        "reward_min": float(rewards.min()),
        "reward_max": float(rewards.max()),
        "reward_components": _component_means(rollout.scores),
        "success_rate": _share([score.success for score in rollout.scores]),
        "group_rewards": rewards.tolist(),
        "group_size": s.num_generations,
        "groups": len(rewards),
        "live_groups": int(live.sum()),
        "zero_variance_groups": len(dead),
    }
    if task.bounds is not None:
        low, high = task.bounds
        fields["all_wrong_groups"] = int((dead <= low).sum())
        fields["all_correct_groups"] = int((dead >= high).sum())
    valid = _share([score.valid for score in rollout.scores])
    if valid is not None:
        fields["valid_rate"] = valid
        fields["reward_recomputed_gap"] = valid - (_share([score.valid for score in rollout.own]) or 0.0)
        if task.fallback:
            fields["fallback_rate"] = 1 - valid
    if type(engine).reward is not Engine.reward:  # the task's own score is then only a metric
        fields["eval_score"] = statistics.fmean(score.reward for score in rollout.own)
    return fields


def _share(flags: Sequence[bool | None]) -> float | None:
    known = [flag for flag in flags if flag is not None]
    return sum(known) / len(known) if known else None


def _component_means(scores: Sequence[Score]) -> dict[str, float] | None:
    names = dict.fromkeys(name for score in scores for name in score.components)
    return {name: statistics.fmean(score.components.get(name, 0.0) for score in scores) for name in names} or None


def advantage_fields(engine: Engine, rewards: Tensor, a: Tensor) -> Fields:
    """Return fields of the advantages [G, K]."""
    live = a[live_groups(rewards)]
    declared = engine.settings.declared()
    return {
        "advantage_mean": float(a.mean()),
        "advantage_std": float(a.std()),
        "advantage_min": float(a.min()),
        "advantage_max": float(a.max()),
        "advantage_abs_values": sorted({round(abs(x), 4) for x in live.flatten().tolist()})[:8],
        "advantage_rms_live": float(live.square().mean().sqrt()) if len(live) else None,
        "normaliser": declared["normaliser"],
        "advantage_ddof": engine.settings.advantage_ddof,
        "advantage_rank_mode": "average" if engine.settings.advantage_estimator == "rank" else None,
    }


def text_fields(engine: Engine, rollout: Rollout) -> Fields:
    """Return fields of the responses: lengths, end tokens, headers, and variety."""
    s = engine.settings
    lengths = [len(ids) for ids in rollout.drawn]
    patterns = Counter(rollout.texts)
    shares = [count / len(lengths) for count in patterns.values()]
    template = set(engine.tokenizer.all_special_ids) - set(engine.eos) - {engine.pad, engine.tokenizer.unk_token_id}
    ended = sum(rollout.finished) / len(lengths)
    fields: Fields = {
        "response_length_mean": statistics.fmean(lengths),
        "response_length_median": statistics.median(lengths),
        "response_length_min": min(lengths),
        "response_length_max": max(lengths),
        "eos_rate": ended,
        "truncated_rate": 1 - ended,
        "eot_per_response": sum(sum(t in engine.eos for t in ids) for ids in rollout.responses) / len(lengths),
        "chat_header_rate": sum(bool(template & set(ids)) for ids in rollout.responses) / len(lengths),
        "unique_rate": len(patterns) / len(lengths),
        "top_pattern_share": max(shares),
        "pattern_entropy": -sum(p * math.log(p) for p in shares),
        "temperature": s.temperature,
        "top_p": s.top_p,
        "top_k": s.top_k,
        "min_new_tokens": s.min_new_tokens,
        "max_new_tokens": s.max_completion_length,
        "generation_training_mode": rollout.generated.training_mode,
        "generation_checkpointing": rollout.generated.checkpointing,
    }
    if s.min_new_tokens:
        fields["eos_suppressed_rate"] = float(rollout.generated.eos_suppressed.float().mean())
    if engine.task.first_words is not None:
        first = engine.tokenizer.convert_ids_to_tokens([ids[0] for ids in rollout.drawn])
        fields["first_token_valid_rate"] = sum(word in engine.task.first_words for word in first) / len(first)
    return fields


def mask_fields(prepared: Prepared) -> Fields:
    """Return the fields that count tokens on the wrong side of the mask."""
    trained, attended = prepared.batch.mask.bool(), prepared.batch.attention_mask.bool()
    return {
        "prompt_tokens_in_mask": int((trained & attended & ~prepared.response).sum()),
        "pad_tokens_in_mask": int((trained & ~attended).sum()),
        "response_tokens_outside_mask": int((prepared.response & ~trained).sum()),
    }


def k3(sampled: Tensor, other: Tensor) -> float:
    """Return the KL from the policy that sampled the tokens to another policy, in nats per token, given the
    log-probabilities [M] of both."""
    return float(kl_tokens(sampled, other, "k3").clamp(max=LARGEST_K3).mean())


def agreement_fields(engine: Engine, rollout: Rollout, prepared: Prepared) -> Fields:
    """Compare the log-probabilities from the trainer and the generator on the sampled tokens."""
    drawn = prepared.last(prepared.response)
    lengths = torch.tensor([len(ids) for ids in rollout.drawn], device=drawn.device)
    width = rollout.generated.logprobs.shape[1]
    there = engine.own(torch.arange(width, device=drawn.device) < lengths[:, None], rollout.drawn)
    if int(there.sum()) != int(drawn.sum()):  # sampled tokens are missing from the batch, so nothing can be compared
        return {}
    return {
        "rollout_mismatch_kl": k3(rollout.generated.logprobs[there], prepared.old[drawn]),
        "rollout_mismatch_raw_kl": k3(rollout.generated.raw_logprobs[there], prepared.before.raw[drawn]),
    }


def sharpness_fields(engine: Engine, prepared: Prepared) -> Fields:
    """Return fields of the logits over response positions, before logits processors and temperature."""
    measured, eos = prepared.before.statistics, prepared.before.eos_probability
    if measured is None or eos is None:
        return {}
    coef = engine.settings.entropy_coef
    entropy = float(measured.entropy.mean())
    return {
        "logit_max": float(measured.largest.mean()),
        "logit_gap": float(measured.gap.mean()),
        "topk_probs": measured.top_probs.mean(0).tolist(),
        "top1_prob": float(measured.top_probs[:, 0].mean()),
        "entropy_mean": entropy,
        "entropy_min": float(measured.entropy.min()),
        "entropy_max": float(measured.entropy.max()),
        "entropy_coef": coef,
        "entropy_loss": -coef * entropy if coef else None,
        "eos_probability": float(eos.mean()),
    }


def reference_fields(engine: Engine, prepared: Prepared) -> Fields:
    """Return the KL to the reference over the trained tokens, before the update."""
    fields: Fields = {"kl_coef": engine.settings.beta}
    drawn = prepared.last(prepared.response)
    spread = prepared.advantages[:, None].expand_as(prepared.old)[drawn]
    logprobs = prepared.old[drawn]
    fields["logp_advantage_cov"] = float(((logprobs - logprobs.mean()) * (spread - spread.mean())).mean())
    if prepared.reference is not None:
        trained = prepared.mask > 0
        pair = prepared.old[trained], prepared.reference[trained]
        estimator = engine.settings.kl_estimator
        fields["kl"] = float(kl_tokens(*pair, estimator).mean())
        fields["kl_estimator"] = estimator
        fields["kl_k1"] = float(kl_tokens(*pair, "k1").mean())
        fields["kl_k3"] = float(kl_tokens(*pair, "k3").mean())
    return fields


def policy_fields(engine: Engine, rollout: Rollout, rewards: Tensor, prepared: Prepared) -> Fields:
    """Return fields of a forward pass of the policy over the batch, before the update."""
    return {
        **agreement_fields(engine, rollout, prepared),
        **sharpness_fields(engine, prepared),
        **reference_fields(engine, prepared),
        "by_task": task_fields(rollout, rewards, prepared),
    }


def task_fields(rollout: Rollout, rewards: Tensor, prepared: Prepared) -> dict[str, Fields] | None:
    """Return the main fields for each sub-task."""
    k = rewards.shape[1]
    members: dict[str, list[int]] = defaultdict(list)
    for i, example in enumerate(rollout.examples):
        if example.kind is not None:
            members[example.kind].append(i)
    return {kind: _one_task(rollout, rewards, prepared, rows, k) for kind, rows in sorted(members.items())} or None


def _one_task(rollout: Rollout, rewards: Tensor, prepared: Prepared, rows: list[int], k: int) -> Fields:
    groups = rewards[sorted({i // k for i in rows})]
    live = int(live_groups(groups).sum())
    fields: Fields = {
        "reward_mean": float(groups.mean()),
        "reward_std": float(groups.std()),
        "groups": len(groups),
        "live_groups": live,
        "zero_variance_groups": len(groups) - live,
        "response_length_mean": statistics.fmean(len(rollout.drawn[i]) for i in rows),
    }
    valid = _share([rollout.scores[i].valid for i in rows])
    if valid is not None:
        fields["valid_rate"] = valid
    measured, places = prepared.before.statistics, prepared.before.rows
    if measured is not None and places is not None:
        of_task = torch.isin(places, torch.tensor(rows, device=places.device))
        if of_task.any():
            fields["entropy_mean"] = float(measured.entropy[of_task].mean())
    return fields


def loss_fields(engine: Engine, prepared: Prepared, seen: Tensor, value: float) -> Fields:
    """Return fields of the objective at the log-probabilities [N, R] from which it was computed."""
    s = engine.settings
    zero = torch.zeros_like(seen)
    terms = engine.terms(seen, prepared.old, prepared.reference, prepared.advantages, prepared.mask, zero)
    trained = prepared.mask > 0
    ratio = terms.ratio[trained]
    policy, kl = float(terms.policy), s.beta * float(terms.kl)
    size = abs(policy) + abs(kl)
    return {
        "loss": value,
        "policy_loss": policy,
        "kl_loss": kl if s.beta else None,
        "kl_loss_share": abs(kl) / size if s.beta and size else None,
        "clip_fraction": float(terms.clipped.sum() / trained.sum().clamp(min=1)),
        "ratio_mean": float(ratio.mean()),
        "ratio_max": float(ratio.max()),
        "ratio_first_minibatch": float((ratio - 1).abs().mean()),
    }


def known(fields: Mapping[str, Any]) -> Fields:
    """Return the fields whose values are known."""
    return {name: value for name, value in fields.items() if value is not None}
