"""Versions of libraries that a configuration pins: in itself (``pip install``, a PEP 723 header), or beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .readers.nearby_files import beside, text_of

FILES = ("requirements.txt", "pyproject.toml", "environment.yml", "environment.yaml", "setup.py")
LONGEST = 2_000
"""Characters of a line that are looked at; notebooks hold pictures in one line."""
_PIN = (
    r"(?<![\w\-.]){}(?:\[[\w,\- ]{{0,60}}\])?(?:\s{{0,3}}={{1,3}}\s{{0,3}}[\"']?|(?:\.git)?@)"
    r"v?(\d{{1,4}}(?:\.\d{{1,4}}){{1,2}}(?:\.?post\d{{1,3}})?)(?![\w.*])"
)
"""A pin in a requirement (``==``), or a tag in the address of a repository (``.git@v``)."""


class Pin(NamedTuple):
    """A version, and whether another file than the configuration names it."""

    version: str
    beside: bool


def pinned(libraries: Iterable[str], text: str, path: Path) -> dict[str, Pin]:
    """The one version of each library that a text pins, else a file beside it; not of one that is named in several."""
    patterns = {library: re.compile(_PIN.format(re.escape(library))) for library in libraries}
    files = [at for name in FILES if (at := beside(path, name)) is not None]
    found: dict[str, Pin] = {}
    for source, lies_beside in ((text, False), *((text_of(at) or "", True) for at in files)):
        lines = [line[:LONGEST] for line in source.splitlines()]
        for library in list(patterns):
            named = (line for line in lines if library in line)
            if versions := {version for line in named for version in patterns[library].findall(line)}:
                del patterns[library]
                if len(versions) == 1:
                    found[library] = Pin(versions.pop(), lies_beside)
    return found
