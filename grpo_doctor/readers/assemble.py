"""Turns collected rows into a `Run`: selects the key of each field, merges the rows of a step, and sets the run
type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ..record import Event
from ..run import Run, RunBuilder
from ..series.reward_components import of_form
from .aliases import GUESSED, OF_BATCHES, resolve, words
from .input import NotRead
from .row_kinds import (
    EVALUATED,
    SHARES,
    SINGLE_PROMPT,
    is_eval,
    is_preference,
    possible,
    run_type,
)
from .steps import continued, of_rows, repeated, restarted

if TYPE_CHECKING:
    from .row_buffer import Rows

_MANY = 1_000_000
"""Maximum number of values of reward components. If there are more values, the components are omitted, because each row
stores the components as a mapping."""
_EQUAL = 1e-6
"""Difference below which rewards count as equal."""
_OWN_SEEDS = 0.7
"""Number of distinct seeds, as a share of the rows, above which the rows are evaluation episodes."""
_ENOUGH = 5
"""Minimum number of rows at which a metric that is not part of the reward can be found."""
_ANY = frozenset({"length", "mean"})
"""Words that may describe the length of any sequence, so that they are not evidence for an RL run."""
_APART = 1e-3
"""Minimum singular value, as a share of the largest, at which the weights of metrics in the reward can be determined.
`_APART` is also the share of the largest reward below which the weight of a metric counts as 0."""
_MOST_PARTS = 32
"""Maximum number of reward functions among which an unrewarded metric is searched for."""
_PAYS = frozenset(["reward_mean", "success_rate", "eval_score"])
"""Fields that measure success. If none of them has a value, a key that means success is reported if its values are
words."""
_SHOWN = 30
"""Maximum number of characters of a word in a note."""
_NAMED = 6
"""Maximum number of keys in one note."""
_LARGEST = 1e100
"""Absolute value above which squares may overflow."""

Columns = dict[str, np.ndarray]


def assemble(rows: Rows) -> Run:
    """Assemble the run of these rows."""
    builder = RunBuilder(rows.file.source, rows.format)
    trained, merged = _rows_of(rows, builder) if len(rows) else (set(), 0)
    run = builder.finish()
    run.settings.update(rows.settings)
    if len(run) > _ENOUGH and run.settings.get("num_iterations") in (len(run), int(run.steps[-1])):
        del run.settings["num_iterations"]  # the setting counts steps, not passes per step
    run.unread.update(rows.unread)
    run.mapping |= {key: field for key, field in rows.file.mapping.items() if field == "step" and len(run)}
    for key, value in rows.wordy.items():
        if _PAYS & {alias.field for alias in resolve(key)} and _PAYS.isdisjoint(run.columns):
            run.notes.append(NotRead(f"{key} has no numbers; its first value is {value[:_SHOWN]!r}"))
    run.notes += rows.file.notes + rows.notes
    records = max(rows.unread.values(), default=0)
    if rows.texts and records > 1 and not (len(run) or rows.weak.values):
        run.texts = rows.texts[:_NAMED]
        run.notes.append(f"{records:,} records with texts ({', '.join(run.texts)}) and without metrics")
    if rows.odd:
        more = f" and {len(rows.odd) - _NAMED} more" if len(rows.odd) > _NAMED else ""
        sound = "loss" in run.columns and np.isfinite(run.columns["loss"]).all()
        run.notes.append(
            f"not read, because the first value is not finite{' (the loss is finite on all rows)' if sound else ''}: "
            f"{', '.join(rows.odd[:_NAMED])}{more}"
        )
    trained -= {field for key, field in run.mapping.items() if field == "response_length_mean" and words(key) <= _ANY}
    episodes = len(rows.seeds) > max(2, _OWN_SEEDS * len(rows))
    counted = bool(rows.weak.values) and not episodes
    counted |= rows.numbered and not np.isnan(np.array(rows.steps)).all()
    run.run_type = run_type(trained, rows.seen, counted=counted)
    if len(run) == 1 and not counted:
        run.settings.setdefault("rows", "unnumbered")  # the first row may be missing
    if run.run_type == "supervised" and (run.columns.get("loss", np.empty(0)) < 0).any():
        run.run_type = "rl"  # a cross-entropy is never below 0
    if run.run_type == "rl":
        _success_alone(run)
    if "reward_margin" not in run.columns and {"chosen_reward", "rejected_reward"} <= run.columns.keys():
        run.columns["reward_margin"] = run.columns["chosen_reward"] - run.columns["rejected_reward"]
    if len(run) > 1 and not counted and "epoch" not in run.columns:
        run.notes.append(f"no step found: rows are numbered 1 to {len(run)}; --map 'NAME=step' names the column")
    if merged:
        run.notes.append(f"{len(rows)} rows merged into {len(run)} step{'s' * (len(run) != 1)}")
    return run


def _rows_of(rows: Rows, builder: RunBuilder) -> tuple[set[str], int]:
    """Add the rows to the run. Return the fields that were recorded in training, and the number of rows that were
    merged into other rows."""
    run, n = builder.run, len(rows)
    columns, recorded = _metrics(rows, run)
    trains = np.frombuffer(rows.trains, np.uint8).astype(bool)
    trained = {name for name, c in columns.items() if _holds(c, trains, recorded.get(name, ()))}
    evaluated = EVALUATED & columns.keys()
    trained |= evaluated
    evaluations = max((int(np.isfinite(columns[name]).sum()) for name in evaluated), default=0)
    given, lines = np.frombuffer(rows.steps, float), np.frombuffer(rows.lines, np.int64)
    order, why = _order(given, trains) if len(given) > _ENOUGH and not rows.events else (None, "")
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
        recorded = {name: np.flatnonzero(np.isin(order, at)).tolist() for name, at in recorded.items()}
        given, lines, trains = given[order], lines[order], trains[order]
        run.notes.append(why)
    weak = rows.weak.full(n)
    steps = of_rows(given, trains, weak if order is None else weak[order], columns.get("epoch"), evaluations)
    steps = continued(steps, columns.get("epoch"))
    events: dict[int, list[Event]] = {}
    for event in rows.events:
        events.setdefault(min(int(np.searchsorted(lines, event.line or 0)), len(lines) - 1), []).append(event)
    if not rows.redrawn:  # for progress bars, the last state counts
        _averaged(steps, columns)
    _shares(columns, run)
    same = repeated(steps, columns)
    again = [] if rows.redrawn else restarted(same, steps, trains)
    builder.extend(steps, columns, lines, recorded, events, again)
    return trained, len(same) - len(again)


def _order(steps: np.ndarray, trains: np.ndarray) -> tuple[np.ndarray | None, str]:
    """Return the order of rows that are not in the order of their steps, with a note. The rows may begin with the last
    step, and evaluations may be listed above or below the training rows."""
    if (np.diff(steps) < 0).all():
        return np.arange(len(steps))[
            ::-1
        ], "the rows are in reverse order (newest first) and were read from last to first"
    if np.count_nonzero(np.diff(trains)) == 1 and all((np.diff(steps[part]) >= 0).all() for part in (trains, ~trains)):
        own, others = steps[trains], steps[~trains]
        if others[-1] > own[0] if not trains[0] else others[0] < own[-1]:
            return np.argsort(steps, kind="stable"), "the evaluations are listed apart from the other rows"
    return None, ""


def _metrics(rows: Rows, run: Run) -> tuple[Columns, dict[str, list[int]]]:
    """Return a column for each field, and the rows on which a field is not finite. Columns that only resemble a metric
    are dropped."""
    n = len(rows)
    columns, recorded = _fields(rows, run, n)
    if run.mapping.get(_UNUSED) == "kl" and not np.nan_to_num(columns["kl"]).any():
        del columns["kl"], run.mapping[_UNUSED]
    if _has_no_critic(columns, recorded):
        del columns["value_loss"], recorded["value_loss"]
        run.notes.append("the critic loss is NaN on every row although the gradient is finite, so there is no critic")
    _listed(rows, columns, n)
    _components(rows, run, columns, n)
    _eos_of_counts(rows, run, columns)
    _cut_of_counts(rows, run, columns)
    _uncompared(rows, columns)
    _scaled_kl(rows, run, columns)
    return columns, recorded


_LIKE_A_REWARD = re.compile(r"rew|rwd|score|return|acc|correct|succ|pass|win|solve", re.IGNORECASE)
_HOW_OFTEN = re.compile(r"(?<![a-z])(rate|ratio|share|count|num|tokens|turns|calls)(?![a-z])")


def _success_alone(run: Run) -> None:
    """Use the success rate as the reward if no reward is recorded. A success rate is the mean of rewards that are 0 or
    1."""
    if "success_rate" not in run.columns or {"reward_mean", "reward_components"} & run.columns.keys():
        return
    run.columns["reward_mean"] = run.columns["success_rate"].copy()
    key = next((key for key, field in run.mapping.items() if "success_rate" in field.split(", ")), "")
    run.mapping[key] = f"{run.mapping[key]}, reward_mean"
    run.notes.append(f"the success rate {key!r} is used as the reward")


_UNUSED = "rollout/kl"
"""slime's key for the KL, which is 0 on all rows if the reward has no KL term."""


