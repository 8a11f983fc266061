"""Versions of libraries that a configuration pins: in itself (``pip install``, a PEP 723 header), or beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .readers.beside import beside, text_of

FILES = ("requirements.txt", "pyproject.toml", "environment.yml", "environment.yaml", "setup.py")
_PIN = (
    r"(?<![\w\-.]){}(?:\[[\w,\- ]{{0,60}}\])?\s{{0,3}}={{1,3}}\s{{0,3}}[\"']?"
    r"v?(\d{{1,4}}(?:\.\d{{1,4}}){{1,2}})(?![\w.*])"
)


class Pin(NamedTuple):
    """A version, and whether another file than the configuration names it."""

    version: str
    beside: bool


def pinned(library: str, text: str, path: Path) -> Pin | None:
    """The one version of a library that a text pins, else a file beside it; None where none or several are named."""
    pattern = re.compile(_PIN.format(re.escape(library)))
    if found := set(pattern.findall(text)):
        return Pin(found.pop(), False) if len(found) == 1 else None
    for name in FILES:
        at = beside(path, name)
        found = set(pattern.findall(text_of(at) or "")) if at is not None else set()
        if found:
            return Pin(found.pop(), True) if len(found) == 1 else None
    return None


def numbers(version: str) -> tuple[int, ...]:
    """A version for comparison: (0, 18, 0) for ``0.18``."""
    parts = [int(part) for part in version.split(".")[:3]]
    return (*parts, *[0] * (3 - len(parts)))
