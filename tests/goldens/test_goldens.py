"""Every answer is the one that the snapshots hold; ``make goldens`` writes them again, to be reviewed as a diff."""

from __future__ import annotations

import pytest

from ..corpus_path import CORPUS
from .__main__ import stored
from .blocks import PARTS, block

STORED = {part: stored(part) for part in PARTS}
NAMED = [(part, name) for part in PARTS for name in STORED[part]]


@pytest.mark.parametrize("part", PARTS)
def test_snapshot_names_every_input(part: str) -> None:
    inputs = PARTS[part][0]()
    if not inputs:
        pytest.skip(f"the inputs are not beside {CORPUS}")
    assert inputs.keys() == STORED[part].keys(), "run `make goldens`"


@pytest.mark.parametrize(("part", "name"), NAMED)
def test_answer_equals_its_snapshot(part: str, name: str) -> None:
    if name not in PARTS[part][0]():
        pytest.skip(f"{name} is not beside {CORPUS}")
    assert block(part, name).splitlines() == STORED[part][name].splitlines(), "run `make goldens`, review the diff"
