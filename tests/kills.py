"""``python -m tests.kills [run] [watch] [compare] [fleet] [--kills 24]``: kills commands at random moments and
continues.

After every kill of a run, each finished step must be readable, and the final records must equal those of an
uninterrupted run. A watch must not change its log, and the last one must find what `analyze` finds. A report of a
comparison or of a fleet must be the old or the new one, complete, and a fleet must keep the runs that it has read. This
takes some minutes; the suite uses few kills.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401 - loaded before any child, as what stands below with the same mark
import msgspec
import scipy.stats  # noqa: F401

from grpo_doctor import diagnose as diagnose_file
from grpo_doctor.cli import app
from grpo_doctor.cli.demo import RUN
from grpo_doctor.cli.fleet import PAGES
from grpo_doctor.compare import overlay, summary  # noqa: F401
from grpo_doctor.config import Config
from grpo_doctor.fleet.locations import find
from grpo_doctor.fleet.store import Store
from grpo_doctor.fleet.unit import Job
from grpo_doctor.record import StepRecord, read_records

COMMAND = [
    *(sys.executable, "-m", "grpo_doctor", "run", "--steps", "60"),
    *("--set", "generation_batch_size=16", "--set", "num_generations=4", "--set", "save_steps=2"),
]


def essence(record: StepRecord) -> dict[str, object]:
    """Return the record without its duration."""
    return {k: v for k, v in msgspec.structs.asdict(record).items() if k != "wall_time"}


def killed(folder: Path, rng: random.Random, *more: str) -> int:
    """Start a run, kill it shortly after it has written a few more steps, and return the steps on disk."""
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
    """Count the complete lines of a file."""
    return records.read_bytes().count(b"\n") if records.exists() else 0


def main() -> None:
    """Kill the named commands, or all of them; return exit code 1 if anything was lost."""
    whole = {
        "run": runs_are_whole,
        "watch": watches_are_whole,
        "compare": compares_are_whole,
        "fleet": fleets_are_whole,
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *whole], default=[])
    parser.add_argument("--kills", type=int, default=24)
    chosen = parser.parse_args()
    diagnose_file(RUN)  # loads what children would load each
    kept = [whole[name](random.Random(0), chosen.kills) for name in chosen.names or whole]
    sys.exit(not all(kept))


def watches_are_whole(rng: random.Random, kills: int) -> bool:
    """Return whether a growing log is unchanged after its watches were killed, and gets the verdict of the complete
    log."""
    with tempfile.TemporaryDirectory() as name:
        log, report, written = Path(name, "train.jsonl"), Path(name, "report.json"), b""
        watch = [sys.executable, "-m", "grpo_doctor", "watch", str(log), "--interval", "0.05"]
        for i in range(kills):
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
    """Append the next line of a trainer."""
    with path.open("ab") as file:
        file.write(row)


def runs_are_whole(rng: random.Random, kills: int) -> bool:
    """Print the steps on disk after each kill; return whether the result equals that of an uninterrupted run."""
    with tempfile.TemporaryDirectory() as name:
        folder, whole = Path(name, "killed"), Path(name, "whole")
        for i in range(kills):
            print(f"kill {i + 1}: {killed(folder, rng, *(['--resume'] if i else []))} steps on disk", flush=True)
        subprocess.run([*COMMAND, "--out", str(folder), "--resume"], check=False, stdout=subprocess.DEVNULL)
        subprocess.run([*COMMAND, "--out", str(whole)], check=False, stdout=subprocess.DEVNULL)
        a, b = ([*map(essence, read_records(path / "records.jsonl"))] for path in (folder, whole))
        print(f"{len(a)} records, equal to those of a run left alone: {a == b}")
        return a == b


def compares_are_whole(rng: random.Random, kills: int) -> bool:
    """Return whether killed comparisons keep the previous reports or write complete new ones."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = [written_log(folder / f"{seed}.jsonl", seed) for seed in (1, 2)]
        reports = [folder / "report.html", folder / "report.json"]
        words = ["compare", *map(str, logs), "-f", "html", "-o", str(reports[0]), "--report", f"json={reports[1]}"]
        with unchanged(logs):
            takes = left_alone(words)
            new, old = [path.read_bytes() for path in reports], [b"old html", b"old json"]
            for i in range(kills):
                for path, content in zip(reports, old, strict=True):
                    path.write_bytes(content)
                struck(words, rng.uniform(0, takes))
                found = [path.read_bytes() for path in reports]
                if any(content not in pair for content, *pair in zip(found, old, new, strict=True)):
                    print(f"kill {i + 1} of a comparison: a report is neither the old one nor the new one")
                    return False
            left_alone(words)
        whole = [path.read_bytes() for path in reports] == new
        print(f"{kills} kills of comparisons: every report was whole, and the last ones are as they were: {whole}")
        return whole


