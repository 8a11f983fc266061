"""``python -m tests.kills``: kills a run at twenty random moments and resumes it each time. Not part of the suite.

After every kill each finished step must be readable, and in the end the records must be those of a run that was
left alone. Takes some minutes.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from grpo_doctor.record import StepRecord, read_records

KILLS = 20
COMMAND = [
    *(sys.executable, "-m", "grpo_doctor", "run", "--steps", "60"),
    *("--set", "generation_batch_size=16", "--set", "num_generations=4", "--set", "save_steps=2"),
]


def essence(record: StepRecord) -> dict[str, object]:
    """The record without the time that it took."""
    return {k: v for k, v in msgspec.structs.asdict(record).items() if k != "wall_time"}


def killed(folder: Path, rng: random.Random, *more: str) -> int:
    """Starts a run, kills it when it has written a few more steps and a moment longer; the steps on disk."""
    records = folder / "records.jsonl"
    aim = (count(records) if more else 0) + rng.randint(1, 4)
    with subprocess.Popen([*COMMAND, "--out", str(folder), *more], stdout=subprocess.DEVNULL) as process:
        started = time.monotonic()
        while process.poll() is None and (count(records) < aim or time.monotonic() - started < 3):
            time.sleep(0.02)
        time.sleep(rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
    steps = [record.step for record in read_records(records)]
    assert steps == list(range(1, len(steps) + 1)), steps
    return len(steps)


def count(records: Path) -> int:
    """Whole lines of a file."""
    return records.read_bytes().count(b"\n") if records.exists() else 0


def main() -> None:
    """Prints the steps on disk after each kill, and whether the end is that of a run left alone."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder, whole = Path(name, "killed"), Path(name, "whole")
        for i in range(KILLS):
            print(f"kill {i + 1}: {killed(folder, rng, *(['--resume'] if i else []))} steps on disk", flush=True)
        subprocess.run([*COMMAND, "--out", str(folder), "--resume"], check=False, stdout=subprocess.DEVNULL)
        subprocess.run([*COMMAND, "--out", str(whole)], check=False, stdout=subprocess.DEVNULL)
        a, b = ([*map(essence, read_records(path / "records.jsonl"))] for path in (folder, whole))
        print(f"{len(a)} records, equal to those of a run left alone: {a == b}")
        sys.exit(a != b)


if __name__ == "__main__":
    main()
