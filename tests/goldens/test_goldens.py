"""Every answer is the one that the snapshots hold; ``make goldens`` writes them again, to be reviewed as a diff."""

from __future__ import annotations

import pytest

from ..corpus_path import SHARED, needs
from .__main__ import stored
from .blocks import PARTS, block

STORED = {part: stored(part) for part in PARTS}
SHIPPED = "data"
"""The part whose inputs are in the repository; those of the others lie beside it."""
NAMED = [
    pytest.param(part, name, marks=() if part == SHIPPED else needs(SHARED / name))
    for part in PARTS
    for name in STORED[part]
]


@needs(SHARED / "cases")
@pytest.mark.parametrize("part", PARTS)
def test_snapshot_names_every_input(part: str) -> None:
    assert PARTS[part][0]().keys() == STORED[part].keys(), "run `make goldens`"


@pytest.mark.parametrize(("part", "name"), NAMED)
def test_answer_equals_its_snapshot(part: str, name: str) -> None:
    assert block(part, name).splitlines() == STORED[part][name].splitlines(), "run `make goldens`, review the diff"
