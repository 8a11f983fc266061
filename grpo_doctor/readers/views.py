"""Finds files that show the same run, so that the run is counted once.

Two files are views of one run if the same steps have the same values. Examples are a CSV derived from the log,
TensorBoard alongside the console, and the trainer_state of an earlier checkpoint. Single rows may differ, such as a
last average. Two files are separate runs if a block of rows differs, or if one file continues after the end of the
other. A run that shares only its beginning with another run must be judged separately, because it may have collapsed
later. Data that only one view has is judged with the run. Folders and fleets use the same `Views`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..run import Run, RunBuilder, Sample, non_finite
from .input import NotRead
from .series import CLOCKS

COMPARED = (
    "reward_mean",
    "loss",
    "grad_norm",
    "entropy_mean",
    "kl",
    "response_length_mean",
    "policy_loss",
    "eval_score",
)
_ENOUGH = 3
"""Minimum number of shared values for two files to be views of one run."""
_BLOCK = 3
"""Minimum number of consecutive rows that must differ, or that only one file has at its end, for two files to be
separate runs."""
TRAINING = frozenset(("rl", "supervised", "preference"))
OF_WHOLE_BATCHES = frozenset(
    "groups zero_variance_groups live_groups group_size group_rewards advantage_mean advantage_std advantage_min "
    "advantage_max advantage_abs_values".split()
)
"""Fields that cannot be derived from a part of a step's rollouts."""


def distinct(runs: list[Run]) -> tuple[list[Run], dict[str, str]]:
    """Return the distinct runs, each with the samples and settings of all its views, and a map from the files of other
    views to runs."""
    told, second = _told(runs)
    views = Views()
    for run in sorted(told, key=_fullness, reverse=True):
        same = views.of(run)
        if same is None and (half := next((other for other in views.kept if _halves(other, run)), None)) is not None:
            _adopt(half, run)
            half.unread |= run.unread
            half.ending = half.ending or run.ending
            half.run_type = "rl"
            half.notes.append(
                f"{run.source} has the other half of this run: rollouts and updates are logged separately"
            )
            second[file_of(run.source)] = half.source
            continue
        if same is None:
            views.keep(run)
            continue
        taken = _adopt(same, run)
        read = f"; {', '.join(taken)} was read from it" if taken else ""
        again = "another output of the file" if run.source == same.source else run.source
        same.notes.append(f"{again} is another log of this run and was not counted again{read}")
        same.notes += [NotRead(f"{run.source}: {note}") for note in run.notes if isinstance(note, NotRead)]
        second[file_of(run.source)] = same.source
        same.settings = _of_whole(run) | same.settings
        if same.run_type == "supervised" and run.run_type in TRAINING:
            same.run_type = run.run_type  # this view has data that the other view lacks
    return sorted(views.kept, key=lambda run: natural(run.source)), second


_ROLLED = frozenset("reward_mean success_rate response_length_mean truncated_rate".split())
_UPDATED = frozenset("loss policy_loss grad_norm learning_rate".split())
_FEWEST = 3


def _halves(run: Run, other: Run) -> bool:
    """Return whether two files in one folder are the rollouts and the updates of one run. Such files have the same
    steps, except for a last step that only one file has, and share no field of rollouts or updates."""
    if Path(file_of(run.source)).parent != Path(file_of(other.source)).parent or len(run) < _FEWEST:
        return False
    rows = min(len(run), len(other))
    if max(len(run), len(other)) > rows + 1 or not np.array_equal(run.steps[:rows], other.steps[:rows]):
        return False
    if run.columns.keys() & other.columns.keys() & (_ROLLED | _UPDATED):
        return False
    rolled = [bool(one.columns.keys() & _ROLLED) for one in (run, other)]
    updated = [bool(one.columns.keys() & _UPDATED) for one in (run, other)]
    return rolled == [not held for held in updated] and rolled[0] != rolled[1]


