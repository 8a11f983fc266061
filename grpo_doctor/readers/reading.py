"""Checks how a log was read, by the regularity of the steps, the range of the metrics, unused series, and a second
reading."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from ..run import Reading, Run
from .aliases import STEP_KEYS, WEAK_STEP_KEYS
from .input import NotRead
from .row_kinds import LIMITS, SHARES

_BETTER = 0.1
"""Difference in regularity, as a share of the steps, above which the second reading is used."""
_ALIKE = 0.1
"""Difference of two rewards, as a share of their range, up to which two readings agree."""
_NAMED = 3
_LISTED = 6
"""Maximum number of unknown names that are listed in one note."""
_PAYS = frozenset("reward_mean success_rate valid_rate reward_components eval_score".split())
"""Fields that measure success. If a log has one of these fields, its unused series are not reported as possible
rewards."""
_REWARD = re.compile(
    r"(?<![a-z])(?:r|rew|rewards?|rwd|scores?|returns?|acc|accuracy|correct(?:ness)?|success|pass(?:ed)?|wins?|solved?"
    r"|total|f1|em)(?![a-z])",
    re.IGNORECASE,
)
"""Words in the name of a series that may be a reward."""
_SURELY = re.compile(r"rew|rwd", re.IGNORECASE)
_NO_REWARD = re.compile(
    r"token_?acc|runtime|per_second|time|duration|step|batch|token|memory|elapsed|epoch|length|lr$|pid|seed|std$|norm|count|num_",
    re.IGNORECASE,
)


def pace(steps: np.ndarray) -> float | None:
    """Return the share of the most frequent increment among all increments of a counter, excluding resets; None for
    fewer than two increments."""
    moves = np.diff(steps)
    moves = moves[(moves >= 0) | (steps[1:] > steps[:1] + 1)]
    if len(moves) < 2:
        return None
    return float(np.unique(moves, return_counts=True)[1].max() / len(moves))


def steadiness(runs: Sequence[Run]) -> float:
    """Return the mean pace of the runs, weighted by their rows; 0 without rows."""
    rows = sum(map(len, runs))
    return sum(len(run) * (pace(run.steps) or 0.5) for run in runs) / rows if rows else 0.0


def chosen(first: list[Run], second: list[Run]) -> list[Run]:
    """Return the runs of the steadier of two readings of a console log.

    The first reading is kept unless the second reading has more regular steps and finds all fields of the first. If the
    results differ, the verdict depends on the choice, which is recorded in the runs.
    """
    if not any(map(len, second)):
        return first
    counts = [len(run) for run in first], [len(run) for run in second]
    if counts[0] == counts[1] and all(np.array_equal(a.steps, b.steps) for a, b in zip(first, second, strict=True)):
        return marked(first, "lines", "two readings of its lines agree", counts[1])
    if len(first) == len(second) and all(_part_of(b, a) for a, b in zip(first, second, strict=True)):
        return marked(first, "lines", "a second reading has a subset of its steps", counts[1])
    steadier = steadiness(second) > steadiness(first) + _BETTER and _columns(second) >= _columns(first)
    runs, others = (second, first) if steadier else (first, second)
    why = f"its steps are {'more regular' if steadier else 'at least as regular'}"
    marked(runs, "templates" if steadier else "lines", why, [len(run) for run in others])
    if counts[0] == counts[1]:
        return runs
    decides = not _same_result(runs, others)
    counted = f"{_counted(runs)} or {_counted(others)}"
    for run in runs:
        assert run.reading is not None
        run.reading.decides = decides
        run.notes.append(NotRead(f"the file can be read in two ways ({counted}); the first one is used, because {why}"))
    return runs


def _part_of(run: Run, finer: Run) -> bool:
    """Return whether the steps of a run are a subset of the regularly increasing steps of another run."""
    return len(run) <= len(finer) and pace(finer.steps) == 1.0 and bool(np.isin(run.steps, finer.steps).all())


def marked(runs: list[Run], way: str, why: str, others: Sequence[int]) -> list[Run]:
    """Record how the runs were read, and return the runs."""
    for run in runs:
        run.reading = Reading(way=way, why=why, rows=len(run), other_rows=sum(others))
    return runs


def _counted(runs: Sequence[Run]) -> str:
    rows = sum(map(len, runs))
    words = f"{rows} row{'s' * (rows != 1)}"
    return f"{words} in {len(runs)} runs" if len(runs) > 1 else words


def _columns(runs: Sequence[Run]) -> set[str]:
    """Return the fields that have values in any of the runs, except ``epoch``."""
    return {name for run in runs for name in run.columns} - {"epoch"}


def _same_result(runs: Sequence[Run], others: Sequence[Run]) -> bool:
    """Return whether two readings begin and end at the same reward, or at the same loss if neither has a reward."""
    ends = []
    result = "reward_mean" if any("reward_mean" in run.columns for run in (*runs, *others)) else "loss"
    for read in (runs, others):
        series = [run.columns[result] for run in read if result in run.columns]
        values = np.concatenate(series) if series else np.empty(0)
        values = values[np.isfinite(values)]
        if len(values) < 2:
            return False
        part = max(len(values) // 5, 1)
        ends.append((values[:part].mean(), values[-part:].mean(), np.ptp(values)))
    (first, last, width), (other_first, other_last, other_width) = ends
    near = _ALIKE * max(width, other_width)
    return bool(abs(first - other_first) <= near and abs(last - other_last) <= near)


def checked(run: Run) -> Run:
    """Record the evidence for and against the reading of a run, and return the run."""
    if run.reading is None:
        run.reading = Reading(way=run.format, why="its format is known", rows=len(run))
    run.reading.pace = pace(run.steps)
    run.reading.out_of_range = [name for name in LIMITS if name in run.columns and _outside(run.columns[name], name)]
    run.reading.unused = candidates(run.unread, len(run))
    if _PAYS.isdisjoint(run.columns) and run.run_type not in ("preference", "evaluation") and run.reading.unused:
        note = NotRead(run.reading.not_recognised)
        run.notes = [note, *(other for other in run.notes if other != note)]  # parts of a file were checked before
    elif run.run_type == "none" and not run.notes:
        run.notes.append(_unknown(run) or "no metrics recognised: no name is followed by numbers on several lines")
    return run


def _unknown(run: Run) -> str:
    """Return a note if all names with several values are unknown, or if a table has no column that counts steps.
    Otherwise, return an empty string. The first column of a table without a known counter is not proposed as a metric,
    because it usually counts the rows."""
    names = [name for name, count in run.unread.items() if count > 1]
    metrics = [name for name in names if name.lower().replace(" ", "_") not in (*STEP_KEYS, *WEAK_STEP_KEYS)]
    if run.format == "csv" and metrics == names:
        metrics = names[1:]
    if not metrics:
        columns = ", ".join([*run.unread][:_LISTED])
        return f"no column counts steps among {columns}; not read" if run.format == "csv" and columns else ""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    kind = "columns" if run.format == "csv" else "names"
    likely = candidates({name: run.unread[name] for name in metrics}, len(run))
    mapped = shlex.quote(f"{next(iter(likely), 'NAME')}=reward_mean")
    return f"No known metric among the {kind} {', '.join(names[:_LISTED])}{more}. For the reward, add --map {mapped}"


def _outside(column: np.ndarray, name: str) -> bool:
    low, high = LIMITS[name] if name not in SHARES else (-1e-6, 1 + 1e-6)
    known = column[np.isfinite(column)]
    return bool(len(known) and (known.min() < low or known.max() > high))


def candidates(unread: Mapping[str, int], rows: int) -> dict[str, int]:
    """Return the unused series that may be a reward, judged by name. Series with about as many values as rows come
    first."""
    able = [name for name, n in unread.items() if n > 1 and _REWARD.search(name) and not _NO_REWARD.search(name)]
    ranked = sorted(able, key=lambda name: (abs(unread[name] - rows), not _SURELY.search(name), len(name)))
    return {name: unread[name] for name in ranked[:_NAMED]}
