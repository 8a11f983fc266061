"""``python -m tests.kills [run] [watch]``: kills each at 24 random moments and goes on. Not part of the suite.

After every kill of a run each finished step must be readable, and in the end the records must be those of a run that
was left alone. A watch must leave the log that it follows as it is, and the last one must find what `analyze` finds.
Takes some minutes.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from grpo_doctor.record import StepRecord, read_records

KILLS = 24
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
    """Kills what the command line names, else both; exit code 1 where anything was lost."""
    chosen = sys.argv[1:] or ["run", "watch"]
    kept = [{"run": runs_are_whole, "watch": watches_are_whole}[name](random.Random(0)) for name in chosen]
    sys.exit(not all(kept))


def watches_are_whole(rng: random.Random) -> bool:
    """Whether a log that grows under watches that are killed is as it was written, and judged as a whole one."""
    with tempfile.TemporaryDirectory() as name:
        log, report, written = Path(name, "train.jsonl"), Path(name, "report.json"), b""
        watch = [sys.executable, "-m", "grpo_doctor", "watch", str(log), "--interval", "0.05"]
        for i in range(KILLS):
            with subprocess.Popen(watch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                ends = time.monotonic() + rng.uniform(0.1, 3)
                while time.monotonic() < ends:
                    step = written.count(b"\n") + 1
                    row = {"step": step, "reward": 0.5 if step < 60 else 0.01, "loss": 0.1, "grad_norm": 0.3}
                    written += json.dumps(row).encode() + b"\n"
                    log.write_bytes(written) if step == 1 else append(log, written.splitlines(keepends=True)[-1])
                    time.sleep(0.02)
                process.send_signal(signal.SIGKILL)
            print(f"kill {i + 1} of a watch: {count(log)} rows", flush=True)
        said = []
        for command in ([*watch[3:], "--idle", "0.5"], ["analyze", str(log)]):
            subprocess.run([*watch[:3], *command, "--report", f"json={report}"], check=False, stdout=subprocess.DEVNULL)
            said.append([run["findings"] for run in json.loads(report.read_text(encoding="utf-8"))["runs"]])
        whole = said[0] == said[1] and bool(said[0][0]) and log.read_bytes() == written
        print(f"the log is as it was written, and judged the same: {whole}")
        return whole


def append(path: Path, row: bytes) -> None:
    """A trainer's next line."""
    with path.open("ab") as file:
        file.write(row)


def runs_are_whole(rng: random.Random) -> bool:
    """Prints the steps on disk after each kill, and whether the end is that of a run left alone."""
    with tempfile.TemporaryDirectory() as name:
        folder, whole = Path(name, "killed"), Path(name, "whole")
        for i in range(KILLS):
            print(f"kill {i + 1}: {killed(folder, rng, *(['--resume'] if i else []))} steps on disk", flush=True)
        subprocess.run([*COMMAND, "--out", str(folder), "--resume"], check=False, stdout=subprocess.DEVNULL)
        subprocess.run([*COMMAND, "--out", str(whole)], check=False, stdout=subprocess.DEVNULL)
        a, b = ([*map(essence, read_records(path / "records.jsonl"))] for path in (folder, whole))
        print(f"{len(a)} records, equal to those of a run left alone: {a == b}")
        return a == b


if __name__ == "__main__":
    main()