class Views:
    """The distinct runs so far, with a search for the run of which a file is another view.

    Only runs that share many values are compared row by row. Runs that share many values are found by hashes, because
    comparing all pairs of thousands of runs would take an hour.
    """

    def __init__(self) -> None:
        self.kept: list[Run] = []
        self._places: dict[int, list[int]] = {}
        self._folders: dict[str, list[int]] = {}
        self._asked: tuple[Run | None, list[int]] = (None, [])

    def of(self, run: Run) -> Run | None:
        """Return the kept run of which this run is a view, or None if it is a separate run."""
        return next((self.kept[place] for place in self._near(run) if same_run(self.kept[place], run)), None)

    def keep(self, run: Run) -> None:
        place = len(self.kept)
        self.kept.append(run)
        self._folders.setdefault(_folder(run), []).append(place)
        for key in self._hashes(run):
            found = self._places.setdefault(key, [])
            if len(found) <= _MOST_ALIKE:
                found.append(place)

    def _near(self, run: Run) -> list[int]:
        """Return the places of the kept runs that may be the same run, the most likely first."""
        if run.format == "completions":
            above = [*Path(_folder(run)).parents, Path(_folder(run))]
            return sorted(chain.from_iterable(self._folders.get(str(folder), ()) for folder in above))
        if len(self.kept) <= _MOST_ALIKE:
            return [*range(len(self.kept))]
        found = [places for key in self._hashes(run) if len(places := self._places.get(key, ())) <= _MOST_ALIKE]
        least = max(_ENOUGH, _SHARE * len(found))
        return [place for place, times in Counter(chain.from_iterable(found)).most_common() if times >= least]

    def _hashes(self, run: Run) -> list[int]:
        """Return the hashes of a run. The hashes of the last run are cached."""
        if self._asked[0] is not run:
            self._asked = run, _hashes(run)
        return self._asked[1]


_MOST_ALIKE = 20
"""Number of runs that may share a value before the value no longer identifies a run. If at most `_MOST_ALIKE` runs are
kept, all runs are compared."""
_SHARE = 0.05
"""Minimum share of the identifying values that a view must have in common with a run. Two separate runs share about one
value in a hundred by chance."""


def _hashes(run: Run) -> list[int]:
    """Return hashes of a run's values, to three digits. The values at identifying steps are hashed with their steps,
    and the values on the first rows without steps."""
    names = [(number, name) for number, name in enumerate(COMPARED) if name in run.columns]
    if not names or not len(run):
        return []
    rows = np.array(view_rows(run), np.int64)
    numbers = np.array([number for number, _ in names])[:, None]
    digits = _three_digits(np.array([run.columns[name][rows] for _, name in names], float))
    first = -1 - len(run) * _ENOUGH - rows[:_ENOUGH]
    at_steps = _mixed(numbers, run.steps[rows], digits)[digits != 0]
    at_rows = _mixed(numbers, first, digits[:, :_ENOUGH])[digits[:, :_ENOUGH] != 0]
    hashes = np.concatenate((at_steps, at_rows))
    if len(hashes) > _MOST_HASHES:
        hashes = hashes[hashes >> np.uint64(62) == 0]  # the same selection for every run
    found: list[int] = hashes.tolist()
    return found


_MOST_HASHES = 256
"""Number of hashes per run above which only a quarter of the hashes is used."""


def _three_digits(values: np.ndarray) -> np.ndarray:
    """Return integers that are equal if values agree to three significant digits; 0 for values that are missing or
    0."""
    known = np.isfinite(values) & (values != 0)
    exponent = np.floor(np.log10(np.abs(np.where(known, values, 1.0))))
    mantissa = np.rint(np.where(known, values, 0.0) / 10.0 ** (exponent - 2))
    carried = np.abs(mantissa) == 1000  # 9.996 is 10.0
    mantissa, exponent = np.where(carried, mantissa / 10, mantissa), exponent + carried
    return np.where(known, (exponent + 400) * 4096 + mantissa + 1000, 0).astype(np.int64)


