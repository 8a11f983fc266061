"""Figures that the documentation quotes are those of the stored results in `benchmarks/`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.corpus import autocorrelation, board, forecast, leadtime
from benchmarks.corpus.tables import read
from benchmarks.trajectory import most_powerful
from grpo_doctor.lab.arms import STEPS, TREATED
from tests import corpus

ROOT = Path(__file__).parents[1]
LAGS = ("0.0", "0.3", "0.6")


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def tables(name: str) -> list[list[dict[str, str]]]:
    """Return every table of a page as rows by column."""
    found: list[list[dict[str, str]]] = []
    head: list[str] = []
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            head = []
        elif not head:
            head = cells
            found.append([])
        elif set(cells[0]) - set(":-"):
            found[-1].append(dict(zip(head, cells, strict=True)))
    return found


@pytest.mark.parametrize(
    ("shown", "stored", "generated"),
    [(of.PAGE, of.STORED, of.page) for of in (board, forecast, leadtime)]
    + [(corpus.ACCURACY, corpus.STORED, corpus.page)],
    ids=["board", "forecast", "leadtime", "accuracy"],
)
def test_pages_of_evidence_are_generated_from_the_stored_rows(
    shown: Path, stored: Path, generated: Callable[[list[dict[str, str]]], str]
) -> None:
    assert shown.read_text(encoding="utf-8") == generated(read(stored))


@pytest.mark.parametrize(
    ("quoted", "rows", "column"),
    [
        ("flat runs of 60 rows reported as learning", "60", "flat: learned"),
        ("flat runs of 200 rows reported as fallen after any row", "200", "flat: fell, live"),
        ("gains of 3 standard deviations (of a row) in 60 rows reported", "60", "+3 sd found"),
        ("falls of 5 standard deviations (of a row) in 60 rows reported", "60", "-5 sd found"),
    ],
)
def test_the_method_quotes_the_simulations(quoted: str, rows: str, column: str) -> None:
    (line,) = (row for table in tables("docs/method.md") for row in table if quoted in row.values())
    stored = {row["lag-1"]: row[column] for row in tables("benchmarks/trajectory.md")[0]
              if (row["steps per row"], row["rows"]) == ("1", rows)}  # fmt: skip
    assert [float(cell.rstrip(" %")) for cell in list(line.values())[1:]] == [
        float(stored[lag].rstrip("%")) for lag in LAGS
    ]


def quoted(name: str, pattern: str) -> tuple[str, ...]:
    """Return the figures that a page quotes, the groups of a pattern that fits once; words around them may change."""
    (found,) = re.finditer(pattern, page(name))
    return found.groups()


def test_the_page_on_training_quotes_when_the_experiments_treat_a_fault() -> None:
    assert quoted("docs/training.md", r"after (\d+) of (\d+) steps") == (str(int(TREATED * STEPS)), str(STEPS))


def test_the_method_quotes_the_measured_autocorrelation() -> None:
    repos, half, most = autocorrelation.quantiles(read(autocorrelation.STORED))
    assert quoted("docs/method.md", r"(\d+) public repositories, nine in ten .*? at most ([\d.]+) ") == (
        str(repos),
        f"{most:.2f}",
    )
    assert quoted("benchmarks/trajectory.md", r"from (\d+) public .*? at most ([\d.]+),.*? at most ([\d.]+),") == (
        str(repos), f"{half:.2f}", f"{most:.2f}"
    )  # fmt: skip
    assert quoted("benchmarks/compare.md", r"nine in ten series .*? at most ([\d.]+)\. ") == (f"{most:.2f}",)


def test_the_limit_of_twenty_rows_is_that_of_the_most_powerful_test() -> None:
    known, lines = ([f"{most_powerful(20, lag, line=line):.0%}" for lag in (0.3, 0.6)] for line in (False, True))
    assert quoted("docs/method.md", r"most powerful test \w+ (\d+%) .*? (\d+%) at 0\.6") == tuple(known)
    assert quoted("benchmarks/trajectory.md", r"straight line, .*? (\d+%) and (\d+%)\.") == tuple(lines)


def test_the_page_of_experiments_quotes_the_cost_of_a_run_through_trl() -> None:
    cost = {row[""]: row["CPU time"] for row in tables("benchmarks/trl.md")[1]}
    known = [next(time for what, time in cost.items() if what.startswith(of)) for of in ("a run", "63 runs")]
    assert quoted("docs/evidence/lab.md", r"Through TRL, .*? (\d+ s) of CPU .*? ([\d.]+ h) ") == tuple(known)


def test_the_page_of_mismatches_quotes_the_confusion_matrix() -> None:
    kinds, pairs = tables("benchmarks/mismatch.md")[:2]
    faults = [row for row in kinds if row["generated"] != "healthy"]
    batches = sum(int(row["batches"]) for row in faults)
    right = sum(int(row["batches"]) * int(row["right"].rstrip("%")) // 100 for row in faults)
    of = {row["pairs"]: row["batches"] for row in pairs}
    quoted = page("docs/mismatch.md")
    assert f"generated batches with {len(faults)} kinds of faults. The first cause was correct in" in quoted
    assert f"{right} of {batches} batches with one fault" in quoted
    assert f"In {of['first cause is one of the two']} of {of['all pairs']} batches with two faults" in quoted


def test_the_page_of_comparisons_quotes_the_simulations() -> None:
    most = dict.fromkeys(LAGS, 0.0)
    for row in tables("benchmarks/compare.md")[0]:
        most[row["lag-1"]] = max(most.get(row["lag-1"], 0.0), float(row["any metric differs"].rstrip("%")))
    (quoted,) = re.findall(
        r"at most ([\d.]+)% of the pairs of equal runs .*? up to ([\d.]+)%\. ", page("docs/compare.md")
    )
    assert quoted == (f"{max(most['0.0'], most['0.3']):g}", f"{most['0.6']:g}")
