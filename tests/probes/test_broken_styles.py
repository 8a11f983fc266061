"""Every wrong variant of `tests.probes.broken_styles` is caught by the probe whose code is next to it.

``python -m tests.probes.broken_styles`` shows that no other code heads the report, in every style; here only the probe itself is
run, with the fewest entry points that show the fault.
"""

from __future__ import annotations

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Severity
from tests.probes.broken_styles import FAULTS, Case, finding, one_of_each

CASES = [Case(fault, style, "two" if fault.two else "all") for fault, style in one_of_each(FAULTS)]


@pytest.mark.parametrize("case", CASES, ids=[f"{c.fault.code}-{c.fault.name}-{c.style}" for c in CASES])
def test_a_wrong_variant_is_caught_by_its_own_probe(case: Case) -> None:
    diagnosis = case.probed(catalogue=load().select([case.fault.code]))
    found = diagnosis.finding(case.fault.code)
    assert found is not None, (diagnosis.coverage.skipped, diagnosis.notes)
    assert found.level >= Severity.WARNING


def test_parts_that_are_divided_by_their_own_tokens_count_no_padding() -> None:
    assert finding("parts of the batch are divided by their own tokens", "left", "PAD002") is None


def test_the_table_has_its_documented_size() -> None:
    assert len({f.name for f in FAULTS}) == len(FAULTS) >= 60
    assert {style for f in FAULTS for style in f.styles.split()} == {"left", "shifted", "packed", "turns"}
