"""Reward and stall on real runs: collapses with their onset, hacking, stalls, and healthy runs that stay silent."""

from __future__ import annotations

import pytest

from grpo_doctor import Diagnosis, diagnose
from tests.corpus import run_named
from tests.corpus_path import needs_corpus

pytestmark = needs_corpus


def diagnosed(name: str) -> Diagnosis:
    return diagnose(run_named(name))


@pytest.mark.parametrize(("name", "onset", "slack"), [("R013", 137, 5), ("R035", 10, 2)])
def test_a_collapse_is_found_with_its_onset(name: str, onset: int, slack: int) -> None:
    found = diagnosed(name).finding("REW009")
    assert found is not None
    assert (found.severity in ("error", "critical"), found.cleared) == (True, False)
    assert abs(found.onset_step - onset) <= slack


@pytest.mark.parametrize("name", ["R001", "R006", "R018", "R112", "R116", "R127", "R143", "R166"])
def test_no_collapse_no_stall(name: str) -> None:
    diagnosis = diagnosed(name)
    assert diagnosis.finding("REW009") is None
    stall = diagnosis.finding("STL001")
    assert stall is None or stall.cleared  # of R112 one was said on the way


@pytest.mark.parametrize(("name", "verdict"), [("R043", "failing"), ("R111", "suspect"), ("R142", "failing")])
def test_a_stall_is_reported(name: str, verdict: str) -> None:
    diagnosis = diagnosed(name)
    assert diagnosis.verdict == verdict
    assert diagnosis.finding("STL001") is not None


def test_a_task_solved_from_the_start_is_neither_constant_nor_stalled() -> None:
    diagnosis = diagnosed("R127")
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", "REW001")
    assert diagnosis.headline.endswith("the task is solved and there is no signal left.")


@pytest.mark.parametrize(("name", "code"), [("R143", "REW002"), ("R144", "REW011")])
def test_hacking_shows_in_a_metric_that_is_not_rewarded(name: str, code: str) -> None:
    seen = diagnosed(name)
    assert seen.verdict == "suspect"
    assert seen.finding(code) is not None


def test_zero_variance_groups_are_a_symptom_of_a_collapse() -> None:
    diagnosis = diagnosed("R013")
    assert diagnosis.cause == "REW009"
    assert {f.code: f.role for f in diagnosis.findings}["REW001"] == "outcome"
