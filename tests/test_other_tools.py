"""The labelled runs that other tools generate: each problem is reported or has a written reason, and healthy runs stay
without a warning."""

from __future__ import annotations

from itertools import cycle

import pytest

from grpo_doctor.diagnosis.check import Severity

from .other_tools import AT_HAND, LEFT_OUT, MADE_BY, REMARKS, REPORTED, SEEDS

pytestmark = pytest.mark.skipif(not AT_HAND, reason="rldoctor and rlprobe are not installed (the dev extra has them)")

NAMED = [(tool, scenario, code) for tool, scenarios in REPORTED.items() for scenario, code in scenarios.items()]
CASES = [(*named, seed) for named, seed in zip(NAMED, cycle(SEEDS))]
"""Each scenario with one seed; `python -m tests.seen` reads every scenario with all of them."""


@pytest.mark.parametrize(
    ("tool", "scenario", "code", "seed"), CASES, ids=[f"{tool}-{name}-{seed}" for tool, name, _, seed in CASES]
)
def test_a_problem_that_another_tool_generates_is_reported(tool: str, scenario: str, code: str, seed: int) -> None:
    diagnosis = MADE_BY[tool](scenario, seed)
    assert diagnosis.finding(code) is not None
    assert diagnosis.verdict == ("healthy" if scenario in REMARKS else "suspect")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tool", MADE_BY)
def test_a_healthy_run_that_another_tool_generates_is_healthy(tool: str, seed: int) -> None:
    diagnosis = MADE_BY[tool]("healthy", seed)
    assert diagnosis.verdict == "healthy"
    assert [f.code for f in diagnosis.findings if f.level >= Severity.WARNING and not f.cleared] == []


def test_every_scenario_is_reported_or_has_a_reason() -> None:
    from rl_doctor.simulate import SCENARIOS
    from rlprobe.testing.synth import PATHOLOGIES

    assert {*REPORTED["rldoctor"], "healthy"} == set(SCENARIOS)
    assert {*REPORTED["rlprobe"], *LEFT_OUT} == set(PATHOLOGIES)
    assert REPORTED["rlprobe"].keys().isdisjoint(LEFT_OUT)
