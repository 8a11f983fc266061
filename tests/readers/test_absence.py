"""No note and no first sentence claims that something is absent where a series that may be it was not recognised."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import ReadError, read
from tests.corpus_path import CORPUS, needs_corpus

CLAIM = re.compile(
    r"\bno (?:reward|metric|update|success rate|training metrics)\b[^.;]*\b(?:is|was|were|are) ", re.IGNORECASE
)


def files() -> list[Path]:
    """Every labelled log and every rebuilt log of a newest format."""
    if not CORPUS.is_dir():
        return []
    with open(CORPUS / "labels.csv", encoding="utf-8", newline="") as file:
        logs = [CORPUS / row["file"] for row in csv.DictReader(file)]
    return logs + sorted((CORPUS.parent / "cases" / "formats").iterdir())


def claims(path: Path) -> list[str]:
    """Sentences on a file that claim an absence although a candidate is left unread and not named in them."""
    try:
        runs = read(path)
    except ReadError:
        return []
    found = []
    for run in runs:
        if run.reading is not None and run.reading.unused:
            diagnosis = diagnose(run, catalogue=load())
            said = [note for note in (diagnosis.headline, *diagnosis.notes) if CLAIM.search(note)]
            found += [note for note in said if not any(name in note for name in run.reading.unused)]
    return found


@needs_corpus
@pytest.mark.parametrize("part", range(8))
def test_no_log_is_claimed_to_lack_what_was_not_recognised(part: int) -> None:
    wrong = {path.name: found for path in files()[part::8] if (found := claims(path))}
    assert not wrong
