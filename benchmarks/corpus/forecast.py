"""``python -m benchmarks.corpus.forecast``: how well the verdict on part of a run predicts its end.

Each labelled run is judged after 30, 50 and 70% of its rows. The probability that it ends failing is the share of
failing runs among those of the other repositories with the same verdict at that point (Laplace's rule), so that no run
is forecast from itself. The Brier score is compared with that of the base rate, which is worked out in the same way.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from pathlib import Path

import numpy as np

from grpo_doctor import diagnose
from grpo_doctor.readers import ReadError, read
from tests.corpus_path import CORPUS
from tests.metamorphic import first_rows

from .fetch import wanted

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "forecast.md"
PARTS = (0.3, 0.5, 0.7)
FEWEST, MOST = 30, 5000
"""Rows of the runs that are taken."""
Case = tuple[str, bool, dict[float, str]]
"""Repository, whether the run is labelled failing, and the verdict at each part of it."""
HEAD = """# How well part of a run predicts its end

Made by `python -m benchmarks.corpus.forecast` on {date} from {runs} labelled runs of {repos} repositories with at least
30 rows, {failing} of them failing; do not edit. The rules were written with knowledge of these logs, so no
interval can be promised for a new run. For this reason, neither `watch` nor `fleet` shows a probability.

| judged after | Brier score | of the base rate | gain | failing at end, of those failing so far | of those healthy |
|---|---|---|---|---|---|
"""


def cases() -> list[Case]:
    """The verdicts along every run whose label leaves no doubt about failing."""
    found: list[Case] = []
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
            parts = {share: first_rows(run, int(len(run) * share)) for share in PARTS}
            verdicts: dict[float, str] = {share: diagnose(part).verdict for share, part in parts.items()}
            found.append((label["repo"], "failing" in accepted, verdicts))
    return found


def probability(others: list[bool]) -> float:
    """Share of failing runs by Laplace's rule."""
    return (sum(others) + 1) / (len(others) + 2)


def scored(found: list[Case], share: float) -> str:
    """One line of the table."""
    told, base = [], []
    by_verdict: dict[str, list[bool]] = defaultdict(list)
    for repo, failed, verdicts in found:
        rest = [(fate, seen[share]) for other, fate, seen in found if other != repo]
        told.append((probability([fate for fate, verdict in rest if verdict == verdicts[share]]) - failed) ** 2)
        base.append((probability([fate for fate, _ in rest]) - failed) ** 2)
        by_verdict[verdicts[share]].append(failed)
    gain = np.asarray(base) - np.asarray(told)
    error = gain.std() / np.sqrt(len(gain))
    shares = [f"{sum(by_verdict[v])} of {len(by_verdict[v])}" for v in ("failing", "healthy")]
    return (
        f"| {share:.0%} | {np.mean(told):.3f} | {np.mean(base):.3f} | {gain.mean():.3f} ± {1.96 * error:.3f} "
        f"| {shares[0]} | {shares[1]} |"
    )


def main() -> None:
    """Judges the parts of every run and writes the page."""
    found = cases()
    facts = {
        "date": datetime.date.today().isoformat(),
        "runs": len(found),
        "failing": sum(fate for _, fate, _ in found),
    }
    lines = [scored(found, share) for share in PARTS]
    PAGE.write_text(HEAD.format(**facts, repos=len({repo for repo, _, _ in found})) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
