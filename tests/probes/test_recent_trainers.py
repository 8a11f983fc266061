"""Three kinds of trainers that are common today: correct ones pass, and some probe reports each wrong variant as an
error.

``python -m tests.probes.recent_faults`` prints the whole table with every probe; here only the probe of the variant's
own code runs.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.probes import run_probes
from grpo_doctor.probes.multi_turn import calls_of
from tests.probes import broken_styles
from tests.probes.broken_styles import RECENT, TWO, Fault, one_of_each
from tests.probes.recent_faults import FAULTS, MISSED, effect
from tests.probes.recent_trainers import Agent, Replayed, run

CASES = one_of_each(FAULTS, MISSED, {fault.name for fault in broken_styles.FAULTS})


@pytest.mark.parametrize(("style", "names"), [("replayed", ()), ("agent", ()), ("looking", TWO)])
def test_a_right_trainer_passes(style: str, names: tuple[str, ...]) -> None:
    torch.set_num_threads(1)
    diagnosis = run_probes(RECENT[style]().adapter(*names))
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings if f.severity != "info"] == []
    assert diagnosis.verdict == "healthy"


@pytest.mark.parametrize(("fault", "style"), CASES, ids=[f"{f.code}-{f.name}-{style}" for f, style in CASES])
def test_a_wrong_variant_is_an_error_of_its_own_probe(fault: Fault, style: str) -> None:
    torch.set_num_threads(1)
    names = TWO if fault.two else ()
    diagnosis = run_probes(fault.trainer(style).adapter(*names), catalogue=load().select([fault.code]))
    found = diagnosis.finding(fault.code)
    assert found is not None, (diagnosis.coverage.skipped, diagnosis.notes)
    assert found.level >= Severity.ERROR


@pytest.mark.parametrize("name", ["log-probabilities one late", "old without image"])
def test_a_wrong_variant_ends_elsewhere_after_real_steps(name: str) -> None:
    fault = next(f for f in FAULTS if f.name == name)
    assert effect(fault, fault.styles)


def test_real_steps_of_the_right_trainer_are_reproducible() -> None:
    (one, said), (other, also) = run(Replayed()), run(Replayed())
    assert torch.equal(one, other)
    assert said == also


def test_the_table_has_thirty_faults_of_each_kind() -> None:
    assert len({f.name for f in FAULTS}) == len(FAULTS)
    assert all(sum(style in f.styles for f in FAULTS) >= 30 for style in RECENT)


class Searches:
    """A rollout whose tool-call tags occur only in a regular expression."""

    def __init__(self) -> None:
        import re

        self.pattern = re.compile(r"<search>\s*(.+?)\s*</search>")

    def rollout(self, prompts: Any) -> Any:
        return [self.pattern.search(p) for p in prompts]


def test_a_tool_call_is_made_of_prompts_patterns_and_tags() -> None:
    shown = calls_of(Agent().rollout, Agent().data)
    assert shown[0] == "<call>1+2</call>"
    assert "<search> 1 </search>" in calls_of(Searches().rollout, ["What is new?"])
