"""Every result equals its snapshot; ``make goldens`` rewrites the snapshots, to be reviewed as a diff."""

from __future__ import annotations

import pytest

from ..corpus_path import SHARED, needs
from .__main__ import beyond_words, stored
from .blocks import PARTS, block

STORED = {part: stored(part) for part in PARTS if part != "logs"}
"""The snapshot of the logs is compared in `tests.test_every_log`, where all else that holds for them is tested."""
SHIPPED = "data"
"""The part whose inputs are in the repository; the inputs of the others are next to it."""
NAMED = [
    pytest.param(part, name, marks=() if part == SHIPPED else needs(SHARED / name))
    for part in STORED
    for name in STORED[part]
]


@needs(SHARED / "cases")
@pytest.mark.parametrize("part", STORED)
def test_snapshot_names_every_input(part: str) -> None:
    assert PARTS[part][0]().keys() == STORED[part].keys(), "run `make goldens`"


@pytest.mark.parametrize(("part", "name"), NAMED)
def test_answer_equals_its_snapshot(part: str, name: str) -> None:
    assert block(part, name).splitlines() == STORED[part][name].splitlines(), "run `make goldens`, review the diff"


@pytest.mark.parametrize(
    ("line", "differs"),
    [
        ("LEN003 error high cause 12: 97% of all responses end at the limit.", []),
        ("LEN003 warning high cause 12: 97% of the responses are cut.", ["@ a.log: error became warning"]),
        ("LEN003 error high cause 12: 98% of the responses are cut.", ["@ a.log: 97 became 98"]),
        ("LEN003 error high cause 13: 97% of the responses are cut.", ["@ a.log: 12 became 13"]),
        ("LEN001 error high cause 12: 97% of the responses are cut.", ["@ a.log: LEN003 became LEN001"]),
    ],
)
def test_other_words_are_not_a_difference_but_other_facts_are(line: str, differs: list[str]) -> None:
    before = {"a.log": "LEN003 error high cause 12: 97% of the responses are cut."}
    assert beyond_words(before, {"a.log": line}) == differs
