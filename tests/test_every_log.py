"""Properties of every public log and every rebuilt one: each is read and diagnosed once, and all properties are
tested."""

from __future__ import annotations

import pytest

from grpo_doctor.readers import ReadError
from tests.corpus_path import SHARED, needs
from tests.goldens.__main__ import stored
from tests.goldens.blocks import PARTS, block, judged
from tests.properties import PROPERTIES

SNAPSHOTS = stored("logs")


@needs(SHARED / "cases")
def test_snapshot_names_every_log() -> None:
    assert PARTS["logs"][0]().keys() == SNAPSHOTS.keys(), "run `make goldens`"


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(SHARED / name)) for name in SNAPSHOTS])
def test_log_keeps_its_snapshot_and_every_property(name: str) -> None:
    assert block("logs", name).splitlines() == SNAPSHOTS[name].splitlines(), "run `make goldens`, review the diff"
    try:
        found = judged(PARTS["logs"][0]()[name])
    except ReadError:
        return  # its snapshot has the error
    broken = {what: told for what, of in PROPERTIES.items() if (told := [one for d in found for one in of(d)])}
    assert not broken
