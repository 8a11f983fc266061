"""Programs in separate processes, forked from a server that has already loaded torch, transformers and TRL.

A new process would spend nearly all of its time on loading, and a fork of the test process would inherit the locks of
its threads without the threads.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import sys
import termios
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["grpo_doctor.cli", "grpo_doctor.engine.faults", "grpo_doctor.engine.tiny", "trl.trainer.grpo_trainer"]
)


class Done(NamedTuple):
    """Exit code and output of a program."""

    returncode: int | None
    stdout: str
    stderr: str


def begun(
    *words: str, folder: Path, place: str = os.devnull, errors: Path | None = None, **environment: str
) -> BaseProcess:
    """Start ``grpo-doctor`` with these arguments in a folder. Its input and output are at a place: nowhere, or a
    terminal; errors go to a separate file if one is given."""
    return _started(_command, words, folder, place, errors, environment)


def ended(run: Callable[..., None], words: list[str], folder: Path, environment: dict[str, str]) -> Done:
    """Return what a program has printed once it has ended, and its exit code."""
    with TemporaryDirectory() as held:
        out, errors = Path(held, "out"), Path(held, "errors")
        out.touch()
        process = _started(run, words, folder, str(out), errors, environment)
        process.join()
        return Done(process.exitcode, out.read_text(encoding="utf-8"), errors.read_text(encoding="utf-8"))


def _started(run: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = SERVER.Process(target=_placed, args=(run, *arguments))
    process.start()
    return process


def _placed(
    run: Callable[..., None],
    words: list[str],
    folder: Path,
    place: str,
    errors: Path | None,
    environment: dict[str, str],
) -> None:
    os.setsid()
    file = os.open(place, os.O_RDWR)
    if os.isatty(file):
        fcntl.ioctl(file, termios.TIOCSCTTY, 0)  # Ctrl-C there is for this process
    for number in (0, 1, 2):
        os.dup2(file, number)
    if errors is not None:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode, encoding="utf-8") for number, mode in enumerate("rww"))  # noqa: SIM115
    os.environ.update(environment)
    os.chdir(folder)
    run(*words)


def _command(*words: str) -> None:
    sys.argv = ["grpo-doctor", *words]
    from grpo_doctor.cli import main

    main()