def _has_no_critic(columns: Columns, recorded: dict[str, list[int]]) -> bool:
    """Return whether the critic loss is NaN on all of at least two rows, although the last row has a finite gradient
    norm or loss. With a real critic, a NaN loss would have made the next update NaN."""
    held = recorded.get("value_loss", [])
    if len(held) < 2 or not np.isnan(columns["value_loss"]).all():
        return False
    beside = (columns[name][held[-1]] for name in ("grad_norm", "loss", "policy_loss") if name in columns)
    return next((bool(np.isfinite(x) and x) for x in beside if not np.isnan(x)), False)


def _holds(column: np.ndarray, trains: np.ndarray, recorded: list[int] | tuple[()]) -> bool:
    if column.dtype == object:
        return True
    return bool((~np.isnan(column) & trains).any()) or any(trains[row] for row in recorded)


def _shares(columns: Columns, run: Run) -> None:
    """Interpret counts of zero-variance groups that are not whole numbers as shares."""
    dead = columns.get("zero_variance_groups")
    if dead is None or "zero_variance_share" in columns:
        return
    known = dead[~np.isnan(dead)]
    if (known != np.floor(known)).any() and known.min() >= 0 and known.max() <= 1:
        columns["zero_variance_share"] = columns.pop("zero_variance_groups")
        run.mapping.update({k: "zero_variance_share" for k, f in run.mapping.items() if f == "zero_variance_groups"})


