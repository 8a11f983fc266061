"""The formulas of group-relative policy optimisation, each a pure function.

G groups of K responses, N = G x K responses of R token columns; a mask [N, R] selects the trained tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .settings import Settings

EPSILON = 1e-4
"""Value that is added to the standard deviation before division, as in TRL."""
EQUAL = 1e-8
"""Range within which the rewards of a group count as equal. A test on the advantages would not work. The float32 mean
of eight equal rewards differs from the rewards in the last bit, so the z-scores are not 0."""


def live_groups(rewards: Tensor) -> Tensor:
    """Return a tensor [G] of bool: whether the rewards [G, K] differ within each group."""
    return rewards.amax(1) - rewards.amin(1) > EQUAL


def advantages(rewards: Tensor, settings: Settings) -> Tensor:
    """Return advantages [G, K] for rewards [G, K]; group-relative estimators give 0 in a group with equal rewards.

    ``grpo`` centres on the group (2402.03300) and scales by the standard deviation of the group, of the batch, or not
    at all (Dr. GRPO, 2503.20783). ``rloo`` centres each response on the mean of the other responses (2402.14740).
    ``reinforce++-baseline`` centres on the group and scales by the batch (2501.03262). ``rank`` replaces rewards by
    ranks (with averaged ties) before the group's z-score.
    """
    k = rewards.shape[1]
    if settings.advantage_estimator == "rank":
        rewards = average_ranks(rewards)
    centred = rewards - rewards.mean(1, keepdim=True)
    if settings.advantage_estimator == "rloo":
        centred = centred * (k / (k - 1))
    elif settings.advantage_estimator == "reinforce++-baseline":
        centred = centred / (centred.std() + EPSILON)
    elif settings.scale_rewards == "group":
        centred = centred / (rewards.std(1, correction=settings.advantage_ddof, keepdim=True) + EPSILON)
    elif settings.scale_rewards == "batch":
        centred = centred / (rewards.std(correction=settings.advantage_ddof) + EPSILON)
    return torch.where(live_groups(rewards)[:, None], centred, 0.0)


def average_ranks(rewards: Tensor) -> Tensor:
    """Return ranks 0 to K-1 within each group [G, K]; equal rewards share the mean of their ranks."""
    below = (rewards[:, :, None] > rewards[:, None, :]).sum(-1)
    equal = (rewards[:, :, None] == rewards[:, None, :]).sum(-1)
    return below + (equal - 1) / 2


def kl_tokens(logprobs: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """Return the KL from the policy to the reference at each sampled token [N, R], in nats (Schulman's k1, k2, k3)."""
    log_ratio = reference - logprobs
    if estimator == "k1":
        return -log_ratio
    if estimator == "k2":
        return log_ratio.square() / 2
    return log_ratio.exp() - 1 - log_ratio


def mean_over(tokens: Tensor, mask: Tensor, settings: Settings) -> Tensor:
    """Reduce per-token values [N, R] to one number, by ``loss_type``.

    ``dapo``: mean over all trained tokens. ``grpo``: mean over responses of the mean of each response. ``dr_grpo``: sum
    over all trained tokens, divided by the number of responses times the constant length limit.
    """
    tokens = torch.where(mask > 0, tokens, 0.0)  # multiplying by the mask would keep the NaN of an untrained column
    if settings.loss_type == "dapo":
        return tokens.sum() / mask.sum().clamp(min=1)
    if settings.loss_type == "grpo":
        return (tokens.sum(1) / mask.sum(1).clamp(min=1)).mean()
    return tokens.sum() / (len(tokens) * settings.max_completion_length)


class Terms(NamedTuple):
    """The terms of the objective as scalars, before signs and coefficients, and statistics of the ratio."""

    policy: Tensor
    kl: Tensor
    entropy: Tensor
    ratio: Tensor  # [N, R]
    clipped: Tensor  # [N, R] of bool: whether the clipped term was the smaller one


def objective_terms(
    logprobs: Tensor,
    old: Tensor,
    reference: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    entropy: Tensor,
    settings: Settings,
) -> Terms:
    """Compute KL, entropy, and PPO's clipped surrogate with the ratio of a token or a sequence (GSPO, 2507.18071).

    All inputs are [N, R] except ``advantages`` [N].
    """
    log_ratio = logprobs - old
    if settings.importance_sampling_level == "sequence":
        mean = torch.where(mask > 0, log_ratio, 0.0).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        log_ratio = mean.expand_as(log_ratio)
    ratio = log_ratio.exp()
    high = settings.epsilon if settings.epsilon_high is None else settings.epsilon_high
    a = advantages[:, None]
    free, bound = ratio * a, ratio.clamp(1 - settings.epsilon, 1 + high) * a
    policy = -mean_over(torch.minimum(free, bound), mask, settings)
    kl = torch.zeros((), device=policy.device)
    if reference is not None:
        kl = mean_over(kl_tokens(logprobs, reference, settings.kl_estimator), mask, settings)
    return Terms(policy, kl, mean_over(entropy, mask, settings), ratio, (bound < free) & (mask > 0))
