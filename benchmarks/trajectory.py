"""Operating characteristics of the trajectory: ``python -m benchmarks.trajectory`` prints the table of trajectory.md.

Gains and drops are in standard deviations of a row. A row that averages many steps is first scaled to standard
deviation 1, so that averaging changes only its autocorrelation.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from grpo_doctor.series.trend import SHORT
from tests.simulated import ever_fell, falling, judged, noise, rising

HEAD = (
    *("lag-1", "steps a row", "rows", "flat: learnt", "flat: fell", "fell, looked at live"),
    *("+3 sd shown", "+5 sd shown", "-3 sd shown", "-5 sd shown", "dated within a tenth"),
)
KINDS = ((0.0, 1), (0.3, 1), (0.6, 1), (0.6, 10), (0.9, 50))
"""Lag-1 correlation of steps, and steps that a row averages."""


def made(count: int, rows: int, kind: tuple[float, int], rng: np.random.Generator) -> list[np.ndarray]:
    """Return this many flat runs whose rows have standard deviation 1."""
    raw = [noise(rows, *kind, rng) for _ in range(count)]
    return [x / np.sqrt(np.mean([np.var(y) for y in raw])) for x in raw]


def cells(runs: int, live: int, rows: int, kind: tuple[float, int], rng: np.random.Generator) -> list[float]:
    """Return the shares in one row of the table."""
    flat = [judged(x) for x in made(runs, rows, kind, rng)]
    seen = [ever_fell(x) for x in made(live, rows, kind, rng)]
    rises = [[judged(x + rising(rows, size)) for x in made(runs // 2, rows, kind, rng)] for size in (3, 5)]
    falls = [[judged(x + falling(rows, size)) for x in made(runs // 2, rows, kind, rng)] for size in (3, 5)]
    dated = [abs(o.since - 0.7 * rows) <= 0.1 * rows for o in falls[1] if o.fallen]
    out = [np.mean([o.gained for o in flat]), np.mean([o.fallen > 0 for o in flat]), np.mean(seen)]
    out += [np.mean([o.gained for o in group]) for group in rises]
    out += [np.mean([o.fallen > 0 for o in group]) for group in falls]
    return [float(x) for x in (*out, np.mean(dated) if dated else np.nan)]


def most_powerful(rows: int, lag: float, size: float = 3, *, line: bool = False) -> float:
    """Return the share of gains that the most powerful test with 1% of false gains finds (Neyman and Pearson).

    It knows the lag-1 correlation and the shape of the rise, or assumes a straight line, and estimates level and scale.
    """
    inverse = np.linalg.inv(lag ** np.abs(np.subtract.outer(np.arange(rows), np.arange(rows))))
    within = inverse - np.outer(inverse.sum(1), inverse.sum(0)) / inverse.sum()
    rise = rising(rows, size)
    shape = np.arange(rows) if line else rise
    found = stats.nct.sf(stats.t.isf(0.01, rows - 2), rows - 2, rise @ within @ shape / np.sqrt(shape @ within @ shape))
    return float(found)


def main() -> None:
    """Print one row for each kind of noise and length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--live", type=int, default=400, help="flat runs that are looked at after every row")
    parser.add_argument("--scores", type=int, default=6000, help="flat runs of few held-out scores")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for kind in KINDS:
        for rows in (20, 40, 60, 200, 2000):
            shares = cells(options.runs, options.live, rows, kind, rng)
            print(f"| {kind[0]} | {kind[1]} | {rows} | " + " | ".join(f"{c:.1%}" for c in shares) + " |", flush=True)
    for lag in (0.0, 0.3, 0.6):
        shares = [most_powerful(20, lag, line=line) for line in (False, True)]
        print(f"+3 sd in 20 rows, lag-1 {lag}, most powerful test: {shares[0]:.0%}; with a line: {shares[1]:.0%}")
    for rows in (20, 40, 60, 200):
        lucky = [judged((rng.random(rows) < 0.1) * rng.random(rows)) for _ in range(options.scores)]
        print(f"{rows} rows, of which one in ten pays anything: gained in {np.mean([o.gained for o in lucky]):.2%}")
    for lag in (0.0, 0.3):
        seen = [ever_fell(noise(SHORT, lag, 1, rng), apart=True) for _ in range(options.scores)]
        print(f"{SHORT} held-out scores, lag-1 {lag}: fell on any in {np.mean(seen):.2%} of {options.scores} flat runs")
        for few in (6, 8, 12, SHORT):
            flat = [judged(noise(few, lag, 1, rng), apart=True).gained for _ in range(options.scores)]
            print(f"{few} held-out scores, lag-1 {lag}: gained in {np.mean(flat):.2%}")


if __name__ == "__main__":
    main()
