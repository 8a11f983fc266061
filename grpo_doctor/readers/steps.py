"""Determines the step of each row, and the rows of each run. No other module determines steps or runs.

A row has its own step, the position of a progress bar, or neither. Evaluation rows are assigned to a training row. A
log contains several runs if a counter restarts, a final summary occurs, or the lines of several processes are
interleaved. A counter that decreases without restarting indicates a resumed run, which remains one run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

_FARTHEST = 2.0**53
_LATE = 2
"""Number of rows before the first row of an epoch that are compared with that first row. The last row of an epoch may
already contain the new epoch, because a progress bar is redrawn before it is reset to 0."""
_FEWEST = 5
"""Minimum number of training rows of a run that is identified only by its counter."""


def gathered(points: Iterable[tuple[int, str, float]]) -> Iterator[tuple[int, dict[str, float]]]:
    """Combine values that a store returns one by one as step, key and value, and yield the step and the row. A repeated
    key or another step begins a row."""
    row: dict[str, float] = {}
    current = 0
    for step, key, value in points:
        if row and (step != current or key in row):
            yield current, row
            row = {}
        current = step
        row[key] = value
    if row:
        yield current, row


def excursions(steps: np.ndarray) -> np.ndarray:
    """Return a mask of rows whose step interrupts a count that continues afterwards, because the trainer did not print
    these rows."""
    out = np.zeros(len(steps), bool)
    if len(steps) > 2:
        before, here, after = steps[:-2], steps[1:-1], steps[2:]
        out[1:-1] = (before < after) & ((here < before) | (here > after))
    return out


def runs(
    steps: np.ndarray,
    trains: np.ndarray,
    clocks: Sequence[np.ndarray],
    outer: Sequence[np.ndarray],
    ended: Iterable[int],
    origins: np.ndarray,
) -> list[np.ndarray]:
    """Return the rows of each run, in the order in which the runs begin.

    Args:
        steps: step of each row, NaN for none.
        trains: whether each row belongs to training.
        clocks: the epoch and the number of tokens so far at each row, NaN for none.
        outer: counters within which the steps may restart, such as ``iteration`` or an epoch.
        ended: rows before which the log reports the end of training.
        origins: number of the process that printed each row.
    """
    parts: list[np.ndarray] = []
    trains = trains if trains.any() else np.ones(len(steps), bool)  # only evaluations
    for rows in _apart(origins, trains):
        own = [float(at) for at in np.searchsorted(rows, sorted(ended))]
        here, within = ([counter[rows] for counter in kind] for kind in (clocks, outer))
        begins = _begins(steps[rows], trains[rows], here, within, own)
        parts += np.split(rows, begins)
    return sorted((part for part in parts if len(part)), key=lambda part: int(part[0]))


def _apart(origins: np.ndarray, trains: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each process if several processes print training rows in turn; otherwise, return all rows
    together."""
    every = np.arange(len(origins))
    trained = origins[trains]
    printing = [o for o in np.unique(trained) if np.count_nonzero(trained == o) >= _FEWEST]
    if len(printing) < 2:
        return [every]
    changes = np.count_nonzero(np.diff(trained[np.isin(trained, printing)]))
    if changes < len(printing):  # not interleaved: a restarted run, or consecutive runs
        return [every]
    owner = np.where(np.isin(origins, printing), origins, printing[0])
    return [every[owner == o] for o in printing]


def _begins(
    steps: np.ndarray,
    trains: np.ndarray,
    clocks: Sequence[np.ndarray],
    outer: Sequence[np.ndarray],
    ended: Sequence[float],
) -> list[int]:
    """Return the rows at which a new run begins."""
    known = trains & ~np.isnan(steps)
    counted = np.flatnonzero(known & ~_strays(steps, known))
    back = _back_to_start(steps, counted)
    back = [row for row in back if not any(_goes_on(counter, row) for counter in outer)]
    trained = [int(np.count_nonzero(trains[: int(row)])) for row in ended]
    ended = [row for row, at in zip(ended, trained, strict=True)
             if not clocks or not all(_runs_on(clock[trains], at) for clock in clocks)]  # fmt: skip
    for clock in clocks:
        timed = np.flatnonzero(trains & ~np.isnan(clock))
        anew = _back_to_start(clock, timed)
        back += [row for row in anew if not known[row] or not known[timed[timed < row][-1]] or row in ended
                 or steps[row] <= steps[timed[timed < row][-1]]]  # fmt: skip
    rows = np.flatnonzero(trains)
    rows = rows[np.diff(steps[rows], prepend=math.nan) != 0]  # rows that are merged count once
    sizes = np.diff(np.searchsorted(rows, [0, *back, len(steps)]))
    if np.median(sizes) < _FEWEST:  # frequent restarts are part of the log's way of counting
        back = []
    kept: list[int] = []
    for row in sorted({*back, *(int(row) for row in ended)}):
        least = 1 if row in ended else _FEWEST
        before = np.count_nonzero((rows < row) & (rows >= (kept[-1] if kept else 0)))
        if before >= least and np.count_nonzero(rows >= row) >= min(least, 2):
            kept.append(row)
    return kept


