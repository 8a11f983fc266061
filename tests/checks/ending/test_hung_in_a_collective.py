from __future__ import annotations

from pathlib import Path

import pytest

from .ends import ended, ends


@pytest.mark.parametrize(("rows", "severity"), [(7, "info"), (8, "warning")])
def test_a_collective_that_timed_out_is_the_end(tmp_path: Path, rows: int, severity: str) -> None:
    end = "[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n"
    message = f"The run hung after step {rows}: a timeout of a collective operation (line {rows + 1})."
    assert ends(ended(tmp_path, end, rows)) == [("END003", severity, message)]