_SAMPLED = (
    "reward_mean success_rate response_length_mean valid_rate truncated_rate fallback_rate zero_variance_share".split()
)
"""Fields that may be recorded on several rows of a step, one for each response or batch. The mean over the rows of a
step is the value of the step."""


def _averaged(steps: np.ndarray, columns: Columns) -> None:
    """Average the rows of a step if most steps have several rows. If most steps have one row, the last row of a step
    determines the value of the step. The last step is not counted, because it may be incomplete.
    """
    begins = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    if len(begins) > 0.67 * len(steps):
        return
    counts = np.diff(np.append(begins, len(steps)))
    for name in _SAMPLED:
        if name in columns:
            known = ~np.isnan(columns[name])
            parts = np.add.reduceat(known.astype(int), begins)
            ended = parts[:-1] if len(parts) > 1 else parts
            if (ended > 1).sum() > 0.67 * (ended > 0).sum():
                sums = np.add.reduceat(np.where(known, columns[name], 0.0), begins)
                means = np.repeat(sums / np.maximum(parts, 1), counts)
                columns[name] = np.where(known, means, columns[name])


def _fields(rows: Rows, run: Run, n: int) -> tuple[Columns, dict[str, list[int]]]:
    """Return, for every field, the column of its best key, and the rows on which the field is not finite. Other keys
    are not read."""
    columns: Columns = {}
    recorded: dict[str, list[int]] = {}
    for field, name in _keys(rows).items():
        column = rows.columns[name]
        alias = next(a for a in column.aliases if a.field == field)
        values = column.full(n)
        if alias.scale != 1.0 or alias.offset:
            values = alias.offset + alias.scale * values
        known = values[np.isfinite(values)]
        if field == "entropy_mean" and name.endswith("entropy_loss") and len(known) and known.min() < 0:
            field = "entropy_loss"  # the loss term, -coefficient * entropy
        if field in SHARES and len(known) and 1.5 < known.max() <= 100 and known.min() >= 0:
            values, note = _as_share(name, values)
            run.notes.append(note)
            if np.isnan(values).all():
                continue
        if field == "eval_score" and (filled := _filled(values)).any():
            values = np.where(filled, math.nan, values)
            run.notes.append(f"{name} is 0 on {filled.sum()} rows between evaluations; these values are ignored")
        columns[field] = values
        if column.non_finite:
            recorded[field] = column.non_finite
        run.mapping[name] = f"{run.mapping[name]}, {field}" if name in run.mapping else field
    for name, column in rows.columns.items():
        if name not in run.mapping and column.values:
            rows.unread[name] = int(np.count_nonzero(~np.isnan(column.full(n))))
    return columns, recorded


