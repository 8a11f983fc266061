"""Cost of a fleet: ``python -m benchmarks.fleet 500 1500 5000`` prints CPU seconds and memory for this many runs.

Generated runs of 24 steps (`tests.fleet.sweeps`) are read and judged in one process, so that the figures are CPU times
and do not depend on other jobs. ``threads`` or ``processes`` in place of the numbers measures two workers on 60 runs.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from grpo_doctor.config import Config
from grpo_doctor.fleet.locations import Unit, find
from grpo_doctor.fleet.merge import merge_units
from grpo_doctor.fleet.overview import ordered, overview
from grpo_doctor.fleet.store import Store
from grpo_doctor.fleet.unit import Job, decode
from grpo_doctor.fleet.workers import mapped, work
from tests.fleet.sweeps import write_sweep

RUNS = 60


def cost(place: str) -> None:
    """Print the CPU seconds of reading and of everything after it."""
    begun = time.process_time()
    found = find([place])
    judged = [decode(document) for _, document in mapped(found.units, Job(Config()), jobs=1)]
    read = time.process_time()
    store = Store()
    whole = ordered(merge_units(judged))
    store.fill(whole)
    told = overview(store, whole, [place], 0.05)
    done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    named = ", ".join(effect.setting for effect in told.effects if effect.separates)
    print(f"{told.runs} runs: {read - begun:.1f} s to read, {done - read:.1f} s for the table, {peak} MB; {named}")


def side_by_side(units: list[Unit], pool: Callable[[int], ThreadPoolExecutor | ProcessPoolExecutor]) -> None:
    """Print the wall time with one and with two workers, alternating, twice."""
    for workers in (1, 2, 1, 2):
        with pool(workers) as started:
            list(started.map(work, units[:4], [Job(Config())] * 4))  # modules are loaded before the timing starts
            begun = time.perf_counter()
            list(started.map(work, units, [Job(Config())] * len(units)))
            print(f"{workers}: {time.perf_counter() - begun:.1f} s for {len(units)} runs")


def main() -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1] in ("threads", "processes"):
            units = find([str(write_sweep(Path(folder), RUNS, rng))]).units
            side_by_side(units, ThreadPoolExecutor if sys.argv[1] == "threads" else ProcessPoolExecutor)
            return
        for runs in map(int, sys.argv[1:]):
            cost(str(write_sweep(Path(folder) / str(runs), runs, rng)))


if __name__ == "__main__":
    main()
