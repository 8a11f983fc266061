"""An excerpt of a log gives no finding that the whole log does not give: people paste windows, live runs are prefixes.

Over the real logs, a sample of them by the hash of their name; ``python -m tests.test_excerpts`` takes all.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from functools import cache

import pytest

from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.readers import ReadError, read
from grpo_doctor.run import Run
from tests.corpus import labels
from tests.corpus_path import CORPUS, needs_corpus
from tests.metamorphic import SHORTEST, excerpt, thinned, windows

PART, LOSING = 6, 9
"""One log in so many is read in the suite: of the healthy ones, of all."""
LONGEST, LARGEST = 5000, 1 << 21
"""Rows and bytes up to which a log is taken."""
MOST = 0.02
"""Share of the windows of healthy runs that may be suspect for something that the whole run is not."""
HELD = {"every second row": 0.75, "a tenth of the rows lost": 0.9}
"""Shares of runs whose verdict and cause must hold when rows are lost: where the evidence is thin they may tip. Of 55 runs
87% and 95% hold."""


@cache
def sampled(expect: str, part: int = PART) -> tuple[tuple[str, Run, Diagnosis], ...]:
    """Runs with this label, or with any, and what is found in them whole."""
    found = []
    for label in labels():
        path = CORPUS / label["file"]
        wanted = (label["expect"] == expect if expect else label["expect"]) and label["label_confidence"] != "low"
        if not wanted or zlib.crc32(label["id"].encode()) % part or path.stat().st_size > LARGEST:
            continue
        try:
            run = read(path)[-1]
        except (ReadError, IndexError):
            continue
        if SHORTEST <= len(run) <= LONGEST:
            found.append((label["id"], run, diagnose(run)))
    return tuple(found)


def heavy(diagnosis: Diagnosis) -> set[str]:
    """Codes of warning and above that still hold."""
    return {f.code for f in diagnosis.findings if f.level >= Severity.WARNING and not f.cleared}


def excerpts(part: int = PART) -> Iterator[tuple[str, Diagnosis, set[str]]]:
    """Each window of a run labelled healthy alone and judged so: what is found, and its codes that the whole lacks."""
    for name, run, whole in sampled("healthy", part):
        if whole.verdict == "healthy":
            known = {f.code for f in whole.findings}
            for which, rows in windows(len(run)).items():
                found = diagnose(excerpt(run, rows))
                yield f"{name} {which}", found, heavy(found) - known


@needs_corpus
def test_no_window_of_a_healthy_run_is_failing_and_few_are_suspect() -> None:
    seen = list(excerpts())
    assert len(seen) > 50
    assert [name for name, found, _ in seen if found.verdict == "failing"] == []
    new = [(name, codes) for name, _, codes in seen if codes]
    assert len(new) <= max(MOST * len(seen), 1), new


@needs_corpus
@pytest.mark.parametrize("change", ["renamed", "columns reversed"])
def test_irrelevant_changes_keep_verdict_and_headline(change: str) -> None:
    for name, run, whole in sampled("", LOSING)[::3]:
        found = diagnose(thinned(run)[change])
        assert (name, found.verdict, found.headline) == (name, whole.verdict, whole.headline)


@needs_corpus
@pytest.mark.parametrize("change", HELD)
def test_lost_rows_keep_verdict_and_cause(change: str) -> None:
    runs = [one for one in sampled("", LOSING) if len(one[1]) >= 2 * SHORTEST]
    other = [
        (name, whole.verdict, whole.cause, found.verdict, found.cause)
        for name, run, whole in runs
        if (found := diagnose(thinned(run)[change])).verdict != whole.verdict or found.cause != whole.cause
    ]
    assert len(other) <= (1 - HELD[change]) * len(runs), other


def main() -> int:
    """Print every window that breaks the rule; return their number."""
    seen = list(excerpts(1))
    wrong = [(name, found.verdict, codes) for name, found, codes in seen if codes or found.verdict == "failing"]
    print(*wrong, f"{len(seen)} windows, {len(wrong)} wrong", sep="\n")
    return int(len(wrong) > MOST * len(seen))


if __name__ == "__main__":
    sys.exit(main())
