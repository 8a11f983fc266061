"""Answers to frequent questions about normal values, with one line per applicable answer.

An answer explains a number in the log and does not affect the verdict. An answer appears only if the rows show the
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..run import Run
from ..series.noise_model import median
from .wording import number

ROWS = 4
"""Minimum number of values for a statement about two columns or about a constant, because two numbers fit any rule. One
row is sufficient to explain a sign or a value of 0, and users often paste only one row."""
SHOWN = 3
"""Maximum number of reward functions to mention."""
RULED_OUT = -7.0
"""Implicit reward of the chosen responses below which PRF003 reports the reward, so that its sign needs no explanation
here."""
PRINTED = 5e-5
"""Half a unit of the fourth decimal; trainers round logged losses to four decimals."""


def answers_of(run: Run) -> list[str]:
    """Return the answers that apply to an RL or preference run, with the most frequent question first."""
    if run.run_type == "preference":
        return list(filter(None, [_chosen_is_negative(run)]))
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
    """Return the columns, reduced to the rows on which all of them are finite; None if there are fewer than ``rows``
    such rows."""
    columns = [run.column(name) for name in names]
    if any(column is None for column in columns):
        return None
    table = np.array(columns, float)
    table = table[:, np.isfinite(table).all(0)]
    return list(table) if table.shape[1] >= rows else None


def _loss_is_the_kl_term(run: Run) -> str | None:
    """Explain a loss that equals beta x KL on every row, within 5% and rounding to four decimals."""
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
        f"Why is the loss so small, and why does it rise? It is the KL term: loss = {number(beta, 2)} x KL on every "
        "row. The policy term is 0 (the ratio is 1 and the advantages sum to 0) but its gradient is not. A rising "
        "loss only means that the policy moves away from the reference model. Watch the reward instead."
    )


def _loss_is_zero(run: Run) -> str | None:
    known = _known(run, "loss", "grad_norm") or _known(run, "loss", "reward_std")
    if known is None:
        return None
    loss, signal = known
    if np.abs(loss).max() > 2.1 * PRINTED or median(signal) <= 0:
        return None
    return (
        "Why is the loss 0? With one update per rollout, the ratio is 1 and the advantages sum to 0, so the loss is "
        "0 but its gradient is not. The loss does not show whether the run learns. Watch the reward."
    )


def _loss_is_negative(run: Run) -> str | None:
    known = _known(run, "loss")
    if known is None or (known[0] < -PRINTED).mean() < 0.2:
        return None
    return (
        "Why is the loss negative? The policy term is minus the mean of ratio x advantage over tokens. With "
        "responses of unequal length it can have either sign. Its sign and size do not show whether the run learns."
    )


def _chosen_is_negative(run: Run) -> str | None:
    known = _known(run, "chosen_reward", "rejected_reward")
    if known is None or (known[0] < 0).mean() < 0.5 or median(known[0] - known[1]) <= 0:
        return None
    if known[0].min() <= RULED_OUT:
        return None
    return (
        "Why is the reward of the chosen responses negative? It is beta x log(policy / reference), and the loss uses "
        f"only the margin ({number(median(known[0] - known[1]))}): both responses may become less likely than "
        "under the reference model. Watch the margin and the reward accuracy on held-out pairs."
    )


def _advantage_is_zero(run: Run) -> str | None:
    known = _known(run, "advantage_mean")
    if known is None or np.abs(known[0]).max() > 1e-3:
        return None
    return "Why is the mean advantage 0? Each group's mean reward is subtracted, so the mean is 0 by construction."


def _nothing_is_clipped(run: Run) -> str | None:
    known = _known(run, "clip_fraction")
    if known is None or known[0].max() > 0:
        return None
    return (
        "Why is the clip fraction 0? With one update per rollout, the new and the old policy are the same, so the "
        "ratio is 1 and the clip never applies."
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
            f"Which gradient norm is logged? The norm before clipping: {above:.0%} of the rows exceed the limit of "
            f"{limit:g} and are clipped to it."
        )
    if at > 0.2:
        return f"Which gradient norm is logged? The norm after clipping: {at:.0%} of the rows are at {limit:g}."
    return None


def _resumed(run: Run) -> str | None:
    """Compare the rows before and after the last restart of the step counter."""
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
        f"Does the resumed run continue where it stopped? The reward is {number(after.mean())} after step "
        f"{run.steps[row]} and {number(before.mean())} before: "
        f"{'yes' if same else 'no, so check which state was restored'}."
    )


def _updates(run: Run) -> str | None:
    """State the number of prompts per step and of updates per rollout if the settings contain both."""
    said = {name: run.settings.get(name) for name in ("train_batch_size", "mini_batch_size", "group_size")}
    numbers = {name: value for name, value in said.items() if isinstance(value, int | float) and value > 0}
    if len(numbers) < len(said):
        return None
    passes = run.settings.get("num_iterations")
    passes = passes if isinstance(passes, int | float) else 1
    batch, mini = numbers["train_batch_size"], numbers["mini_batch_size"]
    return (
        f"How many updates? A step has {batch:g} prompts x {numbers['group_size']:g} responses and an update {mini:g} "
        f"prompts, so the number of updates per rollout is {max(batch / mini, 1) * passes:g}."
    )


def _constant_components(run: Run) -> Iterable[str]:
    """Yield the first `SHOWN` reward functions whose mean is below 1 and the same on every row."""
    column = run.column("reward_components")
    rows = [parts for parts in column if parts] if column is not None else []
    if len(rows) < ROWS:
        return
    same = {name: value for name, value in rows[0].items() if isinstance(value, int | float) and 0 <= abs(value) < 1}
    for parts in rows[1:]:
        same = {name: value for name, value in same.items() if parts.get(name, value) == value}
    for name, value in sorted(same.items())[:SHOWN]:
        why = (
            "it may fail to parse the answer and return a constant"
            if value
            else "its pattern may never match (for example because the chat template already opens the tag)"
        )
        yield (
            f"Why does {name} stay at {value:g}? It has this value on all {len(rows)} rows, so it does not rank "
            f"any response above another. If the responses differ, {why}. Score a correct response manually."
        )
