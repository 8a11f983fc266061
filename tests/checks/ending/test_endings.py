"""How a run ended is part of what happened: each kind of end is one finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import read

ROWS = "".join(f"step {i} | reward 0.{i:02d} | loss 0.5 | grad_norm 0.{90 - i}\n" for i in range(1, 41))
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 3\n'
ENDS = {
    "END001": (
        TRACE + "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0\n",
        "error",
        "The run crashed after step 40: a numerical failure (line 43): RuntimeError: probability tensor contains either "
        "`inf`, `nan` or element < 0.",
    ),
    "END002": (
        TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
        "warning",
        "The run ran out of memory after step 40: a GPU out of memory (line 43): torch.OutOfMemoryError: CUDA out of "
        "memory. Tried to allocate 2.00 GiB.",
    ),
    "END003": (
        "[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n",
        "warning",
        "The run hung after step 40: a hang of a collective operation (line 41).",
    ),
    "END004": (
        TRACE + "KeyError: 'answer'\n",
        "warning",
        "The run ended after step 40: a traceback (line 41): KeyError: 'answer'.",
    ),
    "END005": ("KeyboardInterrupt\n", "info", "The run was stopped after step 40: an interrupt (line 41)."),
}


@pytest.mark.parametrize(("code", "end", "severity", "message"), [(c, *e) for c, e in ENDS.items()], ids=ENDS.keys())
def test_an_end_is_one_finding_with_its_line(tmp_path: Path, code: str, end: str, severity: str, message: str) -> None:
    (tmp_path / "train.log").write_text(ROWS + end, encoding="utf-8")
    (run,) = read(tmp_path / "train.log")
    found = [f for f in diagnose(run).findings if f.code.startswith("END")]
    assert [(f.code, f.severity, f.message, f.cleared) for f in found] == [(code, severity, message, False)]


def test_good_rows_before_a_numerical_crash_are_no_healthy_run(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(ROWS + ENDS["END001"][0], encoding="utf-8")
    (run,) = read(tmp_path / "train.log")
    assert diagnose(run).verdict == "failing"


@pytest.mark.parametrize("end", ["", "training finished, saved to out/\n", ENDS["END005"][0]])
def test_a_run_that_finished_or_was_stopped_by_hand_keeps_its_verdict(tmp_path: Path, end: str) -> None:
    (tmp_path / "train.log").write_text(ROWS + end, encoding="utf-8")
    (run,) = read(tmp_path / "train.log")
    assert diagnose(run).verdict == "healthy"
