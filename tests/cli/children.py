"""Trainings in separate processes, forked from a server that has already loaded torch and transformers.

A new process would spend nearly all of its time on loading, and a fork of the test process would inherit the locks of
its threads without the threads.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import sys
import termios
from multiprocessing.process import BaseProcess
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["grpo_doctor.cli", "grpo_doctor.engine.faults", "grpo_doctor.engine.tiny"])


def begun(
    *words: str, folder: Path, place: str = os.devnull, errors: Path | None = None, **environment: str
) -> BaseProcess:
    """Start ``grpo-doctor`` with these arguments in a folder. Its input and output are at a place: nowhere, or a
    terminal; errors go to a separate file if one is given."""
    process = SERVER.Process(target=_command, args=([*words], folder, place, errors, environment))
    process.start()
    return process


def _command(words: list[str], folder: Path, place: str, errors: Path | None, environment: dict[str, str]) -> None:
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
    sys.argv = ["grpo-doctor", *words]
    from grpo_doctor.cli import main

    main()