_RATE = re.compile(r"rate|ratio|acc|share|frac|perc|pct|%", re.IGNORECASE)
"""Words in the name of a share. Without such a word, whole numbers above 1 are counts."""


def _as_share(name: str, values: np.ndarray) -> tuple[np.ndarray, str]:
    """Convert percents to shares. Return them with a note; NaN for counts, because the number of all responses is
    unknown."""
    known = values[np.isfinite(values)]
    if (known != np.floor(known)).any() or _RATE.search(name):
        return values / 100, f"{name} is read as percent, because its maximum is {known.max():g}"
    unknown = NotRead(f"{name} is probably a count, because its values are whole numbers; it is not read as a share")
    return np.full(len(values), math.nan), unknown


_REGULAR = 6
"""Minimum number of nonzero values at which a common divisor of the gaps between the values is not due to chance. Five
random gaps have a common divisor above 1 at most once in 28 cases."""


def _filled(scores: np.ndarray) -> np.ndarray:
    """Return the rows on which a held-out score is 0 because no evaluation ran. Rows with a filled score are between
    evaluations, which occur at regular intervals."""
    taken = np.flatnonzero(np.nan_to_num(scores))
    apart = int(np.gcd.reduce(np.diff(taken))) if len(taken) >= _REGULAR else 0
    places = np.arange(len(scores))
    return (scores == 0) & ((places - taken[0]) % apart != 0) if apart > 1 else np.zeros(len(scores), bool)


def _keys(rows: Rows) -> dict[str, str]:
    """Return the preferred key of each field. Only keys that have a value on at least half as many rows as the most
    frequent key are considered."""
    able: dict[str, list[tuple[int, str, int]]] = {}
    of_batches = bool(rows.seen & OF_BATCHES)
    for name, column in rows.columns.items():
        known = column.known if not (of_batches and name.startswith("val/") and is_eval(name)) else 0
        for alias in column.aliases if known else ():
            if not possible(column.values, alias):
                rows.notes.append(NotRead(f"{name} is not read as {alias.field}, because its values are out of range"))
                continue
            able.setdefault(alias.field, []).append((alias.rank, name, known))
    found = {}
    for field, keys in able.items():
        if min(keys)[0] >= GUESSED and len(keys) > 1:  # parts of a metric below unknown prefixes
            continue
        most = max(known for _, _, known in keys)
        found[field] = min((key for key in keys if 2 * key[2] >= most), key=lambda key: key[0])[1]
    return found


