"""Answers to what people ask again and again about numbers that are as they should be. One line each, if it applies.

An answer explains a number of the log; it judges nothing. Each is told only where the rows show what it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..run import Run

ROWS = 4
"""Known values below which no rule is told of two columns, nor that one stands still: any two numbers agree with some
rule. What explains the sign or the zero of a number needs one row alone, which is what people paste."""
SHOWN = 3
"""Reward functions that are told of at most."""
RULED_OUT = -7.0
"""Reward at which a chosen response is ruled out, as PRF003 has it: that is no matter of how it is counted."""
PRINTED = 5e-5
"""Half a unit of the fourth decimal, to which trainers round a loss in their logs."""


def answers_of(run: Run) -> list[str]:
    """The answers that apply to a run of reinforcement learning or of preferences, in the order in which people ask."""
    if run.run_type == "preference":
        return [line for line in (_chosen_is_negative(run),) if line]
    if run.run_type != "rl":
        return []
    told = (
        _loss_is_the_kl_term(run) or _loss_is_zero(run),
        _loss_is_negative(run),
        _advantage_is_zero(run),
        _nothing_is_clipped(run),
        _norm_before_clipping(run),
        _resumed(run),
        _updates(run),
    )
    return [*(line for line in told if line), *_constant_components(run)]


def _known(run: Run, *names: str, rows: int = 1) -> list[np.ndarray] | None:
    """The rows on which all these columns are finite; None below so many of them."""
    columns = [run.column(name) for name in names]
    if any(column is None for column in columns):
        return None
    table = np.array(columns, float)
    table = table[:, np.isfinite(table).all(0)]
    return list(table) if table.shape[1] >= rows else None


def _loss_is_the_kl_term(run: Run) -> str | None:
    """Loss = beta x KL on every row, to the digits that are printed."""
    known = _known(run, "loss", "kl", rows=ROWS)
    if known is None:
        return None
    loss, kl = known
    if kl.min() < 0 or kl.max() <= 1.2 * kl.min() or loss.max() < 10 * PRINTED:
        return None
    beta = float(loss @ kl / (kl @ kl))
    if not np.all(np.abs(loss - beta * kl) <= 2 * PRINTED + 0.05 * beta * kl):
        return None
    return (
        f"Why is the loss so small, and why does it rise? It is the KL term: loss = {beta:.2g} x KL on every row. The "
        "policy term has the value 0 (ratio 1, advantages that sum to 0) and yet a gradient. A rising loss only says "
        "that the policy moves away from its reference; watch the reward."
    )


def _loss_is_zero(run: Run) -> str | None:
    known = _known(run, "loss", "grad_norm") or _known(run, "loss", "reward_std")
    if known is None:
        return None
    loss, signal = known
    if np.abs(loss).max() > 2.1 * PRINTED or np.median(signal) <= 0:
        return None
    return (
        "Why is the loss 0? With one update per rollout the ratio is 1 and the advantages sum to 0, so the loss has "
        "the value 0 and yet a gradient. It says nothing of learning; watch the reward."
    )


def _loss_is_negative(run: Run) -> str | None:
    known = _known(run, "loss")
    if known is None or (known[0] < -PRINTED).mean() < 0.2:
        return None
    return (
        "Why is the loss negative? The policy term is minus the mean of ratio x advantage over tokens; responses of "
        "unequal length leave it on either side of 0. Neither its sign nor its size says whether the run learns."
    )


def _chosen_is_negative(run: Run) -> str | None:
    known = _known(run, "chosen_reward", "rejected_reward")
    if known is None or (known[0] < 0).mean() < 0.5 or np.median(known[0] - known[1]) <= 0:
        return None
    if known[0].min() <= RULED_OUT:
        return None
    return (
        "Why is the reward of the chosen responses negative? It is beta x log(policy / reference), and the loss sees "
        f"only the margin ({np.median(known[0] - known[1]):.3g}): both responses of a pair may become less likely than "
        "under the reference. Watch the margin and the accuracy on pairs that are held out."
    )


def _advantage_is_zero(run: Run) -> str | None:
    known = _known(run, "advantage_mean")
    if known is None or np.abs(known[0]).max() > 1e-3:
        return None
    return "Why is the mean advantage 0? Each group's mean is taken off its rewards, so it is 0 by construction."


def _nothing_is_clipped(run: Run) -> str | None:
    known = _known(run, "clip_fraction")
    if known is None or known[0].max() > 0:
        return None
    return (
        "Why is the clip fraction 0? With one update per rollout new and old policy are the same, the ratio is 1, and "
        "no clip range can bind."
    )


def _norm_before_clipping(run: Run) -> str | None:
    limit = run.settings.get("max_grad_norm")
    known = _known(run, "grad_norm", rows=ROWS)
    if known is None or not isinstance(limit, int | float) or limit <= 0:
        return None
    above = float((known[0] > 1.01 * limit).mean())
    at = float((np.abs(known[0] - limit) < 0.01 * limit).mean())
    if above:
        return (
            f"Which gradient norm is printed? The one before clipping: {above:.0%} of the rows lie above the limit of "
            f"{limit:g} and are cut to it."
        )
    if at > 0.2:
        return f"Which gradient norm is printed? The one after clipping: {at:.0%} of the rows stand at {limit:g}."
    return None


def _resumed(run: Run) -> str | None:
    """Rows before the last restart of the counter against rows after it."""
    restarts = [row for row, events in run.events.items() if any(e.kind == "restart" for e in events)]
    reward = run.column("reward_mean")
    if not restarts or reward is None:
        return None
    row = max(restarts)
    before, after = (part[np.isfinite(part)] for part in (reward[:row][-10:], reward[row:][:10]))
    if min(len(before), len(after)) < ROWS:
        return None
    error = math.sqrt(before.var(ddof=1) / len(before) + after.var(ddof=1) / len(after))
    same = abs(after.mean() - before.mean()) <= 3 * error
    return (
        f"Does the resumed run continue? At step {run.steps[row]} the reward is {after.mean():.3g} after "
        f"{before.mean():.3g} before: {'it does' if same else 'it does not, so look at what was restored'}."
    )


def _updates(run: Run) -> str | None:
    """Prompts a step and updates a rollout, where the settings say both."""
    said = {name: run.settings.get(name) for name in ("train_batch_size", "mini_batch_size", "group_size")}
    numbers = {name: value for name, value in said.items() if isinstance(value, int | float) and value > 0}
    if len(numbers) < len(said):
        return None
    passes = run.settings.get("num_iterations")
    passes = passes if isinstance(passes, int | float) else 1
    batch, mini = numbers["train_batch_size"], numbers["mini_batch_size"]
    return (
        f"How many updates? {batch:g} prompts x {numbers['group_size']:g} responses a step, {mini:g} prompts an "
        f"update: {max(batch / mini, 1) * passes:g} updates a rollout."
    )


def _constant_components(run: Run) -> Iterable[str]:
    """Reward functions that have paid one and the same mean, below 1, on every row; the first `SHOWN` of them."""
    column = run.column("reward_components")
    rows = [parts for parts in column if parts] if column is not None else []
    if len(rows) < ROWS:
        return
    same = {name: value for name, value in rows[0].items() if isinstance(value, int | float) and 0 <= abs(value) < 1}
    for parts in rows[1:]:
        same = {name: value for name, value in same.items() if parts.get(name, value) == value}
    for name, value in sorted(same.items())[:SHOWN]:
        why = (
            "it pays a constant where it cannot parse the answer"
            if value
            else "its pattern can never match, for one when the chat template itself opens the tag"
        )
        yield (
            f"Why does {name} stay at {value:g}? It was exactly that on all {len(rows)} rows, so no response is better "
            f"than another by it. If the responses do differ, {why}: score a right one by hand."
        )
