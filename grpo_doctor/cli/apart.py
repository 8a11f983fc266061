"""Runs a command that executes the user's code in a child process, so that this code cannot choose the exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from .common import UNJUDGED, say

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def in_a_child(command: str) -> Callable[[int], None]:
    """Goes on in a child process; what is returned there reports the exit code of the command.

    The parent waits, and exits with that code: with 3 where the child ended without reporting one, as by ``os._exit``
    or a crash in native code. What ends the child later, such as an ``atexit`` hook, no longer counts.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        return lambda code: _report(writing, code)
    os.close(writing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts the child, too
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    os.set_blocking(reading, False)
    reported = b""
    with suppress(BlockingIOError):  # a process that the child left behind holds the other end
        reported = os.read(reading, 1)
    os._exit(reported[0] if reported else _ended(status, command))


def _report(writing: int, code: int) -> None:
    with suppress(OSError):  # the user's code closed it: the parent says that nothing was reported
        os.write(writing, bytes([code]))


def _ended(status: int, command: str) -> int:
    code = os.waitstatus_to_exitcode(status)
    if -code in INTERRUPTS:
        return 128 - code
    how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    say(f"grpo-doctor: {command}: the user's code ended the process ({how}) before anything was judged", err=True)
    sys.stderr.flush()
    return UNJUDGED
