"""Draws records of healthy and failing runs side by side for the page "What is normal?"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..readers import read
from ..run import Run
from .arms import ALONE, HEALTHY, REFERENCE, SEEDS, Job

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = (HEALTHY, "constant-reward", "truncation", "entropy-coefficient-huge")
"""Runs to draw: a healthy run, a run with zero-variance groups, a run with truncated responses, and a run that
diverges."""
FIELDS = {
    "reward_mean": "reward",
    "dead_share": "dead groups",
    "cut_share": "cut responses",
    "entropy_mean": "entropy, nats",
    "kl": "KL, nats",
    "grad_norm": "gradient norm",
}
"""Fields to draw, with their labels."""


def draw(path: Path, lab: Path) -> None:
    """Draw the runs in the results folder as SVG, with one line per seed. The panel of a missing run stays empty."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "grpo-doctor", "font.size": 8}):
        drawn = Figure(figsize=(8, 7), layout="constrained")
        grid = drawn.subplots(len(FIELDS), len(SHOWN), sharex=True, sharey="row", squeeze=False)
        for column, name in enumerate(SHOWN):
            grid[0][column].set_title(name.replace("-", " "))
            for run in _runs(lab, name):
                for row, field in enumerate(FIELDS):
                    _line(grid[row][column], run, field, "#1d4ed8" if name == HEALTHY else "#b91c1c")
        for row, label in enumerate(FIELDS.values()):
            grid[row][0].set_ylabel(label)
        drawn.supxlabel("step")
        drawn.savefig(path, metadata={"Date": None})


def _runs(lab: Path, name: str) -> list[Run]:
    """Return the records of each seed of the reference run, or of a run with a fault and no remedy."""
    jobs = [Job(name, REFERENCE if name == HEALTHY else ALONE, seed) for seed in range(SEEDS)]
    paths = [(lab / job.path).with_suffix(".jsonl") for job in jobs]
    return [run for path in paths if path.is_file() for run in read(path)]


def _line(axes: Axes, run: Run, field: str, color: str) -> None:
    values = run.column(field)
    if values is not None and np.isfinite(values).any():
        axes.plot(run.steps, values, color=color, linewidth=0.8)
