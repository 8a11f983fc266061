"""``python -m tests.fuzz [--seconds 120] [--seed 0] [--judged 0.05]``, or ``make fuzz``: prints and stores failures.

A child process works on one input after another. An input that takes longer than `SLOWEST` or `LONGEST`, or kills the
child, is a failure too; another child then continues. Every kind of failure is reduced as far as it still fails, and
written to ``--keep`` (a folder). After the fix, inputs from generated seeds are added to ``tests/fuzz/corpus``.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from tests.corpus_path import CORPUS
from tests.fuzz import seeds, target
from tests.fuzz.mutate import mutated

SLOWEST, LONGEST = 20.0, 600.0
"""Seconds of the processor that one small input may take, and seconds at all, on however busy a machine."""
HEADS = (1 << 10, 1 << 11, 1 << 12)
"""Bytes of a real log that are taken: each of these heads of it is a seed. Longer ones cost much and find little."""
EVERY = 500
"""Inputs between two words of the child."""


Held = dict[str, dict[str, bytes]]
"""The seeds by kind and name."""
SHARES = {
    "log": 80.0, "config": 8.0, "share": 4.0, "convert": 2.0, "discover": 2.0, "options": 2.0, "live": 1.0, "compare": 0.5,
    "fleet": 0.3, "place": 0.3, "gate": 0.1, "probe": 0.1,
}  # fmt: skip
"""Share of each kind in percent; slow kinds are rare."""


def inputs(real: bool) -> Held:
    """Return generated logs and configurations and, if available, the beginnings of real logs."""
    logs = seeds.logs()
    texts = {name: content for name, content in logs.items() if b"\0" not in content}
    beside = {name: content for name, content in seeds.configurations().items() if name.endswith((".yaml", ".json"))}
    found: Held = {
        "log": dict(logs), "config": seeds.configurations(), "share": texts, "convert": logs, "compare": logs,
        "fleet": logs | beside, "options": seeds.options(), "gate": seeds.baselines(), "discover": {"train.py": seeds.TRAINER},
    }  # fmt: skip
    for path in sorted(CORPUS.rglob("*")) if real and CORPUS.is_dir() else []:
        if path.is_file() and path.suffix not in (".csv", ".md"):
            with path.open("rb") as file:
                content = file.read(max(HEADS))
            for size in HEADS:
                found["log"][f"{len(found['log'])}-{path.name}"] = content[:size]
    return found


def drawn(number: int, seed: int, held: Held) -> tuple[str, bytes]:
    """Return the input with this number."""
    rng = random.Random(f"{seed}-{number}")
    (kind,) = rng.choices(list(SHARES), list(SHARES.values()))
    if kind in target.SEEDED:
        return kind, str(rng.randrange(1 << 40)).encode()
    name, other = rng.choices(list(held[kind]), k=2)
    return f"{kind}/{name}", mutated(rng, held[kind][name], held[kind][other])


def fault(name: str, content: bytes, folder: Path, judged: float = 1.0) -> str:
    """Return the fault of an input in one line: the error and its location; empty without a fault."""
    try:
        target.one(name, content, folder, len(content), judged)
    except Exception as error:  # noqa: BLE001 - every kind of error is what is looked for
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "tests/fuzz" not in f.filename]
        at = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
        told = re.search(r"\((\w+\.py:\d+)\)", words := str(error))  # where a command says that it broke
        return f"{type(error).__name__} {told[1] if told else f'{Path(at.filename).name}:{at.lineno}'} {words[:150]}"
    return ""


def smaller(name: str, content: bytes, wrong: str, folder: Path, seconds: float = 60.0) -> bytes:
    """Return a part of the input that fails in the same way, by removing pieces repeatedly."""
    same, ends = wrong.split(" ", 2)[:2], time.monotonic() + seconds
    size = len(content) // 2
    while size and name not in target.SEEDED:
        at = 0
        while at < len(content):
            less = content[:at] + content[at + size :]
            if time.monotonic() > ends:
                return content
            if fault(name, less, folder).split(" ", 2)[:2] == same:
                content = less
            else:
                at += size
        size //= 2
    return content


def work(pipe: Connection, start: int, seed: int, real: bool, judged: float) -> None:
    """Process inputs endlessly, beginning at ``start``; report failures, and sometimes the count."""
    held = inputs(real)
    faulthandler.register(signal.SIGPROF, chain=True)  # prints its location and ends the process
    with tempfile.TemporaryDirectory() as name:
        number = start
        while True:
            kind, content = drawn(number, seed, held)
            pipe.send((number, kind, content, ""))
            signal.setitimer(signal.ITIMER_PROF, SLOWEST)
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            wrong = fault(kind, content, Path(name), judged)
            faulthandler.cancel_dump_traceback_later()
            if wrong:
                pipe.send((number, kind, content, wrong))
            number += 1
            if number % EVERY == 0:
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                pipe.send((number, "", b"", f"{memory} MB"))


def main() -> int:
    """Run for the given time; return 1 if anything failed."""
    parser = argparse.ArgumentParser()
    for option, default in (("--seconds", 120.0), ("--judged", 0.05)):
        parser.add_argument(option, type=float, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--made", action="store_true", help="mutations of made inputs alone")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the child is ended, too
    number, most, found = chosen.start, "", dict[str, tuple[str, bytes]]()
    ends, context = time.monotonic() + chosen.seconds, multiprocessing.get_context("fork")
    while time.monotonic() < ends:
        here, there = context.Pipe(duplex=False)
        child = context.Process(
            target=work, args=(there, number, chosen.seed, not chosen.made, chosen.judged), daemon=True
        )
        child.start()
        there.close()
        last: tuple[str, bytes] = ("", b"")
        try:
            while time.monotonic() < ends:
                number, kind, content, wrong = here.recv()
                if kind:
                    last = kind, content
                else:
                    most = wrong
                    print(f"{number - chosen.start} inputs, {most}", end="\r", file=sys.stderr, flush=True)
                if kind and wrong and (key := re.sub(r" .*", "", wrong) + wrong.split(" ")[1]) not in found:
                    found[key] = last
                    print(f"input {number} ({kind}): {wrong}", flush=True)
                    _keep(chosen.keep, kind, content, wrong)
            child.terminate()
        except (EOFError, OSError):  # it was too slow, or died
            print(
                f"input {number} ({last[0]}): over {SLOWEST:g} s of the processor, or the end of the process",
                flush=True,
            )
            found[f"end {number}"] = last
            _keep(chosen.keep, *last, "")
            number += 1
        child.join()
    print(f"{number - chosen.start} inputs, {len(found)} kinds of failure, {most}")
    return int(bool(found))


def _keep(folder: Path, kind: str, content: bytes, wrong: str) -> None:
    """Write a failure, reduced as far as possible; an input that killed the process is written unchanged."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as room:
        content = smaller(kind, content, wrong, Path(room)) if wrong else content
    group, _, name = kind.partition("/")
    (folder / f"{group}-{len(list(folder.iterdir())):03}-{name}").write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