def _mixed(number: np.ndarray, at: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """Return a hash of each combination of metric, place and value (multiplicative hashing, Knuth, TAOCP 3, 6.4)."""
    mixed: np.ndarray = (at * len(COMPARED) + number).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= digits.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    return mixed * np.uint64(0x9E3779B97F4A7C15)


def view_rows(run: Run) -> list[int]:
    """Return the rows that identify views of a run: the first and last rows, and rows whose step is a multiple of
    50."""
    rows = len(run)
    round_steps = np.flatnonzero(run.steps[_ANCHORS:] % _ROUND == 0) + _ANCHORS
    last = range(max(rows - _ANCHORS, _ANCHORS), rows)
    return sorted({*range(min(_ANCHORS, rows)), *round_steps[: 3 * _ANCHORS].tolist(), *last})


_ANCHORS = 64
_ROUND = 50


def _told(runs: list[Run]) -> tuple[list[Run], dict[str, str]]:
    """Join the TensorBoard files, or the files of completions, of one folder into one run, unless their values
    contradict each other at the same steps. Return the runs, and a map from joined files to runs."""
    out: list[Run] = []
    groups: dict[tuple[str, str], list[list[Run]]] = {}
    for run in runs:
        if run.format not in ("tensorboard", "completions"):
            out.append(run)
            continue
        parts = groups.setdefault((run.format, str(Path(run.source).parent)), [])
        group = next((group for group in parts if not any(_contradict(other, run) for other in group)), None)
        if group is None:
            parts.append([run])
        else:
            group.append(run)
    parts = [group for found in groups.values() for group in found]
    part_of = {run.source: group[0].source for group in parts for run in group[1:]}
    return out + [joined(group) for group in parts], part_of


def _contradict(one: Run, other: Run) -> bool:
    """Return whether two files have different values at the same steps, and neither file continues the other."""
    if one.format == "completions":
        return False
    steps, here, there = np.intersect1d(one.steps, other.steps, return_indices=True)
    if len(steps) <= 0.5 * min(len(one), len(other)):
        return False
    shared = [name for name in one.columns.keys() & other.columns.keys() if one.columns[name].dtype != object]
    a = np.array([one.columns[name][here] for name in shared])
    b = np.array([other.columns[name][there] for name in shared])
    both = np.isfinite(a) & np.isfinite(b)
    return bool(both.any() and not np.isclose(a[both], b[both], rtol=1e-3).all())


def _of_whole(run: Run) -> dict[str, Any]:
    """Return the settings of a part that apply to the whole run, which excludes the number of responses."""
    return {name: value for name, value in run.settings.items() if name != "responses"}


def joined(runs: list[Run]) -> Run:
    """Join the parts of one run in the order of their files."""
    if len(runs) == 1:
        return runs[0]
    builder = RunBuilder(runs[0].source, runs[0].format)
    samples: dict[int, list[Sample]] = {}
    for run in runs:
        for row, held in run.samples.items():
            samples.setdefault(int(run.steps[row]), []).extend(held)
        builder.extend(run.steps, run.columns, run.lines, None, run.events)
    whole = builder.finish()
    whole.run_type = max(runs, key=len).run_type
    for run in runs:
        whole.mapping |= run.mapping
        whole.settings = _of_whole(run) | whole.settings
        whole.notes += run.notes
        for key, count in run.unread.items():
            whole.unread[key] = whole.unread.get(key, 0) + count
    for row, step in enumerate(whole.steps.tolist()):
        if step in samples:
            whole.samples[row] = samples.pop(step)
    return whole


def _adopt(run: Run, view: Run) -> list[str]:
    """Copy data that only a second view has: columns, including values that are not finite, and the samples of
    completions. Return the names of the copied columns.
    """
    rows = {step: row for row, step in enumerate(run.steps.tolist())}
    pairs = [(rows[step], row) for row, step in enumerate(view.steps.tolist()) if step in rows]
    if not pairs and len(run) == len(view):
        pairs = [(row, row) for row in range(len(run))]
    new = sorted(view.columns.keys() - run.columns.keys()) if pairs else []
    lost = view.not_finite()
    here, there = (np.array(side, np.int64) for side in zip(*pairs, strict=True)) if pairs else ((), ())
    if view.format == "completions" and _holds_a_part(run, view, here, there):
        new = [name for name in new if name not in OF_WHOLE_BATCHES]
    for name in new:
        column = view.columns[name]
        run.columns[name] = np.full(len(run), None if column.dtype == object else np.nan, column.dtype)
        run.columns[name][here] = column[there]
    for at, row in pairs:
        for name in (name for name in new if (row, name) in lost):
            run.events.setdefault(at, []).append(non_finite(name, view.columns[name][row]))
        if view.format == "completions":
            run.samples.setdefault(at, []).extend(view.samples.get(row, []))
    run.mapping |= {key: name for key, name in view.mapping.items() if name in new}
    return new


def _holds_a_part(run: Run, rollouts: Run, here: Any, there: Any) -> bool:
    """Return whether a file of rollouts contains only some rollouts of each step, because their mean reward differs
    from the logged reward on most rows."""
    if "reward_mean" not in run.columns or "reward_mean" not in rollouts.columns:
        return False
    logged, measured = run.columns["reward_mean"][here], rollouts.columns["reward_mean"][there]
    known = np.isfinite(logged) & np.isfinite(measured)
    return bool(known.any()) and bool(np.isclose(logged, measured, rtol=2e-3, atol=6e-4)[known].mean() < 0.5)


def _fullness(run: Run) -> tuple[bool, int]:
    measured = [c for name, c in run.columns.items() if c.dtype != object and name not in CLOCKS]
    known = sum(int((~np.isnan(c)).sum()) for c in measured)
    return run.format != "completions", known


def same_run(one: Run, other: Run) -> bool:
    """Return whether ``other`` shows the same run as ``one``. The two runs must have the same values at the same steps,
    or on the same rows. ``other`` must not continue after the end of ``one``."""
    if not len(one) or not len(other):
        return False
    steps, here, there = np.intersect1d(one.steps, other.steps, return_indices=True)
    if other.format == "completions":
        return len(steps) > 0 and Path(_folder(one)) in (Path(_folder(other)), *Path(_folder(other)).parents)
    rows = np.arange(len(one))
    if len(one) == len(other) >= _ENOUGH and _agree(one, other, rows, rows):
        return True
    shared = len(steps) >= max(_ENOUGH, 0.5 * min(len(one), len(other))) and _agree(one, other, here, there)
    return shared and int((other.steps > one.steps.max()).sum()) < _BLOCK


def _agree(one: Run, other: Run, here: np.ndarray, there: np.ndarray) -> bool:
    """Return whether the shared fields have the same values, to the printed precision, and whether enough of the values
    vary."""
    telling = 0
    for name in COMPARED:
        if name not in one.columns or name not in other.columns:
            continue
        a, b = one.columns[name][here], other.columns[name][there]
        if _broke(one, name, here, b) or _broke(other, name, there, a):
            return False
        known = np.isfinite(a) & np.isfinite(b)
        if known.sum() < _ENOUGH:
            continue
        a, b = a[known], b[known]
        if _part(~np.isclose(a, b, rtol=2e-3, atol=6e-4)):
            return False
        telling += len(np.unique(a)) if np.ptp(a) > 2e-3 else 0
    return telling >= _ENOUGH


def _part(differ: np.ndarray) -> bool:
    """Return whether rows differ like the rows of two separate runs: on more than a few rows, in a block, or on the
    last row."""
    if not differ.any():
        return False
    at = np.flatnonzero(differ)
    block = len(at) >= _BLOCK and bool((at[_BLOCK - 1 :] - at[: 1 - _BLOCK] == _BLOCK - 1).any())
    return block or bool(differ[-1]) or float(differ.mean()) > 0.05


def _broke(run: Run, name: str, rows: np.ndarray, others: np.ndarray) -> bool:
    """Return whether a run has NaN or infinite values on rows on which another run has numbers. A run with NaN or
    infinite values has failed and is not a second view."""
    broken = {row for row, field in run.not_finite() if field == name}
    return bool(broken) and bool((np.isin(rows, list(broken)) & np.isfinite(others)).any())


def _folder(run: Run) -> str:
    """Return the folder of a run's file."""
    return str(Path(os.path.abspath(run.source)).parent)


def file_of(source: str) -> str:
    """Return the file of a run whose source is ``FILE (name)``, because the file contains several runs."""
    return source[: source.rindex(" (")] if source.endswith(")") and " (" in source else source


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that orders 2 before 10."""
    parts = re.split(r"(\d{1,18})", name)
    return [(part.isdigit() and part.isascii(), int(part) if part.isascii() and part.isdigit() else 0, part)
            for part in parts]  # fmt: skip
