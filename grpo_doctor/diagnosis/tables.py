"""Tables for runs with the required fields, and the list of steps before the next run. Tables do not affect the
verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..run import Run, Table
from ..series import homogeneous
from ..series.noise_model import median
from .check import Finding, Severity
from .wording import number

_Columns: TypeAlias = Callable[[str], np.ndarray | None]

LATE = 0.1
"""Share of a series' values, at its end, that the column "observed" covers (at least five values)."""


def tables_of(run: Run) -> list[Table]:
    """Return the tables for which the run has the required fields."""
    if run.run_type != "rl" or not len(run):
        return []
    made = (_indicators(run), _dead_groups(run), _kl_share(run), _epochs(run))
    return [table for table in made if table is not None]


def _words(value: float) -> str:
    return number(value, 4)


# -- indicator, before, observed -----------------------------------------------------------------------------------

INDICATORS = {
    "logit_max": "largest logit",
    "logit_gap": "top-2 logit gap",
    "top1_prob": "top-1 probability",
    "entropy_mean": "entropy, nats/token",
    "eos_suppressed_rate": "share of responses with suppressed EOS",
    "eos_rate": "share of responses that end with EOS",
    "response_length_mean": "response length, tokens",
    "eot_per_response": "end-of-turn tokens per response",
    "truncated_rate": "share of truncated responses",
}
"""Fields whose normal values depend on the model and the task, so the table shows only how they change."""


def _indicators(run: Run) -> Table | None:
    rows = []
    for field, name in INDICATORS.items():
        column = run.columns.get(field)
        known = np.flatnonzero(np.isfinite(column)) if column is not None else np.empty(0, int)
        if column is None or not len(known):
            continue
        before = f"{_words(column[known[0]])} (step {run.steps[known[0]]})"
        late = column[known[-max(5, int(LATE * len(known))) :]]
        observed = f"{_words(median(late))} ({_words(late.min())} to {_words(late.max())})"
        rows.append([name, before, observed])
    if not rows:
        return None
    note = (
        "Before is the first recorded step; observed is the median of the last 10% of the run (minimum to maximum). "
        "This table does not affect the verdict."
    )
    return Table(title="Indicators", head=["indicator", "before", "observed"], rows=rows, note=note)


# -- groups without gradient ---------------------------------------------------------------------------------------


def _dead_groups(run: Run) -> Table | None:
    size = _median(run.column("group_size"))
    sources = [*_tasks(run), ("all", run.column)]
    rows = [row for task, column in sources if (row := _dead_row(task, column, size)) is not None]
    if not rows:
        return None
    note = (
        "Expected is p^K+(1-p)^K, averaged over all steps, where p is the success rate; ADV003 reports its last steps "
        "only. It holds for 0/1 rewards and prompts of equal difficulty. Graded rewards tie less "
        "often, and prompts of mixed difficulty more often."
    )
    return Table(
        title="Zero-variance groups, expected and actual",
        head=["task", "groups", "zero variance", "expected", "p", "K"],
        rows=rows,
        note=note,
    )


def _tasks(run: Run) -> Iterator[tuple[str, _Columns]]:
    """Yield each task with its columns, reduced to the rows of the task."""
    recorded = [row for row in run.columns.get("by_task", ()) if row]
    for task in dict.fromkeys(name for row in recorded for name in row):
        yield task, _columns_of([row[task] for row in recorded if task in row])


def _columns_of(steps: list[dict[str, Any]]) -> _Columns:
    def column(name: str) -> np.ndarray | None:
        values = np.array([step.get(name, math.nan) for step in steps], float)
        return values if np.isfinite(values).any() else None

    return column


def _median(column: np.ndarray | None) -> float:
    known = np.empty(0) if column is None else column[~np.isnan(column)]
    return median(known) if np.isfinite(known).any() else math.nan


def _dead_row(task: str, column: _Columns, size: float) -> list[str] | None:
    dead, groups = column("zero_variance_groups"), column("groups")
    if dead is not None and groups is not None:
        both = np.isfinite(dead) & (groups > 0)
        shares = dead[both] / groups[both]
        counted = [f"{groups[both].sum():.0f}", f"{dead[both].sum():.0f} ({_share(shares)})"]
    else:
        shares = _finite(column("dead_share"))
        counted = ["unknown", _share(shares)]
    if not len(shares):
        return None
    chance = _finite(_chance(column))
    expected = homogeneous(chance, size)
    return [task, *counted, _share(expected), f"{chance.mean():.2f}" if len(chance) else "unknown", _words(size)]


def _finite(column: np.ndarray | None) -> np.ndarray:
    return np.empty(0) if column is None else column[np.isfinite(column)]


