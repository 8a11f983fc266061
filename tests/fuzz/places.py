"""Folders in states that no training leaves: unreadable, vanishing, with link loops, blocking, or written by two
processes.

A command on such a folder ends with its exit code, and changes neither the input nor files next to it.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grpo_doctor.cli.common import BROKEN
from tests.fuzz import seeds

LIMIT = 120
"""Seconds that a command may take on a busy machine."""
OF_OTHERS = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, with which root reads files without permission."""

Placed = Callable[[Path, random.Random], object]


@contextmanager
def as_a_user() -> Iterator[None]:
    """Run without the rights of root to read and write everything."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    before = (ctypes.c_uint32 * 6)()
    if os.geteuid() != 0 or libc.capget(header, before) != 0:
        yield
        return
    fewer = (ctypes.c_uint32 * 6)(*before)
    fewer[0] &= ~sum(1 << right for right in OF_OTHERS)
    libc.capset(header, fewer)
    try:
        yield
    finally:
        libc.capset(header, before)


def forbidden_file(room: Path, _: random.Random) -> None:
    (path := room / "forbidden.jsonl").write_text('{"step": 1, "reward": 0}')
    path.chmod(0)


def forbidden_folder(room: Path, _: random.Random) -> None:
    (path := room / "forbidden").mkdir()
    (path / "log.jsonl").write_text('{"step": 1, "reward": 0}')
    path.chmod(0)


def link(room: Path, rng: random.Random) -> None:
    target = rng.choice(["absent.jsonl", ".", "..", "link.jsonl", "good.jsonl", "/dev/null"])
    (room / "link.jsonl").symlink_to(target)


def fifo(room: Path, _: random.Random) -> None:
    os.mkfifo(room / "fifo.jsonl")


def store(room: Path, _: random.Random) -> None:
    socket.socket(socket.AF_UNIX).bind(os.path.relpath(room / "s.jsonl"))


def folder_as_log(room: Path, _: random.Random) -> None:
    (room / "metrics.jsonl").mkdir()


def odd_name(room: Path, rng: random.Random) -> None:
    name = rng.choice(
        [b"\xff\xfe.jsonl", b"a\nb.jsonl", b"-o.jsonl", b"\x1b[31m.jsonl", b"::error::.jsonl", b"x" * 240]
    )
    Path(os.fsdecode(os.fsencode(room) + b"/" + name)).write_bytes(seeds.logs()["metrics.jsonl"])


def draft(room: Path, _: random.Random) -> None:
    for name in ("out.part", "good.jsonl.shared.part", "good.jsonl.shared"):
        (room / name).symlink_to("victim")


PLACED: tuple[Placed, ...] = (
    forbidden_file, forbidden_folder, link, fifo, store, folder_as_log, odd_name, draft,
)  # fmt: skip
COMMANDS = (
    "analyze .", "gate .", "fleet . --jobs 1", "analyze good.jsonl -f html -o out", "share good.jsonl", "convert good.jsonl out.jsonl",
    "gate . --baseline known.json --write-baseline --report html=out", "settings .", "analyze good.jsonl -o good.jsonl",
    "analyze forbidden.jsonl", "analyze link.jsonl", "compare good.jsonl link.jsonl",
)  # fmt: skip


def place(rng: random.Random, folder: Path) -> None:
    """Create some unusual files next to a good log, and run one or two commands at the same time."""
    room = folder / f"place-{rng.randrange(1 << 30)}"
    room.mkdir()
    here = Path.cwd()
    os.chdir(room)  # an address of a socket is short
    good, victim = room / "good.jsonl", room / "victim"
    good.write_bytes(seeds.logs()["metrics.jsonl"])
    victim.write_text("precious")
    before = good.read_bytes(), victim.read_bytes()
    try:
        for placed in rng.sample(PLACED, rng.randrange(1, 4)):
            placed(room, rng)
        with restless(room, rng):
            words = rng.choice(COMMANDS).split()
            _all(words, 1 if rng.random() < 0.5 else 2)
        assert (good.read_bytes(), victim.read_bytes()) == before, f"{words} changed what it read"
    finally:
        os.chdir(here)
        _removed(room)


def _all(words: list[str], number: int) -> None:
    """Run the same command this many times in parallel."""
    known = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(_command(words), env=known, **pipes) for _ in range(number)]  # type: ignore[call-overload]
    for one in running:
        out, err = one.communicate(timeout=LIMIT)
        said = next((line for line in err.splitlines() if "bug in grpo-doctor" in line), "")
        assert one.returncode in range(BROKEN), said or f"{words}: exit code {one.returncode}: {err[-300:]}"
        assert "Traceback" not in err, err[-300:]
        assert "\x1b" not in out + err


def _command(words: list[str]) -> list[str]:
    code = "from tests.fuzz.places import as_a_user\nfrom grpo_doctor.cli import main\nwith as_a_user(): main()"
    return [sys.executable, "-c", code, *words]


@contextmanager
def restless(room: Path, rng: random.Random) -> Iterator[None]:
    """Let a log grow, shrink, vanish and reappear while it is read."""
    done = threading.Event()
    row = json.dumps({"step": 3, "reward": 0.5}) + "\n"

    def work() -> None:
        path = room / "restless.jsonl"
        while not done.wait(0.002):
            with suppress(OSError):
                what = rng.randrange(4)
                if what == 0:
                    path.unlink()
                elif what == 1:
                    os.truncate(path, 5)
                else:
                    path.open("a").write(row * rng.randrange(200))

    other = threading.Thread(target=work)
    if rng.random() < 0.5:
        other.start()
    try:
        yield
    finally:
        done.set()
        if other.ident is not None:
            other.join()


def _removed(room: Path) -> None:
    import shutil

    for path in room.iterdir():
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(room)
