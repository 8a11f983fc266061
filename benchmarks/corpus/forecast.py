"""``python -m benchmarks.corpus.forecast``: how well the verdict on part of a run predicts its end.

Each labelled run is judged after 30, 50 and 70% of its rows; ``forecast.csv`` stores the verdicts. The probability that
it ends failing is the share of failing runs among those of the other repositories with the same verdict at that point
(Laplace's rule), so that no run is forecast from itself. The Brier score is compared with that of the base rate, which
is worked out in the same way.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from grpo_doctor import __version__, diagnose
from grpo_doctor.readers import ReadError, read
from tests.corpus_path import CORPUS
from tests.metamorphic import first_rows

from . import tables
from .fetch import wanted

HERE = Path(__file__).parent
STORED, PAGE = HERE / "forecast.csv", HERE.parents[1] / "docs" / "evidence" / "forecast.md"
PARTS = {"30%": 0.3, "50%": 0.5, "70%": 0.7}
COLUMNS = ("date", "version", "id", "repo", "labelled", *PARTS)
FEWEST, MOST = 30, 5000
"""Rows of the runs that are taken."""
HEAD = """# How well part of a run predicts its end

`python -m benchmarks.corpus.forecast` generated this page on {date} with version {version}. Do not edit the page.

The table covers {runs} labelled runs of {repos} repositories, with at least 30 rows each. Of these runs, {failing} are
failing. The Brier score is the mean squared error of the predicted probability that a run fails; lower is better. The
prediction from the base rate ignores the verdict on the run so far. The rules were written with knowledge of these
logs, so the table gives no interval for a new run. For this reason, neither `watch` nor `fleet` shows a probability.

| judged after | Brier score | of the base rate | gain | fail, if failing so far | fail, if healthy so far |
|---|---|---|---|---|---|
"""


def measured() -> Iterator[dict[str, str]]:
    """The verdicts along every run whose label leaves no doubt about failing."""
    for label in wanted():
        accepted = set(label["expect"].split("|")) - {""}
        doubtful = "failing" in accepted and accepted & {"healthy", "unproven"}
        if not accepted or doubtful or label["label_confidence"] == "low":
            continue
        try:
            run = read(CORPUS / label["file"])[-1]
        except ReadError:
            continue
        if FEWEST <= len(run) <= MOST:
            yield {
                "date": datetime.date.today().isoformat(), "version": __version__, "id": label["id"],
                "repo": label["repo"], "labelled": "failing" if "failing" in accepted else "not failing",
                **{part: diagnose(first_rows(run, int(len(run) * share))).verdict for part, share in PARTS.items()},
            }  # fmt: skip


def failed(row: dict[str, str]) -> bool:
    """Whether the run is labelled failing."""
    return row["labelled"] == "failing"


def probability(others: list[bool]) -> float:
    """Share of failing runs by Laplace's rule."""
    return (sum(others) + 1) / (len(others) + 2)


def scored(rows: list[dict[str, str]], part: str) -> str:
    """One line of the table."""
    told, base = [], []
    by_verdict: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        rest = [(failed(other), other[part]) for other in rows if other["repo"] != row["repo"]]
        told.append((probability([fate for fate, verdict in rest if verdict == row[part]]) - failed(row)) ** 2)
        base.append((probability([fate for fate, _ in rest]) - failed(row)) ** 2)
        by_verdict[row[part]].append(failed(row))
    gain = np.asarray(base) - np.asarray(told)
    error = gain.std() / np.sqrt(len(gain))
    shares = [f"{sum(by_verdict[v])} of {len(by_verdict[v])}" for v in ("failing", "healthy")]
    return (
        f"| {part} | {np.mean(told):.3f} | {np.mean(base):.3f} | {gain.mean():.3f} ± {1.96 * error:.3f} "
        f"| {shares[0]} | {shares[1]} |"
    )


def page(rows: list[dict[str, str]]) -> str:
    """The table, one line for each part."""
    facts = {"runs": len(rows), "repos": len({row["repo"] for row in rows}), "failing": sum(map(failed, rows))}
    return HEAD.format(**rows[0], **facts) + "\n".join(scored(rows, part) for part in PARTS) + "\n"


def main() -> None:
    """Judges the parts of every run, stores the verdicts and writes the page."""
    tables.write(STORED, COLUMNS, measured())
    PAGE.write_text(page(tables.read(STORED)), encoding="utf-8")


if __name__ == "__main__":
    main()