def _share(shares: np.ndarray) -> str:
    return f"{shares.mean():.1%}" if len(shares) and math.isfinite(shares.mean()) else "unknown"


def _chance(column: _Columns) -> np.ndarray | None:
    """Return the success rate or, if it is unknown, the mean reward if all rewards are between 0 and 1."""
    if (rate := column("success_rate")) is not None:
        return rate
    low, high = _finite(column("reward_min")), _finite(column("reward_max"))
    bounded = len(low) and len(high) and low.min() >= 0 and high.max() <= 1
    return column("reward_mean") if bounded else None


# -- the KL term in the value of the loss ------------------------------------------------------------------------


def _kl_share(run: Run) -> Table | None:
    policy, term, share = run.column("policy_loss"), run.column("kl_loss"), run.column("kl_loss_share")
    if term is None and (kl := run.column("kl")) is not None and (beta := run.column("kl_coef")) is not None:
        term = kl * beta
    if policy is None or term is None:
        return None
    if share is None:
        with np.errstate(all="ignore"):
            share = np.abs(term) / (np.abs(term) + np.abs(policy))
    known = np.flatnonzero(np.isfinite(share))
    rows = [[str(run.steps[r]), _words(policy[r]), _words(term[r]), f"{share[r]:.1%}"] for r in _spread(known)]
    if not rows or not np.nanmax(np.abs(term)):
        return None
    note = (
        "Weak evidence: this compares loss values. With one update per rollout, the ratio is 1 and the advantages sum "
        "to 0, so the policy term is 0 by construction but its gradient is not. Only the KL term's share of "
        "the gradient shows whether it dominates (probe KL002)."
    )
    return Table(
        title="Share of the KL term in the value of the loss",
        head=["step", "policy term", "KL term", "KL share"],
        rows=rows,
        note=note,
    )


def _spread(rows: np.ndarray, most: int = 6) -> list[int]:
    """Return the first, the last and evenly spaced rows between them."""
    if len(rows) <= most:
        return [int(row) for row in rows]
    return [int(rows[i]) for i in np.linspace(0, len(rows) - 1, most).astype(int)]


# -- changes from epoch to epoch
# -----------------------------------------------------------------------------------------

_OVER_EPOCHS = (
    "loss", "policy_loss", "eval_loss", "eval_perplexity", "eval_score", "reward_mean", "kl", "kl_coef", "entropy_mean",
    "advantage_std", "advantage_max", "grad_norm", "response_length_mean",
)  # fmt: skip


def _epochs(run: Run) -> Table | None:
    column = run.columns.get("epoch")
    if column is None:
        return None
    numbers = np.ceil(column)
    epochs = np.unique(numbers[np.isfinite(numbers)])
    if len(epochs) < 2:
        return None
    shown = [float(epochs[i]) for i in _spread(np.arange(len(epochs)))]
    rows = []
    for name in _OVER_EPOCHS:
        if (values := run.columns.get(name)) is None:
            continue
        means = [float(inside.mean()) if len(inside := _finite(values[numbers == e])) else math.nan for e in shown]
        if sum(math.isfinite(mean) for mean in means) > 1:
            rows.append([name.replace("_", " "), *map(_words, means), _change([m for m in means if math.isfinite(m)])])
    if not rows:
        return None
    head = ["indicator", *(f"epoch {e:.0f}" for e in shown), "change"]
    return Table(title="From epoch to epoch", head=head, rows=rows, note="Change is from the first to the last epoch.")


def _change(means: list[float]) -> str:
    return f"{(means[-1] - means[0]) / abs(means[0]):+.0%}" if means[0] else "from 0"


# -- before the next run -----------------------------------------------------------------------------------------


TESTS = 3
"""Maximum number of tests to recommend before the next run; the report lists every alternative explanation with its
test."""


def before_next_run(findings: Sequence[Finding]) -> list[str]:
    """Return what to verify, what not to use, what to change, and what to watch before and during the next run, in the
    order of the findings."""
    grave = [f for f in findings if f.level >= Severity.WARNING and f.role != "symptom"]
    grave = [f for f in grave if f.role != "note" and not f.explained_by] or grave[:3]
    verify = [f"Verify first ({f.code}): {rival.separated_by}" for f in grave for rival in f.rivals]
    discard = [f"Do not use ({f.code}): {text}" for f in grave for text in f.invalidates]
    change = [f"Then change only this ({f.code}): {f.remedies[0].title}" for f in grave if f.remedies][:1]
    watched = list(dict.fromkeys(name for f in grave for name in f.columns))[:6]
    watch = [f"In the first two steps of the next run, watch {', '.join(watched)}"] if watched else []
    return list(dict.fromkeys([*verify[:TESTS], *discard, *change, *watch]))
