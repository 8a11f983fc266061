"""Cost of a live step and of a whole run in this tree against another one, in turns, so that both are hit alike.

python -m benchmarks.turns OTHER_TREE
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

STEP = """
import random, sys, time
sys.path.insert(0, ".")
from benchmarks.live import SETTINGS, record
from grpo_doctor import LiveDoctor
rng, doctor, step = random.Random(0), LiveDoctor(SETTINGS), 0
for _ in sys.stdin:
    records = [record(n, rng) for n in range(step, step + 50)]
    step, began = step + 50, time.process_time()
    for known in records:
        doctor.push(known)
    print((time.process_time() - began) / 50, flush=True)
"""
"""Fifty steps of a run of which everything is known, with the whole catalogue."""
WHOLE = """
import sys, time
sys.path.insert(0, ".")
import numpy as np
from benchmarks.live import FIXED, LEVELS, SETTINGS
from grpo_doctor import diagnose
from grpo_doctor.run import RunBuilder
rng, rows, builder = np.random.default_rng(0), 100_000, RunBuilder()
noisy = list(LEVELS)[:20] + ["reward_mean", "reward_std", "response_length_mean"]
columns = {name: LEVELS[name] * rng.normal(1, 0.05, rows) for name in noisy}
columns |= {name: np.full(rows, float(FIXED[name])) for name in ("reward_max", "reward_min", "zero_variance_share")}
names = list(columns)
for step, values in enumerate(zip(*(columns[name].tolist() for name in names))):
    builder.add({"step": step, **dict(zip(names, values))})
builder.run.settings.update(SETTINGS)
run = builder.finish()
for _ in sys.stdin:
    began = time.process_time()
    diagnose(run)
    print(time.process_time() - began, flush=True)
"""
"""100,000 rows of 26 columns, read already."""


def compare(other: Path, code: str, blocks: int, warm: int, unit: float) -> str:
    """The medians of both trees, and of the ratios of neighbouring blocks."""
    trees = (other, Path(__file__).parents[1])
    pipes = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for tree in trees
    ]
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(blocks):
        for pipe, times in zip(pipes, spent, strict=True):
            assert pipe.stdin is not None
            assert pipe.stdout is not None
            print("go", file=pipe.stdin, flush=True)
            times.append(float(pipe.stdout.readline()))
    there, here = (statistics.median(times[warm:]) * unit for times in spent)
    ratio = statistics.median(new / old for old, new in zip(*(times[warm:] for times in spent), strict=True))
    return f"{here:.4g} against {there:.4g}: {ratio:.2f}"


def main(other: Path) -> None:
    """Prints both comparisons."""
    print("us CPU a live step:", compare(other, STEP, blocks=30, warm=5, unit=1e6))
    print("s CPU for 100,000 rows of 26 columns:", compare(other, WHOLE, blocks=6, warm=1, unit=1.0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
