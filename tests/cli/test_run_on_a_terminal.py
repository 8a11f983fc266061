"""``grpo-doctor run`` on a terminal: the live panel, and Ctrl-C."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_doctor.record import read_records

from .test_run import SMALL

pty = pytest.importorskip("pty", reason="a pseudo-terminal needs Unix")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
LIMIT = 200


def on_a_terminal(
    *arguments: str, folder: Path, interrupt_when: Callable[[], bool] = lambda: False
) -> tuple[int | None, str]:
    """Return exit code and output of a run whose terminal receives Ctrl-C once the condition holds."""
    import termios

    from tests.cli.children import begun

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    process = begun("run", *arguments, folder=folder, place=os.ttyname(theirs), TERM="xterm-256color")
    written, interrupted, deadline = b"", False, time.monotonic() + LIMIT
    try:
        while process.is_alive() and time.monotonic() < deadline:
            written += waiting(ours, 0.05)
            if not interrupted and interrupt_when():
                os.write(ours, b"\x03")
                interrupted = True
        while more := waiting(ours, 0):
            written += more
        return process.exitcode, written.decode()
    finally:
        process.kill()
        process.join()
        os.close(ours)
        os.close(theirs)


def waiting(terminal: int, seconds: float) -> bytes:
    """Return the text that a terminal received, now or within these seconds."""
    return os.read(terminal, 1 << 16) if select.select([terminal], [], [], seconds)[0] else b""


def plain(written: str) -> list[str]:
    """The lines without their control sequences."""
    return [line.strip() for line in CONTROL.sub("", written).split("\n")]


@pytest.mark.slow
def test_the_panel_redraws_itself_and_leaves_the_verdict(tmp_path: Path) -> None:
    code, written = on_a_terminal("--steps", "3", *SMALL, "--out", "seen", folder=tmp_path)
    lines = plain(written)
    assert code == 3
    assert "\x1b[" in written
    assert "step 0/3, starting, seen" in lines
    end = re.compile(r"step 3/3, 0 s left, [\d.e+]+ steps/min, seen$")
    last = lines[max(i for i, line in enumerate(lines) if end.search(line)) :]
    for name in ("reward", "valid", "entropy", "KL", "length", "grad"):
        assert any(re.match(rf"{name} +[-+0-9.e]+ +[▁▂▃▄▅▆▇█]{{3}}$", line) for line in last), name
    told = re.compile(r"unjudged: Only 3 rows were logged \(reward .*\); at least 8 are needed for a verdict\.")
    assert any(map(told.match, last))
    assert lines[-4:-1] == ["seen/records.jsonl", "seen/report.html", "seen/report.md"]


@pytest.mark.slow
def test_ctrl_c_ends_with_records_a_report_and_one_line(tmp_path: Path) -> None:
    records = tmp_path / "cut" / "records.jsonl"
    code, written = on_a_terminal(
        "--steps", "5000", *SMALL, "--out", "cut", folder=tmp_path,
        interrupt_when=lambda: records.exists() and records.read_bytes().count(b"\n") >= 2,
    )  # fmt: skip
    lines = plain(written)
    assert "Traceback" not in written
    steps = [record.step for record in read_records(records)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 2
    said = f"stopped: interrupted; --resume continues after step {steps[-1]}"
    assert lines.count(said) == 1
    assert (tmp_path / "cut" / "checkpoints" / f"step-{steps[-1]:06d}.pt").exists()
    verdict = lines[lines.index(said) + 1]
    assert code == (3 if verdict.startswith("unjudged") else 0)
    assert "The training was stopped: interrupted;" in (tmp_path / "cut" / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "cut" / "report.html").stat().st_size > 0