def _listed(rows: Rows, columns: Columns, n: int) -> None:
    """Add statistics of rewards and advantages that are logged individually."""
    one_prompt = bool(rows.seen & SINGLE_PROMPT)
    derived: dict[str, dict[int, float]] = {}
    groups: dict[int, list[list[float]]] = {}
    for row, (values, grouped) in rows.lists.get("rewards", {}).items():
        whole = [v for group in values for v in group] if grouped else values
        _summarise(derived, "reward", row, whole)
        if grouped or one_prompt:
            groups[row] = values if grouped else [values]
    for row, held in groups.items():
        dead = sum(max(group) - min(group) < _EQUAL for group in held)
        counts = {"groups": len(held), "zero_variance_groups": dead, "live_groups": len(held) - dead}
        sizes = {len(group) for group in held}
        for name, value in (*counts.items(), *([("group_size", max(sizes))] if len(sizes) == 1 else [])):
            derived.setdefault(name, {})[row] = value
    distinct: dict[int, list[float]] = {}
    for row, (values, grouped) in rows.lists.get("advantages", {}).items():
        whole = [v for group in values for v in group] if grouped else values
        _summarise(derived, "advantage", row, whole)
        distinct[row] = sorted({round(abs(v), 6) for v in whole if abs(v) > _EQUAL})[:8]
    for name, known in derived.items():
        if name not in columns:
            columns[name] = np.full(n, math.nan)
            columns[name][list(known)] = list(known.values())
    objects: dict[str, dict[int, Any]] = {"group_rewards": groups, "advantage_abs_values": distinct}
    for name, held_at in objects.items():
        if held_at:
            columns[name] = np.full(n, None, object)
            for row, figures in held_at.items():
                columns[name][row] = figures


def _summarise(derived: dict[str, dict[int, float]], name: str, row: int, values: list[float]) -> None:
    figures = np.asarray(values, float)
    with np.errstate(all="ignore"):
        found = {"mean": figures.mean(), "std": figures.std(), "min": figures.min(), "max": figures.max()}
    for statistic, value in found.items():
        derived.setdefault(f"{name}_{statistic}", {})[row] = float(value)


def _components(rows: Rows, run: Run, columns: Columns, n: int) -> None:
    """Add the values of the reward functions, and use as the success rate a metric that is logged but not part of the
    reward."""
    held = len(rows.components) * n
    if held > _MANY:
        rows.unread.update(dict.fromkeys(rows.components, n))
        run.notes.append(
            NotRead(f"{len(rows.components)} reward components on {n} rows are too many and were not read")
        )
    if not 0 < held <= _MANY:
        return
    names = [column.label for column in rows.components.values()]
    if "reward_mean" not in columns and len(names) == 1:
        (key,) = rows.components
        of_pairs = "accuracy" in words(key) and is_preference(rows.seen)
        run.mapping[key] = "success_rate" if of_pairs else "reward_mean"
        columns.setdefault(run.mapping[key], rows.components[key].full(n))
        run.notes.append(f"{key} is the only reward key and is used as the {'accuracy' if of_pairs else 'reward'}")
        return
    table = np.column_stack([column.full(n) for column in rows.components.values()])
    column = np.full(n, None, object)
    for row in np.flatnonzero(~np.isnan(table).all(axis=1)).tolist():
        column[row] = {name: v for name, v in zip(names, table[row].tolist(), strict=True) if not math.isnan(v)}
    columns["reward_components"] = column
    for key, name in zip(rows.components, names, strict=True):
        run.mapping[key] = f"reward_components.{name}"
    if "reward_mean" in columns and "success_rate" not in columns:
        beside = _unrewarded(table, columns["reward_mean"])
        if beside is not None and _may_be_success(names[beside], table[:, beside]):
            columns["success_rate"] = table[:, beside]
            run.mapping[list(rows.components)[beside]] = "success_rate"
            run.notes.append(f"{names[beside]} is logged but not part of the reward, which is the sum of the others")


def _may_be_success(name: str, values: np.ndarray) -> bool:
    """Return whether a metric may be a success rate, judged by its name and its values, which must be between 0 and 1.
    A rate at which a policy thinks or calls a tool is not a success rate."""
    behaviour = _HOW_OFTEN.search(name.lower()) and not _LIKE_A_REWARD.search(name)
    known = values[np.isfinite(values)]
    return not (of_form(name) or behaviour) and known.min() >= 0 and known.max() <= 1


