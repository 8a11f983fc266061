"""Selects the runs of a file to judge. If the file has RL runs, only these runs are judged, and other phases become
notes."""

from __future__ import annotations

import numpy as np

from ..run import Run, RunType

_WORDS: dict[RunType, str] = {
    "supervised": "supervised training",
    "preference": "preference training",
    "evaluation": "evaluation",
    "none": "lines without a training metric",
}


def judged(runs: list[Run]) -> list[Run]:
    """Return the RL runs of a file, or all runs if there are no RL runs."""
    trained = [run for run in runs if run.run_type == "rl"]
    if not trained:
        return runs
    told = [told_of(run) for run in runs if run.run_type != "rl" and len(run)]
    trained[0].notes += told
    return trained


def told_of(run: Run) -> str:
    """Describe, in one line, a phase that is not judged: its kind, rows and lines, and the change in its loss or
    score."""
    where = f"lines {run.lines[0]}-{run.lines[-1]}: " if run.lines.any() else ""
    rows = f"{len(run)} row{'s' * (len(run) != 1)}"
    for name in ("loss", "success_rate", "eval_score", "reward_mean"):
        column = run.columns.get(name)
        known = column[np.isfinite(column)] if column is not None else np.empty(0)
        if len(known):
            moved = f", {name.replace('_', ' ')} {known[0]:.3g} to {known[-1]:.3g}"
            return f"{where}{_WORDS.get(run.run_type, run.run_type)} of {rows}{moved}, not judged here"
    return f"{where}{_WORDS.get(run.run_type, run.run_type)} of {rows}, not judged here"