def _runs_on(clock: np.ndarray, row: int) -> bool:
    """Return whether a clock, such as the epoch, continues after the reported end of training, because rows were
    printed late."""
    before, after = clock[:row][~np.isnan(clock[:row])], clock[row:][~np.isnan(clock[row:])]
    return bool(len(before) and len(after)) and bool(after[0] >= before.max() > before[0])


def _strays(steps: np.ndarray, known: np.ndarray) -> np.ndarray:
    out = np.zeros(len(steps), bool)
    at = np.flatnonzero(known)
    out[at[excursions(steps[at])]] = True
    return out


def _back_to_start(counter: np.ndarray, rows: np.ndarray) -> list[int]:
    """Return the rows at which a counter returns to its start."""
    values = counter[rows]
    moves = np.diff(values)
    if not (moves < 0).any():
        return []
    stride = float(np.median(moves[moves > 0])) if (moves > 0).any() else 1.0
    found: list[int] = []
    first = values[0]
    for at in (np.flatnonzero(moves < 0) + 1).tolist():
        reached = values[at - 1] - first
        if values[at] <= first + 1.5 * stride and reached >= 1.5 * stride:
            found.append(int(rows[at]))
            first = values[at]
    return found


def restarts(counter: np.ndarray) -> bool:
    """Return whether a counter increases on every row and restarts because the program was restarted. A counter of
    periods, in contrast, restarts after the same number of rows each time."""
    begins = _back_to_start(counter, np.arange(len(counter)))
    ends = counter[[*(row - 1 for row in begins), len(counter) - 1]]
    whole = len(begins) and np.count_nonzero(np.diff(counter) <= 0) == len(begins)
    return bool(whole) and bool((ends[1:] > ends[0]).any() or (ends[1:-1] < ends[0]).any())


def _goes_on(counter: np.ndarray, row: int) -> bool:
    """Return whether another counter has increased at a row at which the steps restart, so that steps are counted
    within each period of that counter. If the row has no value of the counter, the next value counts, because some
    trainers print the epoch only at its end."""
    known = np.flatnonzero(~np.isnan(counter))
    before, after = counter[known[known < row]], counter[known[known >= row]]
    return bool(len(before) and len(after)) and bool(after[0] > before[-_LATE:].min())


def spread(steps: np.ndarray, rows: np.ndarray, reached: float = 0.0) -> np.ndarray:
    """Correct the steps of rows that were written to the log together.

    Rows are buffered while the progress bar advances. A metric that is repeated at the same position belongs to a later
    step. The rows at one position are therefore spread evenly from the previous position. Rows before the first
    position are spread evenly up to that position. The rows are numbered, and the final number of steps is divided
    equally between them, if the bar does not advance, or if these steps are between the positions before and after
    every row, because the bar was printed less often than the rows.

    Args:
        steps: position of the bar at each row, or NaN if unknown.
        rows: rows with the most frequent metric.
        reached: number of steps that were taken after the last row, or 0 if unknown.
    """
    out = steps.copy()
    here = steps[rows]
    known = ~np.isnan(here)
    counted = np.arange(1.0, len(rows) + 1)
    if reached > len(rows) > 0:
        counted = np.minimum(counted * round(reached / len(rows)), reached)
    if not known.any():
        if reached:
            out[rows] = counted
        return out
    least = np.where(known, here, 0.0)
    here[: np.argmax(known)] = here[np.argmax(known)]
    begins = np.flatnonzero(np.diff(here, prepend=math.nan) != 0)
    counts = np.diff(np.append(begins, len(here)))
    way = np.diff(here[begins], prepend=0.0)
    if not (counts > 1).any():
        return out
    most = np.repeat(np.append(here[begins[1:]], reached), counts)
    printed_before = bool(((least <= counted) & (counted <= most)).all())
    still = bool((way < counts)[counts > 1].any()) and len(rows) > 1
    if printed_before or still:
        out[:] = math.nan
        out[rows] = counted
        return out
    stride = way / counts
    if len(stride) > 1:  # a resumed run does not begin at 0
        stride[0] = min(stride[0], np.median(stride[1:]))
    left = np.repeat(np.append(begins[1:], len(here)), counts) - np.arange(len(here)) - 1
    out[:] = math.nan
    out[rows] = np.round(here - np.repeat(np.where(counts > 1, stride, 0.0), counts) * left)
    return out


