"""Lines of one template are read by their bytes, with the same result as if each were parsed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from grpo_doctor.readers import read
from grpo_doctor.readers.formats.keyvalue import General
from grpo_doctor.readers.formats.line_templates import silent

from .make import known, run_of

PROSE = "So he has {i} apples left and gives half of them away.\n\nTherefore the answer is {i}.\n"
LOGS = {
    "positions alike": "Epoch:[1/1]({i}/500), Reward: 0.{i}, KL_ref: -0.0{i}, Avg Len: 8{i}\n",
    "percent": "[{i}/20] reward=0.{i} accuracy={i}% loss=-1.{i}e-05\n",
    "glued counter": "step{i} | reward 0.{i} | kl 0.0{i} | qwen2.5 v1\n",
    "clock": "2025-01-01 12:00:0{d},123 INFO trainer.py:10 - Step {i}/50: avg_reward=0.{i}, entropy=1.{i}\n",
    "headline": "=== Step {i} ===\nreward: 0.{i}\nloss: 0.{i}\n----------\n",
    "colours": "\x1b[32mstep {i}\x1b[0m reward: 0.{i} loss: 0.{i}\n",
    "processes": "(Worker pid=1) step {i} reward=0.{i} loss=0.5\n(Worker pid=2) step {i} reward=0.2{i} loss=0.7\n",
    "values that are not finite": "step {i} reward=0.{i} loss=nan grad_norm=inf\n",
    "lists": "step {i} rewards: [0.{i}, 0.0, 0.0] loss: 0.{i}\n",
    "thousands": "step {i} tokens: 1,00{d} reward: 0.{i}\n",
}


def text(template: str, rows: int = 19) -> str:
    return "".join((template + PROSE).format(i=i, d=i % 10) for i in range(1, rows + 1))


@pytest.mark.parametrize("name", LOGS)
def test_lines_of_a_template_give_what_parsing_each_of_them_gives(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.log"
    path.write_text(text(LOGS[name]), encoding="utf-8")
    quick = read(path)
    monkeypatch.setattr(General, "quick", lambda *_: False)
    parsed = read(path)
    assert sum(map(len, quick)) >= 19
    assert [known(run) for run in quick] == [known(run) for run in parsed]
    for one, other in zip(quick, parsed, strict=True):
        assert np.array_equal(one.steps, other.steps)
        assert np.array_equal(one.lines, other.lines)


def test_unread_names_are_counted_on_template_lines(tmp_path: Path) -> None:
    run = run_of(tmp_path, "x.log", text("step {i} reward=0.{i}\nzeta: 0.{i}\n"))
    assert run.unread["zeta"] == 19


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("He sells 12 apples and has 30 left.", True),
        ("The reward of a b c d e f is 5", True),
        ("The reward b c d e f is 5", False),
        ("meanReward 0.5", False),
        ("奖励：0.5", False),
        ("WARN: grad_norm is not finite", False),
        ("{'loss': 0.5}", False),
        ("0.5 0.25", False),
        ("reward:", False),
        ("loss nan", False),
    ],
)
def test_a_line_is_passed_over_where_no_word_of_a_metric_is_near_a_number(line: str, passed: bool) -> None:
    assert (silent(line.encode()) is not None) == passed
