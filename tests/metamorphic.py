"""``python -m tests.metamorphic [NAME …]``: tests that irrelevant changes of a log do not change its diagnosis.

Runs the properties below on every real log (or on those whose id or path contains a NAME) and prints each violation. A
property yields one line per violation. The suite runs the same properties on generated logs and on a few real ones.
"""

from __future__ import annotations

import copy
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from grpo_doctor import LiveDoctor
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import ReadError, read, survey
from grpo_doctor.run import Run
from grpo_doctor.series.trend import UNIT

from .corpus import labels
from .corpus_path import CORPUS

Made = Callable[[int], dict[str, np.ndarray]]
"""A generator of `tests.synthetic.runs`."""
SCALES = {"x 0.01": (0.01, 0.0), "x 1000": (1000.0, 0.0), "+ 5": (1.0, 5.0)}
LEVELS, SPREADS = ("reward_mean", "reward_min", "reward_max"), ("reward_std",)
LONGEST = 2000
"""Rows up to which a run is fed to the live doctor too."""
SHORTEST = 40
"""Rows of the shortest window."""
LOST = 0.1
"""Share of the rows that a log may lose."""
CUTS = 3
"""Places at which each log is cut."""
LARGEST = 1 << 24
"""Bytes of a log up to which it is cut and renamed."""
GRAVITY = {"healthy": 0, "unproven": 0, "unjudged": 0, "suspect": 1, "failing": 2}


def with_its_top(run: Run) -> Run:
    """Record the largest reward of the run if only its scale, 0 to 1, shows the maximum."""
    rewards = run.columns["reward_mean"]
    known = rewards[np.isfinite(rewards)]
    out = copy.copy(run)
    if "reward_max" not in run.columns and known.size and known.min() >= 0 and UNIT < known.max() <= 1:
        out.columns = {**run.columns, "reward_max": np.ones(len(run))}
    return out


def rescaled(run: Run, factor: float, offset: float) -> Run:
    """Return the run with every reward times ``factor`` plus ``offset``; components are parts of a sum, so they get no
    offset."""
    out = copy.copy(run)
    out.columns = dict(run.columns)
    for name in (*LEVELS, *SPREADS):
        if name in run.columns:
            out.columns[name] = factor * run.columns[name] + (offset if name in LEVELS else 0.0)
    for name, move in (("reward_components", _components), ("group_rewards", _groups)):
        if name in run.columns:
            column = out.columns[name] = np.full(len(run), None, object)
            for row, held in enumerate(run.columns[name]):
                column[row] = None if held is None else move(held, factor, offset)
    return out


def _components(held: dict[str, float], factor: float, offset: float) -> dict[str, float]:
    return {name: factor * value for name, value in held.items()}


def _groups(held: list[list[float]], factor: float, offset: float) -> list[list[float]]:
    return [[factor * value + offset for value in group] for group in held]


def excerpt(run: Run, rows: Sequence[int]) -> Run:
    """Return the run as a log with only these rows would show it."""
    out, at = copy.copy(run), np.asarray(rows)
    place = {row: number for number, row in enumerate(rows)}
    out.steps, out.lines = run.steps[at], run.lines[at] if len(run.lines) else run.lines
    out.columns = {name: column[at] for name, column in run.columns.items()}
    out.events = {place[row]: events for row, events in run.events.items() if row in place}
    out.samples = {place[row]: samples for row, samples in run.samples.items() if row in place}
    return out


def first_rows(run: Run, n: int) -> Run:
    """Return the run as it was after ``n`` rows."""
    return excerpt(run, range(n))


def windows(rows: int) -> dict[str, range]:
    """Return prefixes, suffixes and windows of at least `SHORTEST` rows."""
    half, third = rows // 2, rows // 3
    found = {
        "first half": range(half),
        "second half": range(half, rows),
        "first third": range(third),
        "middle third": range(third, 2 * third),
        "last third": range(2 * third, rows),
        "first rows": range(SHORTEST),
        "last rows": range(max(rows - SHORTEST, 0), rows),
    }
    return {name: window for name, window in found.items() if SHORTEST <= len(window) < rows}


