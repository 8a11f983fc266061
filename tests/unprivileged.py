"""Files without permission, even if the tests run as root: root loses its override while a test needs it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_DAC = (1 << 1) | (1 << 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
_VERSION_3 = 0x20080522


@contextmanager
def permissions_hold() -> Iterator[None]:
    """Inside the block, this thread cannot open a file of mode 000, whoever runs it."""
    if os.name == "nt":
        pytest.skip("permissions of files are those of POSIX here")
    if os.geteuid() != 0:
        yield
        return
    if not sys.platform.startswith("linux"):
        pytest.skip("root reads every file on this system")
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before = (ctypes.c_uint32 * 6)()
    if libc.capget(header, before):
        pytest.skip("the capabilities of this process are not known")
    less = (ctypes.c_uint32 * 6)(*before)
    less[0] &= ~_DAC  # the effective ones; those that are permitted stay, so that they can come back
    if libc.capset(header, less):
        pytest.skip("the capabilities of this process cannot be changed")
    try:
        yield
    finally:
        libc.capset(header, before)
