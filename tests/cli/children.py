"""Trainings in processes of their own, forked off a server that has loaded what is dear: torch and transformers.

A process that starts from nothing spends nearly all of its time on them, and one that is forked off the tests would
have their threads' locks without the threads.
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
    """``grpo-doctor`` with these words in a folder, its input and output at a place: nowhere, or a terminal; what it
    says as an error goes to a file of its own if there is one."""
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
