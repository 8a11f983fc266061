"""Findings kept as tests: they fail on the wrong trainer, pass on the right one, and show the crafted input in
tokens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import grpo_doctor.probes as probes
from grpo_doctor.cli import app
from grpo_doctor.probes.saved_cases import MARK, as_code
from tests.probes import broken_reference
from tests.probes.reference import Reference

GRADED = "graded = [('2 + 10?', '12', 'so 12', 'so 13'), ('2 + 3?', '5', 'so 5', 'so 4')]\n"
REWARD = "def reward(prompts, responses, answers):\n    return [{} for r, a in zip(responses, answers)]\n"


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.output


def pytest_of(path: Path, shown: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(path.parent), str(path)])
    return int(code), shown.readouterr().out


def test_a_kept_test_fails_until_the_trainer_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter, kept = tmp_path / "adapter.py", tmp_path / "tests" / "test_plumbing.py"
    kept.parent.mkdir()
    adapter.write_text(GRADED + REWARD.format("float(a in r)"), encoding="utf-8")
    code, output = run("probe", adapter, "--select", "REW", "--keep", kept)
    assert (code, "wrote 1 finding as tests to" in output) == (1, True), output
    text = kept.read_text(encoding="utf-8")
    assert text.startswith(MARK)
    assert "# shown by reward(prompts=['2 + 10?'], responses=['" in text
    code, output = pytest_of(kept, capsys)
    assert (code, "REW012 wrong-answer-paid: The reward function gives" in output) == (1, True), output
    adapter.write_text(GRADED + REWARD.format("float(r.split()[-1:] == [a])"), encoding="utf-8")
    assert pytest_of(kept, capsys)[0] == 0


def test_nothing_is_kept_of_a_right_trainer_and_no_file_of_others_is_touched(tmp_path: Path) -> None:
    adapter, kept = tmp_path / "adapter.py", tmp_path / "test_plumbing.py"
    adapter.write_text(GRADED + REWARD.format("float(r.split()[-1:] == [a])"), encoding="utf-8")
    code, output = run("probe", adapter, "--select", "REW", "--keep", kept)
    assert (code, "no findings to write as tests" in output, kept.exists()) == (0, True, False)
    kept.write_text("def test_mine(): pass\n", encoding="utf-8")
    code, output = run("probe", adapter, "--select", "REW", "--keep", kept)
    assert (code, "contains code other than kept test cases" in output) == (2, True)
    assert kept.read_text(encoding="utf-8") == "def test_mine(): pass\n"


def test_a_property_holds_or_the_reason_is_reported() -> None:
    probes.holds(Reference().adapter(), "PAD002")
    with pytest.raises(AssertionError, match="PAD002 loss-mask-misaligned: In"):
        probes.holds(broken_reference.EosMissing().adapter(), "PAD002")
    with pytest.raises(AssertionError, match="could not be judged: needs"):
        probes.holds(probes.Adapter(seams={"advantages": lambda r: r}), "PAD002")


def test_a_finding_shows_its_tokens() -> None:
    from grpo_doctor.diagnosis.catalogue import load

    trainer = broken_reference.EosMissing()
    (finding,) = probes.run_probes(trainer.adapter(), catalogue=load().select(["PAD002"])).findings
    shown = finding.evidence["crafted"]
    assert shown.startswith("prompt [")
    assert "response [" in shown
    assert "trained [" in shown


def test_calls_are_written_as_code() -> None:
    import torch

    code = as_code("loss", ["hi"], [[5, 6, 7], [8]], torch.tensor([1.0, -0.5]))
    assert code == "loss(prompts=['hi'], responses=[[5, 6, 7], [8]], advantages=[1, -0.5])"
    assert as_code("mask", [list(range(99))], [[1]]).startswith("mask(prompts=[[0, 1, 2, 3,")
    padded = as_code("mask", [[0] * 10 + [7] * 10], [[1]])
    assert padded.startswith("mask(prompts=[[0, 0, 0, 0, 0, 0, …, 7, 7, 7, 7, 7, 7]]")
    assert as_code("logprobs", torch.ones(2, 3, 4), torch.ones(2, 3)).startswith("logprobs(input_ids=<2 x 3 x 4>")


def divided_without_epsilon(rewards: Any) -> Any:
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-12)


def ranked(rewards: Any) -> Any:
    return rewards.argsort(1).double()


@pytest.mark.parametrize(
    ("advantages", "rewards"),
    [(divided_without_epsilon, "[[0.1, 0.1"), (ranked, "[[0, 0, 0")],
)
def test_a_finding_shows_the_call_that_is_wrong_and_not_the_last_one(advantages: Any, rewards: str) -> None:
    from grpo_doctor.diagnosis.catalogue import load

    adapter = probes.Adapter(seams={"advantages": advantages})
    (finding,) = probes.run_probes(adapter, catalogue=load().select(["ADV005"])).findings
    assert finding.evidence["crafted"].startswith(f"advantages(rewards={rewards}")


def test_a_call_without_advantages_is_the_baseline_of_the_call_that_is_shown() -> None:
    from grpo_doctor.diagnosis.catalogue import load

    trainer = Reference()
    trainer.surrogate = lambda ratio, advantages: -ratio * advantages  # type: ignore[method-assign]
    (finding,) = probes.run_probes(trainer.adapter("loss", "render"), catalogue=load().select(["RAT007"])).findings
    assert finding.evidence["crafted"].split("advantages=[")[1][0] == "1"
