"""``python -m benchmarks.corpus.autocorrelation``: the lag-1 autocorrelation of the rewards of public logs.

The noise of a reward is what a level, a slope and steps leave (`grpo_doctor.series.noise_model`). One row per run is
stored in ``autocorrelation.csv``; a repository counts once, with the median of its runs.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from grpo_doctor import __version__
from grpo_doctor.readers import ReadError, read
from grpo_doctor.series.noise_model import noise_of
from tests.corpus_path import CORPUS

from . import tables
from .fetch import wanted

STORED = Path(__file__).with_name("autocorrelation.csv")
COLUMNS = ("date", "version", "id", "repo", "rows", "lag1")
FEWEST = 20
"""Rows with a reward that a run must have."""


def measured() -> Iterator[dict[str, str]]:
    """One row for each run with enough rewards that differ."""
    for label in wanted():
        try:
            runs = read(CORPUS / label["file"])
        except ReadError:
            continue
        for run in runs:
            rewards = run.columns.get("reward_mean", np.empty(0))
            known = rewards[np.isfinite(rewards)]
            if len(known) >= FEWEST and known.std() > 0:
                yield {
                    "date": datetime.date.today().isoformat(), "version": __version__, "id": label["id"],
                    "repo": label["repo"], "rows": str(len(known)), "lag1": f"{noise_of(known).along:.3f}",
                }  # fmt: skip


def quantiles(rows: list[dict[str, str]]) -> tuple[int, float, float]:
    """The number of repositories, and the values that half and nine in ten of them do not exceed."""
    by_repo: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_repo[row["repo"]].append(float(row["lag1"]))
    half, most = np.quantile([np.median(lags) for lags in by_repo.values()], (0.5, 0.9))
    return len(by_repo), float(half), float(most)


def main() -> None:
    """Measures every run, stores the rows and prints the quantiles."""
    tables.write(STORED, COLUMNS, measured())
    print("{} repositories: half up to {:.2f}, nine in ten up to {:.2f}".format(*quantiles(tables.read(STORED))))


if __name__ == "__main__":
    main()
