"""Snapshots and properties of the public logs and the rebuilt ones: each log of the sample is read and diagnosed once, and
all properties are tested. ``python -m tests.goldens check logs`` compares the snapshots of all."""

from __future__ import annotations

import pytest

from grpo_doctor.readers import ReadError
from tests.corpus_path import SHARED, needs
from tests.goldens.blocks import PARTS, block, judged
from tests.goldens.sample import LOGS, sampled
from tests.properties import PROPERTIES


@needs(SHARED / "cases")
def test_snapshot_names_every_log() -> None:
    assert PARTS["logs"][0]().keys() == LOGS.keys(), "run `make goldens`"


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(SHARED / name)) for name in sampled(LOGS)])
def test_log_keeps_its_snapshot_and_every_property(name: str) -> None:
    assert block("logs", name).splitlines() == LOGS[name].splitlines(), "run `make goldens`, review the diff"
    try:
        found = judged(PARTS["logs"][0]()[name])
    except ReadError:
        return  # its snapshot has the error
    broken = {what: told for what, of in PROPERTIES.items() if (told := [one for d in found for one in of(d)])}
    assert not broken