def thinned(run: Run) -> dict[str, Run]:
    """Return variants of the run: every second row, without a tenth of its rows, under another name, and with reversed
    columns."""
    keep = np.random.default_rng(len(run)).random(len(run)) > LOST
    other = copy.copy(run)
    other.source = "another-name"
    turned = copy.copy(run)
    turned.columns = dict(reversed(run.columns.items()))
    return {
        "every second row": excerpt(run, range(0, len(run), 2)),
        "a tenth of the rows lost": excerpt(run, np.flatnonzero(keep).tolist()),
        "renamed": other,
        "columns reversed": turned,
    }


def said(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return every finding with its severity, its dates and whether it has cleared."""
    found = {f.code: (f.severity, f.cleared, f.onset_step, f.detected_step) for f in diagnosis.findings}
    return {"verdict": diagnosis.verdict, "cause": diagnosis.cause, **found}


def different(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return the differences of two diagnoses."""
    keys = sorted(one.keys() | other.keys())
    return ", ".join(f"{k}: {one.get(k)} → {other.get(k)}" for k in keys if one.get(k) != other.get(k))


def scale_of_the_reward(run: Run) -> Iterator[str]:
    """The unit of the reward changes no verdict, and adding a constant makes none worse.

    On a scale of 0 to 1 the maximum is known, so a run may be solved or a constant reward low. The scaled reward is
    recorded with its maximum for the same reason. A fall is a share of its level, so a constant makes the same fall
    count less.
    """
    if "reward_mean" not in run.columns:
        return
    known = with_its_top(run)
    before = diagnose(known).verdict
    for name, (factor, offset) in SCALES.items():
        after = diagnose(rescaled(known, factor, offset)).verdict
        if GRAVITY[after] > GRAVITY[before] or (not offset and after != before):
            yield f"reward {name}: {before} → {after}"


def rows_to_come(run: Run) -> Iterator[str]:
    """The findings after some rows are the same in the whole log, in a run that ends there, and in a live run that
    continues."""
    if not 1 < len(run) <= LONGEST or run.run_type not in ("rl", "supervised", "preference"):
        return
    records = list(run.records())
    doctor = LiveDoctor(run.settings, run_type=run.run_type)
    ends = sorted({len(run) * (i + 1) // CUTS for i in range(CUTS)})
    for row, record in enumerate(records):
        doctor.push(record, run.samples.get(row))
        if row + 1 in ends:
            whole, live = said(diagnose(first_rows(run, row + 1))), said(doctor.diagnosis())
            if (words := different(whole, live)) != "":
                yield f"after {row + 1} rows, whole → live: {words}"


def cut_anywhere(path: Path, runs: list[Run], folder: Path, rng: random.Random) -> Iterator[str]:
    """A log that is cut at any byte gives the first rows of the whole log."""
    content = path.read_bytes()
    torn = folder / path.name
    for at in sorted(rng.randrange(len(content)) for _ in range(CUTS)):
        torn.write_bytes(content[:at])
        try:
            part = read(torn)
        except ReadError:
            continue
        lines = content[:at].count(b"\n")
        for run, whole in zip(part, runs, strict=False):
            if not len(run) or _merged(run) != _merged(whole):
                continue  # so short a log is not known for what it is, and says so
            expected = np.count_nonzero((whole.lines > 0) & (whole.lines <= lines))
            if len(part) == len(runs) == 1 and len(run) < expected - 1:
                yield f"cut at byte {at} of {len(content)}: {len(run)} rows, {expected} stand before the cut"
            for name in ("reward_mean", "loss", "grad_norm"):
                if name in run.columns and name in whole.columns and (words := _other_values(run, whole, name)):
                    yield f"cut at byte {at} of {len(content)}: {words}"


def _merged(run: Run) -> bool:
    """Return whether rows of one step were merged into one row."""
    return any(" rows merged into " in note for note in run.notes)


def _other_values(part: Run, whole: Run, name: str) -> str:
    """Return where the values of the beginning differ; the last two rows may lack the part after the cut.

    Steps that no row states are spread between the known ones, so they may differ.
    """
    here, there = (c[~np.isnan(c)] for c in (part.columns[name], whole.columns[name]))
    n = min(len(here), len(there)) - 2
    if n <= 0 or np.array_equal(here[:n], there[:n]):
        return ""
    at = int((here[:n] != there[:n]).argmax())
    return f"{name} number {at + 1} of {len(here)} is {here[at]:.4g}, {there[at]:.4g} in the whole log"


LIST = rb"['\"]?\s*[:=]?\s*(?:tensor\()?\["
"""Beginning of a list; a list of single rewards is recognised by its name alone."""


def names_of_keys(path: Path, runs: list[Run], folder: Path) -> Iterator[str]:
    """A reward, KL or entropy with an unknown name is judged the same if ``--map`` names it."""
    (run,) = runs
    renamed, mapping = path.read_bytes(), {}
    if b"\0" in renamed[:4096]:
        return  # binary logs contain the lengths of names
    for number, (key, field) in enumerate(run.mapping.items()):
        if field in ("reward_mean", "kl", "entropy_mean") and re.fullmatch(r"[\w/.@-]+", key):
            word = f"zzq{number}"
            name = rb"(?<![\w/.@-])" + re.escape(key.encode()) + rb"(?![\w/.@-])"
            if re.search(name + LIST, renamed):
                continue
            renamed, count = re.subn(name, word.encode(), renamed)
            mapping.update({word: field} if count else {})
    if not mapping:
        return
    other = folder / path.name
    other.write_bytes(renamed)
    (again,) = read(other, mapping)
    before, after = diagnose(run), diagnose(again)
    if (before.verdict, before.cause) != (after.verdict, after.cause):
        yield f"--map {mapping}: {different(said(before), said(after))}"


def order_of_files(paths: list[Path], folder: Path) -> Iterator[str]:
    """A folder gives the same runs whatever the names and the order of its files."""
    told = []
    for order in (paths, paths[::-1]):
        room = Path(tempfile.mkdtemp(dir=folder))
        for place, path in enumerate(order):
            (room / f"{place:03}-{path.name}").write_bytes(path.read_bytes())
        told.append(sorted(str((len(run), run.run_type, said(diagnose(run)))) for run in survey(room).runs))
    if told[0] != told[1]:
        yield f"{len(told[0])} runs, the other way round {len(told[1])}: {set(told[0]) ^ set(told[1])}"


def properties(path: Path, folder: Path) -> Iterator[str]:
    """Yield the violations of every property for one log."""
    try:
        runs = read(path)
    except ReadError:
        return
    for run in runs:
        for holds in (scale_of_the_reward, rows_to_come):
            yield from holds(run)
    if path.stat().st_size <= LARGEST:
        yield from cut_anywhere(path, runs, folder, random.Random(path.name))
        if len(runs) == 1:
            yield from names_of_keys(path, runs, folder)


def main() -> int:
    """Print every violation; return their number."""
    if not CORPUS.is_dir():
        print(f"the corpus of real logs is not at {CORPUS}; set GRPO_DOCTOR_CORPUS")
        return 2
    load()
    wrong, started, names = 0, time.monotonic(), sys.argv[1:]
    chosen = [row for row in labels() if not names or any(n in (row["id"], row["file"]) for n in names)]
    small = [path for row in chosen if (path := CORPUS / row["file"]).stat().st_size < 1 << 20]
    jobs = [(row["id"], partial(properties, CORPUS / row["file"])) for row in chosen]
    jobs += [(f"files {i}", partial(order_of_files, small[i : i + 8])) for i in range(0, len(small), 8)]
    for done, (name, job) in enumerate(jobs):
        print(f"{done} of {len(jobs)}", end="\r", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for words in job(Path(folder)):
                wrong += 1
                print(f"{name}: {words}", flush=True)
    print(f"{len(chosen)} logs, {wrong} violations, {time.monotonic() - started:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
