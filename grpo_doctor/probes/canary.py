"""The canary test: checks that a trainer's whole loop raises the probability of a token that a scripted reward favours.

Two arms start from the same weights. In one arm, the planted token is rewarded. In the other arm, the same rewards are
shuffled among the samples. If the trainer learns, the results of the two arms differ.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .composite import completed
from .crafted_inputs import PROMPTS, device_of, flat_ids, pad_left, special_ids
from .entry_points import Adapter, AdapterError, Ids, Prompt
from .loss_trials import advantages_of
from .model_modes import fixed_chance
from .runner import SMALL, move_to, sampler_copies
from .state_guard import Snapshot
from .tokenizers import readable

STEPS = 24
"""Number of updates per arm."""
GROUPS, SIZE = 4, 8
"""Number of groups per batch, and number of samples per group."""
ENOUGH = 4.0
"""Minimum difference between the arms, in standard errors, at which the trainer counts as learning."""
FASTEST, FAST = 3e-3, 1e-4
"""Learning rates that have an effect within `STEPS` updates, for a small model and for other models. If the trainer's
learning rate is higher, it is kept."""
FEW, MORE = 0.2, 10
"""`FEW`: share of parameters below which the trained parameters count as an adapter. `MORE`: factor by which an
adapter's learning rate is higher."""


class Canary(NamedTuple):
    """The result of both arms for the planted token."""

    token: int
    word: str
    steps: int
    before: float
    """The token's share of the sampled tokens at the start."""
    paid: float
    """The token's share of the sampled tokens over the last third of the steps, in the arm that is rewarded for the
    token."""
    control: float
    """The token's share of the sampled tokens over the last third of the steps, in the arm with shuffled rewards."""
    effect: float
    """Difference between ``paid`` and ``control`` in standard errors."""

    @property
    def learned(self) -> bool:
        return self.effect >= ENOUGH

    def __str__(self) -> str:
        """Describe the result in one sentence."""
        return (
            f"The trainer {'learns' if self.learned else 'does not learn'} from the reward: the share of the rewarded "
            f"token {self.word!r} went from {self.before:.3g} to {self.paid:.3g} in {self.steps} steps, and to "
            f"{self.control:.3g} with shuffled rewards (difference: {self.effect:.1f} standard errors)."
        )