def _unrewarded(table: np.ndarray, reward: np.ndarray) -> int | None:
    """Return the only metric that is not part of the reward; None if there is no such metric or more than one, or if
    the fit is not decisive.

    A linear fit of the reward, which must be exact and unique, determines the weights of the metrics. Metrics that are
    differences of other metrics are excluded first.
    """
    known = np.isfinite(table).all(axis=1) & np.isfinite(reward)
    table, reward = table[known], reward[known]
    if table.shape[1] > _MOST_PARTS or (len(reward) and max(np.abs(table).max(), np.abs(reward).max()) > _LARGEST):
        return None
    kept = [i for i in range(table.shape[1]) if np.ptp(table[:, i]) > _EQUAL] if len(reward) >= _ENOUGH else []
    equal = [i for i in kept if np.abs(table[:, i] - reward).max() < _EQUAL]
    parts = [i for i in kept if i not in equal[1:] and not _is_difference(table, i, kept)]
    if len(parts) < 2 or len(reward) <= len(parts):
        return None
    given = table[:, parts] / np.abs(table[:, parts]).max(axis=0)
    weights, _, rank, _ = np.linalg.lstsq(given, reward, rcond=_APART)
    exact = np.abs(given @ weights - reward).max() < _EQUAL * max(1.0, np.abs(reward).max())
    if rank < len(parts) or not exact:
        return None
    idle = [i for i, weight in zip(parts, weights, strict=True) if abs(weight) < _APART * np.abs(reward).max()]
    return idle[0] if len(idle) == 1 else None


def _is_difference(table: np.ndarray, column: int, kept: list[int]) -> bool:
    others = [i for i in kept if i != column]
    return any(
        np.abs(table[:, a] - table[:, b] - table[:, column]).max() < _EQUAL
        for a in others
        for b in others
        if a != b and a < column and b < column
    )


def _eos_of_counts(rows: Rows, run: Run, columns: Columns) -> None:
    """Convert TRL PPO's count of EOS tokens per batch to a share of the episodes since the previous row."""
    count, episode = rows.extra.get("val/num_eos_tokens"), rows.extra.get("episode")
    if count is None or episode is None or "eos_rate" in columns:
        return
    eos, seen = count.full(len(rows)), episode.full(len(rows))
    batch = np.diff(seen, prepend=0.0)
    with np.errstate(all="ignore"):
        columns["eos_rate"] = np.where(batch > 0, np.minimum(eos / batch, 1.0), math.nan)
    run.mapping["val/num_eos_tokens"] = "eos_rate"


def _cut_of_counts(rows: Rows, run: Run, columns: Columns) -> None:
    """Convert the number of truncated responses to a share of all responses."""
    cut, all_ = rows.extra.get("truncated_count"), rows.extra.get("rollout_count")
    if cut is None or all_ is None or "truncated_rate" in columns:
        return
    with np.errstate(all="ignore"):
        columns["truncated_rate"] = cut.full(len(rows)) / all_.full(len(rows))
    run.mapping["truncated_count"] = "truncated_rate"


def _scaled_kl(rows: Rows, run: Run, columns: Columns) -> None:
    """Read the KL as the KL term of the loss if the loss is the sum of policy loss and KL. The KL then includes its
    coefficient, unless the coefficient is 1."""
    if not {"loss", "policy_loss", "kl"} <= columns.keys() or "kl_loss" in columns or rows.settings.get("kl_coef") == 1:
        return
    kl = columns["kl"]
    rest = columns["loss"] - columns["policy_loss"] - kl
    known = np.isfinite(rest) & (kl != 0)
    if known.sum() < _ENOUGH or np.quantile(np.abs(rest[known] / kl[known]), 0.9) > _APART:
        return
    columns["kl_loss"] = columns.pop("kl")
    run.mapping.update({key: "kl_loss" for key, field in run.mapping.items() if field == "kl"})
    run.notes.append("the KL includes its coefficient, because the loss is the sum of policy loss and KL")


def _uncompared(rows: Rows, columns: Columns) -> None:
    """Drop differences between the rollout engine and the trainer on rows on which verl logs 0 because it compared no
    tokens."""
    valid = rows.extra.get("training/rollout_probs_diff_valid")
    if valid is None:
        return
    nothing = valid.full(len(rows)) == 0
    for name in ("rollout_prob_diff", "rollout_prob_diff_max", "rollout_prob_correlation"):
        if name in columns:
            columns[name][nothing] = math.nan
