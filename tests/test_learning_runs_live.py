"""No learning run is flagged while it is watched: a stop for a temporary state costs a whole run."""

from __future__ import annotations

import pytest

from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.live import LiveDoctor
from grpo_doctor.run import Run

from .corpus import labels, run_named
from .corpus_path import CORPUS, needs_corpus

LONGEST = 3000
"""Rows beyond which a run is left out, for time."""
FAILING_FOR_A_WHILE = {
    "R073": "its reward stood at 0.5 for forty steps, after 0.97, and came back",
    "R335": "its reward fell from 1.29 to near 0 for ten rows, and came back",
}


def flagged(run: Run) -> list[str]:
    """Return the findings at error or above while the run is watched, row by row."""
    doctor = LiveDoctor(run.settings, run_type=run.run_type)
    return [
        f"{finding.code} after {row} rows"
        for row, record in enumerate(run.records(), 1)
        for finding in doctor.push(record, run.samples.get(row - 1))
        if finding.level >= Severity.ERROR and not finding.cleared
    ]


WELL = [
    label["id"]
    for label in (labels() if CORPUS.is_dir() else ())
    if "healthy" in label["expect"].split("|") and label["label_confidence"] != "low"
]


@needs_corpus
@pytest.mark.parametrize("name", WELL)
def test_a_well_run_is_not_flagged_on_the_way(name: str) -> None:
    run = run_named(name)
    if len(run) <= LONGEST and run.run_type != "evaluation":
        assert (flagged(run) == []) is (name not in FAILING_FOR_A_WHILE)
