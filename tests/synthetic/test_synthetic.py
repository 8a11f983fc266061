"""The cases on which other tools were measured: each is named correctly, and no healthy run is flagged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.diagnosis.examine import diagnose
from tests.synthetic import runs
from tests.synthetic.runs import Columns


def above_info(make: Callable[[int], Columns], seed: int) -> list[str]:
    findings = diagnose(runs.run_of(make, seed)).findings
    return [f"{f.code} {f.severity}: {f.message}" for f in findings if f.level > Severity.INFO]


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_run_is_not_flagged(seed: int) -> None:
    assert above_info(runs.healthy, seed) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_converged_run_is_not_flagged(seed: int) -> None:
    assert above_info(runs.converged, seed) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("make", "causes", "begin", "end"),
    [
        (runs.entropy_collapse, {"ENT001"}, 150, 240),
        (runs.kl_explosion, {"KL001"}, 200, 320),
        (runs.length_hack, {"REW003", "LEN002", "LEN003"}, 1, 350),
        (runs.nan_in_the_loss, {"GRD001"}, 251, 251),
        (runs.one_token, {"LEN001"}, 180, 200),
        (runs.reward_cliff, {"REW009"}, 359, 363),
        (runs.entropy_explosion, {"ENT003"}, 150, 220),
    ],
)
def test_a_failing_run_fails_for_its_own_reason(
    make: Callable[[int], Columns], causes: set[str], begin: int, end: int, seed: int
) -> None:
    diagnosis = diagnose(runs.run_of(make, seed))
    assert (diagnosis.verdict, diagnosis.cause in causes) == ("failing", True), diagnosis.headline
    assert begin <= diagnosis.findings[0].onset_step <= end


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_does_not_learn_is_suspect_for_the_stall(seed: int) -> None:
    diagnosis = diagnose(runs.run_of(runs.no_learning, seed))
    assert diagnosis.verdict in ("suspect", "failing")
    assert diagnosis.finding("STL001") is not None


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_two_are_a_warning_and_no_cause(seed: int) -> None:
    diagnosis = diagnose(runs.run_of(runs.group_of_two, seed))
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", None)
    assert diagnosis.finding("ADV001") is not None
