"""Checks called on numpy arrays find what the compiled ones find, and can be debugged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor import Fires, check, fires
from grpo_doctor.cli import app
from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.check import CheckError, Finding
from grpo_doctor.diagnosis.eager import EagerPlan, diagnose_eagerly
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import read
from grpo_doctor.testing import run_check
from tests.cli.runs import write_run
from tests.goldens.blocks import PARTS
from tests.goldens.sample import LOGS, sampled

PAGE = (
    "Entropy is low.\n\n## What it sees\nx\n## Why it matters\nx\n## Known false alarms\nx\n## Remedy\nx\n## Sources\nx"
)
FILES = {name: path for part in ("data", "logs") for name, path in PARTS[part][0]().items()}
SAMPLE = [name for name in FILES if name.startswith(("engine", "trl"))]
SAMPLE += [name for name in sampled(LOGS, 24) if name in FILES]
"""The project's own logs, and the public ones that show the most."""


def essence(finding: Finding) -> str:
    return repr((finding.code, finding.severity, finding.confidence, finding.onset_step, finding.detected_step,
                 finding.last_step, finding.cleared, finding.message))  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_eager_calls_find_what_compiled_checks_find(name: str) -> None:
    for run in read(FILES[name]):
        compiled, (eager, _) = diagnose(run), diagnose_eagerly(run, load())
        assert eager.headline == compiled.headline
        assert [essence(finding) for finding in eager.findings] == [essence(finding) for finding in compiled.findings]


@pytest.mark.parametrize("eager", [False, True])
def test_a_trend_is_all_states_of_a_series_in_one_parameter(eager: bool) -> None:
    def flat_reward(step: Any, reward_trend: Any, eval_trend: Any = None) -> Fires:
        flat = ~(reward_trend.gained | reward_trend.fallen | eval_trend.gained)
        values = {"gain": reward_trend.gain, "possible": reward_trend.possible_gain - reward_trend.shown}
        return fires((step >= 30) & flat, "It gains {gain:.2g}, {possible:.2g} with noise.", hold=(1, 1), **values)

    flat_reward.__doc__ = PAGE
    declared: Any = check("ZZZ901", severity="warning", confidence="low")
    found = run_check(declared(flat_reward), eager=eager, reward_mean="0.5x40")
    assert found is not None
    assert (found.message, found.columns) == ("It gains 0, 0 with noise.", ["reward_mean"])
    assert run_check(declared(flat_reward), eager=eager, reward_mean="0.1->0.9x40") is None
    assert run_check(declared(flat_reward), eager=eager, reward_mean="0.5x40", eval_score="0.1->0.9x40") is None
    assert run_check(declared(flat_reward), eager=eager, success_rate="0.5x40") is None, "the reward is required"


def test_an_eager_check_may_branch_and_print(capsys: pytest.CaptureFixture[str]) -> None:
    def low_entropy(entropy_mean: Any) -> Fires:
        if entropy_mean[-1] < 0.1:
            print("last value", entropy_mean[-1])
        return fires(entropy_mean < 0.1, "Entropy is {value:.2g}.", hold=(1, 1), value=entropy_mean)

    low_entropy.__doc__ = PAGE
    declared: Any = check("ZZZ900", kind="outcome", severity="warning", confidence="low")
    found = run_check(declared(low_entropy), eager=True, entropy_mean="1x3 0.05")
    assert found is not None
    assert found.message == "Entropy is 0.05."
    assert capsys.readouterr().out == "last value 0.05\n"
    with pytest.raises(CheckError, match="a column cannot be indexed"):
        run_check(declared(low_entropy), entropy_mean="1x3 0.05")


def test_an_eager_plan_refuses_a_second_block() -> None:
    plan = EagerPlan(load().checks["ENT001"], {})
    with pytest.raises(ValueError, match="ENT001: an eager check is given all rows at once"):
        plan.block((3,), [np.ones(2)], 2)


def test_debug_shows_on_which_rows_the_condition_holds(tmp_path: Path) -> None:
    write_run(tmp_path / "run.log", collapsed=True)
    shown = CliRunner().invoke(app, ["checks", "REW002", "--debug", str(tmp_path / "run.log")])
    assert shown.exit_code == 0, shown.output
    assert "REW002" in shown.output
    assert "the condition holds on" in shown.output or "not called: needs" in shown.output


def test_debug_takes_one_check_that_exists(tmp_path: Path) -> None:
    write_run(tmp_path / "run.log", collapsed=True)
    for words in (["ENT001", "ENT002"], ["nothing-like-this"]):
        shown = CliRunner().invoke(app, ["checks", *words, "--debug", str(tmp_path / "run.log")])
        assert shown.exit_code == 2
        assert shown.output.count("\n") == 1
