from __future__ import annotations

from pathlib import Path

import pytest

from .ends import ended, ends


@pytest.mark.parametrize(("rows", "severity"), [(7, "info"), (8, "warning")])
def test_a_collective_that_timed_out_is_the_end(tmp_path: Path, rows: int, severity: str) -> None:
    end = "[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n"
    message = f"The run hung after step {rows} and ended with a collective timeout (line {rows + 1})."
    assert ends(ended(tmp_path, end, rows)) == [("END003", severity, message)]


@pytest.mark.parametrize(
    ("before", "severity", "verdict"), [("", "error", "failing"), ("training finished\n", "warning", "suspect")]
)
def test_it_fails_a_run_that_had_not_finished_or_learned(
    tmp_path: Path, before: str, severity: str, verdict: str
) -> None:
    diagnosis = ended(
        tmp_path,
        before + "[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n",
        learns=False,
    )
    assert [found[:2] for found in ends(diagnosis)] == [("END003", severity)]
    assert diagnosis.verdict == verdict