def joined(steps: np.ndarray, rollouts: Sequence[int]) -> np.ndarray:
    """Assign the step of the following update to rows that are numbered by their rollout.

    If there are several updates per rollout, the number of a rollout is lower than the steps of its updates. For
    example, step 40 trains on rollout 20.
    """
    updates = np.setdiff1d(np.flatnonzero(~np.isnan(steps)), rollouts)
    out = steps.copy()
    if len(updates):
        after = np.searchsorted(updates, rollouts)
        out[list(rollouts)] = steps[updates[np.minimum(after, len(updates) - 1)]]
    return out


def left_out(epoch: np.ndarray | None) -> int:
    """Return the number of rows that are missing before an excerpt whose epochs advance in fractions and do not begin
    at 0; otherwise 0."""
    known = np.array([]) if epoch is None else epoch[~np.isnan(epoch)]
    moves = np.diff(known)
    if not len(moves) or moves.min() < 0 or not moves.mean() > 0 or known[0] == np.floor(known[0]):
        return 0
    before = round(float(known[0] / moves.mean())) - 1
    return before if before >= _FEWEST else 0


def of_rows(
    steps: np.ndarray, trains: np.ndarray, weak: np.ndarray, epoch: np.ndarray | None = None, evaluations: int = 0
) -> np.ndarray:
    """Return the step of each row. A row without a step has the step of the previous row. Evaluation rows are assigned
    to a training row, unless there are more evaluations than training rows.

    Args:
        steps: step of each row, NaN for none.
        trains: whether each row belongs to training.
        weak: a counter such as ``episode``, which is used if there is no other counter.
        epoch: epoch of each row. If an excerpt of a log has no step counter, the epoch determines the step of the first
            row.
        evaluations: number of values of the held-out series.
    """
    steps = steps.copy()
    steps[~(np.abs(steps) < _FARTHEST)] = math.nan
    known = ~np.isnan(steps)
    if not known.any():
        if len(steps) > 1 and (np.diff(weak) > 0).all() and (weak == np.floor(weak)).all():
            return np.asarray(weak, np.int64)
        counted = np.cumsum(trains if trains.any() else np.ones(len(steps)))
        return np.asarray(np.maximum(counted, 1) + left_out(epoch), np.int64)
    last = np.maximum.accumulate(np.where(known, np.arange(len(steps)), -1))
    steps = np.asarray(np.where(last >= 0, steps[last], steps[np.argmax(known)]))
    if trains.any() and np.count_nonzero(trains) >= evaluations:
        at = np.flatnonzero(trains)
        for row in np.flatnonzero(~trains).tolist():
            after = int(np.searchsorted(at, row))
            if after and (steps[at[after - 1]] == steps[row] or after == len(at)):
                steps[row] = steps[at[after - 1]]
            elif after < len(at):
                steps[row] = steps[at[after]]
    return np.asarray(steps, np.int64)


def continued(steps: np.ndarray, epoch: np.ndarray | None) -> np.ndarray:
    """Return steps that continue across epochs, if the logged steps restart with every epoch."""
    if epoch is None or len(epoch) != len(steps):
        return steps
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    held = np.flatnonzero(~np.isnan(epoch))
    turns = [row for row in back.tolist() if _goes_on(epoch, row) and epoch[held[held >= row][0]].is_integer()]
    if not turns or len(turns) < len(back):
        return steps
    at = np.array(turns)
    stride = int(np.median(np.diff(steps)[np.diff(steps) > 0])) if (np.diff(steps) > 0).any() else 1
    return steps + np.cumsum(np.bincount(at, steps[at - 1] - steps[at] + stride, len(steps))).astype(np.int64)


def repeated(steps: np.ndarray, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the rows that have the same step as the previous row, and a metric that the previous row also has."""
    both = np.zeros(max(len(steps) - 1, 0), bool)
    for column in columns.values():
        if column.dtype != object:
            known = ~np.isnan(column)
            both |= known[1:] & known[:-1]
    return np.flatnonzero(both & (np.diff(steps) == 0)) + 1


def restarted(repeated: np.ndarray, steps: np.ndarray, trains: np.ndarray) -> list[int]:
    """Return the training rows whose step is repeated because the run was restarted; empty if repeated steps are part
    of the log's way of counting. A restart is assumed if repeated rows are rare, or if only the first step repeats. A
    restart is also assumed if a counter decreases and fewer than half of its steps repeat."""
    again = repeated[trains[repeated] & trains[repeated - 1]]
    moves = np.diff(steps)
    first = bool((steps[again] == steps[0]).all()) and np.count_nonzero(moves) > 1
    goes_back = bool((moves < 0).any()) and 2 * len(again) < np.count_nonzero(moves) + 1
    return again.tolist() if first or goes_back or len(again) <= 0.1 * len(trains) else []