RUNS = 6
"""Of a fleet that is killed."""


def fleets_are_whole(rng: random.Random, kills: int) -> bool:
    """Check that a fleet that is killed repeatedly keeps all results and ends with the same result."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = [written_log(folder / "sweep" / f"{seed}" / "train.jsonl", seed) for seed in range(RUNS)]
        report, stores = folder / "fleet.json", [folder / "alone.db", folder / "killed.db"]
        rooms = [store.with_suffix("") for store in stores]
        alone, words = ([
            "fleet", str(folder / "sweep"), "--jobs", "1", "-f", "json", "-o", str(report), "--db", str(store), "--out", str(room),
        ] for store, room in zip(stores, rooms, strict=True))  # fmt: skip
        with unchanged(logs):
            takes = left_alone(alone)
            new, before = report.read_bytes(), 0
            for i in range(kills):
                if before == RUNS:
                    stores[1].unlink()
                report.write_bytes(b"old")
                struck(words, rng.uniform(0, takes))
                now = in_child(remembered, folder / "sweep", stores[1], rooms[1])
                print(f"kill {i + 1} of a fleet: {now} of {RUNS} runs in its store", flush=True)
                torn = (
                    report.read_bytes() not in (b"old", new) or not pages(rooms[1]).items() <= pages(rooms[0]).items()
                )
                if torn or now < before % RUNS:
                    print(f"a report of it is torn, or it has forgotten some of {before} runs")
                    return False
                before = now
            left_alone(words)
        whole = report.read_bytes() == new and pages(rooms[1]) == pages(rooms[0])
        print(f"the fleet tells what one that was left alone tells: {whole}")
        return whole


def pages(room: Path) -> dict[str, bytes]:
    """Return the content of each page of a run."""
    return {path.name: path.read_bytes() for path in (room / PAGES).glob("*.html")}


def remembered(folder: Path, store: Path, room: Path) -> int:
    """Count the units of a folder that need not be read again."""
    if not store.exists():
        return 0
    units, _ = find([str(folder)])
    return len(Store(store).known(units, Job(Config(), str(room / PAGES), True)))


def written_log(path: Path, seed: int, steps: int = 120) -> Path:
    """Write a run that learns, or one that loses its gain."""
    rng = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"step": step, "reward": step / 200 * (step < 90 or seed % 2) + rng.gauss(0, 0.02),
             "loss": rng.gauss(0, 0.1), "grad_norm": 0.3, "kl": step * 1e-4, "learning_rate": 1e-6 * (1 + seed)}
            for step in range(1, steps)]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@contextmanager
def unchanged(paths: list[Path]) -> Iterator[None]:
    """Assert that the block does not modify these files."""
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    yield
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths] == before


FORK = multiprocessing.get_context("fork")
"""A child has the modules loaded, so that a kill strikes work and not imports."""


def begun(words: list[str]) -> multiprocessing.process.BaseProcess:
    """Start a command in a child process without output."""
    child = FORK.Process(target=_run, args=(words,))
    child.start()
    return child


def _run(words: list[str]) -> None:
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the child ends with it
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        app(words)


def left_alone(words: list[str]) -> float:
    """Run a command to its end and return its duration in seconds."""
    started, child = time.monotonic(), begun(words)
    child.join()
    assert child.exitcode in (0, 1), child.exitcode
    return time.monotonic() - started


def struck(words: list[str], seconds: float) -> None:
    """Kill a command after this time."""
    child = begun(words)
    child.join(seconds)
    child.kill()
    child.join()


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function from a child process, because later children would share a database of this
    process."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=lambda: there.send(function(*arguments)))
    child.start()
    found = here.recv()
    child.join()
    return found


if __name__ == "__main__":
    main()
