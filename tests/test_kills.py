"""After SIGKILL at random moments, written data is kept, read data is not read again, and no worker remains."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests import kills

FEW = "2"
"""Kills of each; ``python -m tests.kills`` does 24."""


def test_a_killed_comparison_or_fleet_loses_nothing() -> None:
    command = [sys.executable, "-m", "tests.kills", "compare", "fleet", "--kills", FEW]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("of a fleet: ") == int(FEW)


def test_the_workers_of_a_killed_fleet_end_with_it(tmp_path: Path) -> None:
    for seed in range(8):
        kills.written_log(tmp_path / "sweep" / f"{seed}" / "train.jsonl", seed)
    command = [sys.executable, "-m", "grpo_doctor", "fleet", str(tmp_path / "sweep"), "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as fleet:
        while len(workers := psutil.Process(fleet.pid).children(recursive=True)) < 3 and fleet.poll() is None:
            time.sleep(0.01)
        assert fleet.poll() is None, "it ended before it had workers"
        fleet.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