class _Loop:
    """The trainer's loop: rollout, rewards, advantages, update, and syncing the weights to the sampler."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter, self.seams = adapter, completed(adapter)
        self.special = special_ids(adapter.tokenizer)
        if "step" not in self.seams or adapter.optimizer is None or adapter.model is None:
            raise AdapterError(
                f"{adapter.name}: the adapter lacks what --canary needs: model, optimizer, and step, backward or loss"
            )
        if "rollout" not in adapter.seams and not {"render", "sample", "extract"} <= self.seams.keys():
            raise AdapterError(
                f"{adapter.name}: the adapter lacks what --canary needs: rollout, or render, sample and extract"
            )
        chosen = list(adapter.prompts or PROMPTS)
        self.prompts: list[Prompt] = [chosen[n % len(chosen)] for n in range(GROUPS) for _ in range(SIZE)]

    def sampled(self) -> list[Ids]:
        """Return the responses to all prompts as ids, up to the end of each response."""
        if "rollout" in self.adapter.seams:
            found = self.adapter.seams["rollout"](self.prompts)
        else:
            rows = [flat_ids(self.seams["render"](p)) for p in self.prompts]
            ids, real = pad_left(rows, self.special.pad, device_of(self.adapter.model))
            tokens = self.seams["sample"](ids, real)
            found = self.seams["extract"](tokens[0] if isinstance(tokens, tuple) else tokens, ids, real)
        rows = [self._ids(row) for row in found]
        if len(rows) != len(self.prompts):
            raise AdapterError(
                f"{self.adapter.name}: rollout returned {len(rows)} responses for {len(self.prompts)} prompts; the "
                "canary needs one for each"
            )
        return rows

    def _ids(self, row: Any) -> Ids:
        if isinstance(row, str):
            return list(self.adapter.tokenizer.encode(row, add_special_tokens=False)) or [self.special.pad]
        ids = flat_ids(row)
        end = self.special.eos
        return ids[: ids.index(end) + 1] if end in ids else ids or [self.special.pad]

    def update(self, responses: list[Ids], rewards: Tensor) -> None:
        """Run one step on these rewards (G, K)."""
        advantages = advantages_of(self.seams.get("advantages", _normalised), rewards).float().flatten()
        self.seams["step"](self.prompts, responses, advantages.to(device_of(self.adapter.model)))
        if "sync" in self.seams:
            self.seams["sync"]()


def _normalised(rewards: Tensor) -> Tensor:
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


def canary(adapter: Adapter, *, steps: int = STEPS, time_limit: float = 600.0, device: str | None = None) -> Canary:
    """Train both arms and restore everything.

    Raises `AdapterError` if the adapter has no complete loop, no token can be planted, or the time limit is reached.
    """
    if device is not None:
        move_to(adapter, device)
    adapter.tokenizer = readable(adapter.tokenizer, adapter.model)
    loop, snapshot, ends = _Loop(adapter), Snapshot(adapter), time.monotonic() + time_limit
    snapshot.add(sampler_copies(adapter, loop.seams, snapshot))
    try:
        fixed_chance()
        token, before = _planted(loop.sampled(), loop.special.all)
        snapshot.restore()
        arms = []
        for shuffled in (False, True):
            _fast(adapter)
            arms.append(_trained(loop, token, steps, shuffled, ends))
            snapshot.restore()
    finally:
        snapshot.restore()
    paid, control, effect = _compared(*arms)
    return Canary(token, str(adapter.tokenizer.decode([token])), steps, before, paid, control, effect)


def _planted(responses: Sequence[Ids], special: frozenset[int]) -> tuple[int, float]:
    """Return a token that occurs in some but not all responses, and its share of all tokens."""
    holding = Counter(i for row in responses for i in set(row) if i not in special)
    fits = [i for i, count in holding.items() if 0.05 * len(responses) <= count <= 0.7 * len(responses)]
    if not fits:
        raise AdapterError("no token occurs in only some of the responses, so there is none to reward")
    token = min(fits, key=lambda i: (abs(holding[i] - 0.3 * len(responses)), i))
    return token, _share(responses, token)


def _share(responses: Sequence[Ids], token: int) -> float:
    return sum(row.count(token) for row in responses) / sum(map(len, responses))


def _fast(adapter: Adapter) -> None:
    """Raise learning rates until a few updates have a visible effect."""
    assert adapter.optimizer is not None
    assert adapter.model is not None
    every = sum(p.numel() for p in adapter.model.parameters())
    rate = FASTEST if every <= SMALL else FAST
    if sum(p.numel() for p in adapter.model.parameters() if p.requires_grad) < FEW * every:
        rate *= MORE
    for group in adapter.optimizer.param_groups:
        group["lr"] = max(float(group["lr"]), rate)


class _Arm(NamedTuple):
    shares: list[float]
    """The token's share of the sampled tokens at each step."""
    tokens: float
    """Mean number of sampled tokens per step."""


def _trained(loop: _Loop, token: int, steps: int, shuffled: bool, ends: float) -> _Arm:
    fixed_chance(1)
    order = torch.Generator().manual_seed(2)
    shares, tokens = [], 0
    for _ in range(steps):
        if time.monotonic() > ends:
            raise AdapterError(f"{loop.adapter.name}: the canary exceeded its time limit; use shorter responses")
        responses = loop.sampled()
        shares.append(_share(responses, token))
        tokens += sum(map(len, responses))
        rewards = torch.tensor([row.count(token) / len(row) for row in responses])
        if shuffled:
            rewards = rewards[torch.randperm(len(rewards), generator=order)]
        loop.update(responses, rewards.view(GROUPS, SIZE))
    return _Arm(shares, tokens / steps)


def _compared(paid: _Arm, control: _Arm) -> tuple[float, float, float]:
    """Return the mean shares of both arms over the last third of the steps, and their difference in standard errors."""
    means, errors = [], []
    for arm in (paid, control):
        last = torch.tensor(arm.shares[-max(len(arm.shares) // 3, 2) :])
        mean = float(last.mean())
        chance = max(mean, 1 / arm.tokens) * (1 - min(mean, 0.99)) / arm.tokens
        means.append(mean)
        errors.append(max(float(last.var()), chance) / len(last))
    return means[0], means[1], (means[0] - means[1]) / sum(errors) ** 0.5
