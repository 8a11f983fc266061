"""Operating characteristics of a comparison: ``python -m benchmarks.compare`` prints the tables of compare.md.

It simulates pairs of runs of seven metrics with a known truth: flat, in white and autocorrelated (AR(1)) noise, without
and with a difference in one metric. ``--logs FOLDER`` adds the results on pairs of real runs that differ only in their
seed; each subfolder contains such runs.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np

from grpo_doctor.compare.align import Aligned, align
from grpo_doctor.compare.difference import METRICS, difference_of
from grpo_doctor.compare.divergence import partings
from grpo_doctor.readers import read
from tests.simulated import noise, rising

HEAD = (
    "lag-1",
    "shared rows",
    "any metric differs",
    "any metric diverges",
    "detectable is found",
    "half of it is found",
    "last third is found",
    "while learning",
    "dated",
)
AFTER, LAST = 0.4, 2 / 3
"""Shares of the run at which a planted difference begins."""
SIGMAS = 3.0
"""Height of a shift over the last third of the run, in standard deviations of one row of one run."""


def pair(places: int, along: float, rng: np.random.Generator, planted: float = 0.0, at: float = AFTER) -> Aligned:
    """Return two flat runs of one metric; the new one is higher by ``planted`` standard deviations from ``at`` on."""
    base, new = noise(places, along, 1, rng), noise(places, along, 1, rng)
    return Aligned(
        np.arange(places, dtype=float), base[None], (new + planted * (np.arange(places) >= at * places))[None]
    )


def learning(flat: Aligned) -> Aligned:
    """Return the same two runs on a learning curve that rises by 20 standard deviations."""
    curve = rising(len(flat.x), 20.0)
    return Aligned(flat.x, flat.base + curve, flat.new + curve)


def row(places: int, along: float, pairs: int, rng: np.random.Generator) -> list[float]:
    """Return the shares in one row of the table."""
    differs = diverges = found = half = last = curves = 0
    dated = []
    for _ in range(pairs):
        flat = {name: pair(places, along, rng) for name in METRICS}
        differences = [difference_of(name, name, 1, aligned) for name, aligned in flat.items()]
        differs += any(d.differs for d in differences)
        diverges += bool(partings(flat))
        size = differences[0].detectable
        found += _differs(pair(places, along, rng, size))
        half += _differs(pair(places, along, rng, size / 2))
        last += _differs(pair(places, along, rng, SIGMAS, LAST))
        curves += _differs(learning(pair(places, along, rng, SIGMAS, LAST)))
        parted = partings({"reward_mean": pair(places, along, rng, 6.0)})
        dated += [abs(p.at - AFTER * places) <= 0.05 * places for p in parted]
    shares = [count / pairs for count in (differs, diverges, found, half, last, curves)]
    return [*shares, float(np.mean(dated)) if dated else np.nan]


def _differs(aligned: Aligned) -> bool:
    return difference_of("reward_mean", "reward", 1, aligned).differs


def real(folder: Path) -> tuple[int, int]:
    """Return the number of pairs of runs in one folder, and the number of those in which no metric differs beyond
    noise."""
    runs = [run for path in sorted(folder.iterdir()) for run in read(path)]
    compared_pairs = quiet = 0
    for one, other in combinations(runs, 2):
        found = [
            difference_of(name, label, sign, aligned)
            for name, (label, sign) in METRICS.items()
            if (aligned := align([one], [other], name)) is not None
        ]
        compared_pairs, quiet = compared_pairs + 1, quiet + (not any(d.beyond_noise for d in found))
    return compared_pairs, quiet


def main() -> None:
    """Print one row for each kind of noise and length, and one for each folder of seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument(
        "--logs", type=Path, action="append", default=[], help="folder of runs that differ in their seed"
    )
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for along in (0.0, 0.3, 0.6, 0.9):
        for places in (20, 40, 60, 100, 200, 400):
            shares = row(places, along, options.pairs, rng)
            print(f"| {along} | {places} | " + " | ".join(f"{share:.1%}" for share in shares) + " |", flush=True)
    for folder in options.logs:
        told, quiet = real(folder)
        print(f"{folder.name}: {quiet} of {told} pairs without a difference")


if __name__ == "__main__":
    main()
