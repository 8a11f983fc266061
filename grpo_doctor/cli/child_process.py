"""Runs commands that execute user code in a child process, so that user code cannot change the exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from .common import UNJUDGED, note

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def in_a_child(command: str) -> Callable[[int], None]:
    """Fork, and return only in the child process. The returned function reports the exit code of the command to the
    parent.

    The parent waits and exits with the reported code. If the child ended without a report, for example through
    ``os._exit`` or a native crash, the parent exits with 3. An exit code that is set later, for example by an
    ``atexit`` hook, is ignored.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        return lambda code: _report(writing, code)
    os.close(writing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal also interrupts the child
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    os.set_blocking(reading, False)
    reported = b""
    with suppress(BlockingIOError):  # a process that the child started still has the pipe open
        reported = os.read(reading, 1)
    os._exit(reported[0] if reported else _ended(status, command))


def _report(writing: int, code: int) -> None:
    with suppress(OSError):  # the user's code closed the pipe, which the parent reports
        os.write(writing, bytes([code]))


def _ended(status: int, command: str) -> int:
    code = os.waitstatus_to_exitcode(status)
    if -code in INTERRUPTS:
        return 128 - code
    how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    note(f"{command}: your code ended the process ({how}) before the checks finished")
    sys.stderr.flush()
    return UNJUDGED
