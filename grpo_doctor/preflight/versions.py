"""Finds the library versions that a configuration pins, in the file itself (``pip install``, a PEP 723 header) or in a
file next to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .readers.nearby_files import named_like, text_of

FILES = (
    *(r"requirements\.txt", r"(?:uv|poetry|pdm)\.lock|pylock\.toml", r"pyproject\.toml"),
    *(r"environment\.ya?ml", r"setup\.(?:py|cfg)", r"(?:requirements|constraints)[\w.\-]*\.txt", r"Dockerfile"),
)
"""Names of files next to a configuration that may pin versions. For each library, the first file that pins its version
counts."""
LARGEST = 1 << 23
"""Maximum size in bytes of a file that pins versions. The limit is large because lock files list every wheel."""
LONGEST = 2_000
"""Maximum length, in characters, of a line that is searched. Notebooks contain pictures on a single line."""
_NUMBER = r"(\d{1,4}(?:\.\d{1,4}){1,3}(?:\.?post\d{1,3})?)(?![\w.*])"
_PIN = rf"(?<![\w\-.])NAME(?:\[[\w,\- ]{{0,60}}\])?(?:\s{{0,3}}={{1,3}}\s{{0,3}}[\"']?|(?:\.git)?@)v?{_NUMBER}"
"""Matches a pin in a requirement (``==``), or a tag in the address of a repository (``.git@v``)."""
_TAG = r"(?:FROM|image:)\s.{0,200}(?<![A-Za-z])NAME(?:(?:-\w{1,20})?:v?)?(\d{1,4}(?:\.\d{1,4}){2})(?![\w.])"
"""Matches a complete version in the tag of an image. A version with two numbers does not match, because it names only a
release line."""
_LOCKED = re.compile(r'(?m)^\[\[packages?\]\]\r?\nname = "([\w.\-]{1,100})"\r?\nversion = "([\w.+]{1,40})"')


class Pin(NamedTuple):
    """A version, and whether a file other than the configuration pins it."""

    version: str
    beside: bool


def pinned(libraries: Iterable[str], text: str, path: Path) -> dict[str, Pin]:
    """Return the version of each library that a text pins. Files next to the text are searched for the other libraries.
    Libraries with several versions are omitted."""
    left = set(libraries)
    found: dict[str, Pin] = {}
    for versions, lies_beside in _sources(left, text, path):
        for library in versions.keys() & left:
            left.discard(library)
            if len(versions[library]) == 1:
                found[library] = Pin(versions[library].copy().pop(), lies_beside)
        if not left:
            break
    return found


def _sources(libraries: Iterable[str], text: str, path: Path) -> Iterator[tuple[Mapping[str, set[str]], bool]]:
    patterns = {name: re.compile(f"{_PIN}|{_TAG}".replace("NAME", re.escape(name))) for name in sorted(libraries)}
    yield _pins(patterns, text), False
    for at in named_like(path, FILES):
        beside = text_of(at, LARGEST) or ""
        yield _locked(beside) if at.name.endswith((".lock", "pylock.toml")) else _pins(patterns, beside), True


def _pins(patterns: Mapping[str, re.Pattern[str]], text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in (line[:LONGEST] for line in text.splitlines()):
        for library, pattern in patterns.items():
            if library in line:
                found.setdefault(library, set()).update(
                    filter(None, (n for said in pattern.findall(line) for n in said))
                )
    return {library: versions for library, versions in found.items() if versions}


def _locked(text: str) -> dict[str, set[str]]:
    """Return the versions in a lock file of uv, Poetry, PDM or PEP 751."""
    found: dict[str, set[str]] = {}
    for name, version in _LOCKED.findall(text):
        found.setdefault(name.lower().replace("_", "-"), set()).add(version)
    return found
