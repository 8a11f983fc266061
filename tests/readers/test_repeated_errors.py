"""An error message that a log repeats is part of the report; it is part of the first paragraph unless the run learns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import read
from grpo_doctor.run import Run

REFUSED = "2026-01-02 03:04:05,{n:03d} - reward - ERROR - Reward call failed: [Errno 111] Connection refused"
TOLD = '10 lines report the error "Reward call failed: [Errno 111] Connection refused"'


def row(step: int, reward: float) -> str:
    return json.dumps({"loss": 0.1, "grad_norm": 0.5, "reward": reward, "epoch": step / 40}).replace('"', "'")


def console(folder: Path, lines: list[str]) -> Run:
    log = folder / "train.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (run,) = read(log)
    return run


@pytest.mark.parametrize(("count", "told"), [(9, False), (10, True)])
def test_ten_lines_with_one_error_are_reported(tmp_path: Path, count: int, told: bool) -> None:
    rows = [row(n, 0.1 + 0.01 * (n % 3)) for n in range(1, 31)]
    found = diagnose(console(tmp_path, [*rows[:15], *(REFUSED.format(n=n) for n in range(count)), *rows[15:]]))
    assert (f"{TOLD}. Check this error first." in found.headline) is told


def test_all_lines_of_a_long_log_are_counted(tmp_path: Path) -> None:
    rows = [row(n, 0.1) for n in range(1, 20)]
    run = console(tmp_path, [*rows, *(REFUSED.format(n=n) for n in range(50_001))])
    assert run.repeated_error is not None
    assert run.repeated_error.lines == 50_001


def test_in_a_run_that_learns_the_error_is_a_note(tmp_path: Path) -> None:
    rows = [row(n, 0.02 * n) for n in range(1, 41)]
    found = diagnose(console(tmp_path, [*rows[:9], *(REFUSED.format(n=n) for n in range(10)), *rows[9:]]))
    assert found.verdict == "healthy"
    assert TOLD not in found.headline
    assert TOLD in found.notes


@pytest.mark.parametrize(
    "line",
    [
        "Parse stats: 12/12 valid JSON (100.0%), 0 empty, 0 failed",
        "step 3 | tool error: 0.25",
        '{"action": "noop", "error": null}',
        "torch/utils/checkpoint.py:92: UserWarning: use_reentrant will raise an error",
        "(Worker pid=7) ERROR:Traceback (most recent call last):",
    ],
)
def test_counts_and_empty_fields_are_no_errors(tmp_path: Path, line: str) -> None:
    run = console(tmp_path, [*(row(n, 0.1) for n in range(1, 20)), *[line] * 20])
    assert run.repeated_error is None


def test_a_notebook_without_a_metric_names_its_error(tmp_path: Path) -> None:
    code = ["trainer = GRPOTrainer(model=model)\n", "trainer.train()"]
    output = {"output_type": "stream", "name": "stderr", "text": [f"{REFUSED.format(n=n)}\n" for n in range(10)]}
    book = {"nbformat": 4, "cells": [{"cell_type": "code", "source": code, "outputs": [output]}]}
    (tmp_path / "train.ipynb").write_text(json.dumps(book), encoding="utf-8")
    (run,) = read(tmp_path / "train.ipynb")
    found = diagnose(run)
    assert found.verdict == "unjudged"
    assert f"{TOLD}." in found.headline


def test_each_run_of_a_file_has_its_own_errors(tmp_path: Path) -> None:
    def one(reward: float) -> list[str]:
        return ["loading the model", *(f"step {n}: reward {reward + n / 100:.3f} loss 0.1" for n in range(1, 20))]

    log = tmp_path / "train.log"
    log.write_text("\n".join([*one(0.1), *one(0.2), *(REFUSED.format(n=n) for n in range(10))]), encoding="utf-8")
    first, second = read(log)
    assert first.repeated_error is None
    assert second.repeated_error is not None
    assert second.repeated_error.described == TOLD
