"""Finds the files that a configuration names, in its folder and in parent folders, because paths often start at the
repository root."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT = re.compile(r"^(?:\$\{?\w+\}?|~)/+")
NAMES = 2_000
"""Maximum number of names that are read per folder."""
UPWARD = 8
"""Maximum number of parent folders that are searched."""
LARGEST = 1 << 18
"""Maximum size in bytes of a file that a configuration names."""


def beside(path: Path, named: str, suffixes: tuple[str, ...] = ("",)) -> Path | None:
    """Return the file to which the name ``named`` in the file at ``path`` refers; None if it is missing or outside the
    searched folders."""
    named = unrooted(named.strip())
    if not named or len(named) > 200 or "\0" in named or "$" in named or ".." in Path(named).parts[2:]:
        return None
    return next((p for part in _parts(named) for p in _candidates(path, part, suffixes) if p.is_file()), None)


def _parts(named: str) -> list[str]:
    """Return the paths to search for. For an absolute path, return its endings, the longest first, because the file may
    be in another checkout."""
    parts = Path(named).parts
    return (
        ["/".join(parts[at:]) for at in range(1, min(len(parts) - 1, UPWARD))] if Path(named).is_absolute() else [named]
    )


def unrooted(named: str) -> str:
    """Remove a leading variable or command substitution from a path, because it usually expands to the project
    folder."""
    if not named.startswith(("$(", "${")):
        return _ROOT.sub("", named, count=1)
    opening, closing = named[1], ")" if named[1] == "(" else "}"
    depth = 0
    for at, sign in enumerate(named[:500]):
        depth += (sign == opening) - (sign == closing)
        if at > 1 and not depth:
            rest = named[at + 1 :]
            return rest.lstrip("/") if opening == "(" or rest[:1] == "/" else named
    return named


def around(path: Path) -> frozenset[str]:
    """Return the file names in the folders that are searched for a named file, and in the ``src`` subfolders."""
    return frozenset(name for outer in _folders(path) for inner in (outer, outer / "src") for name in _names(inner))


def named_like(path: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield matching files in the folder of a file and in its parent folders. The nearest folder comes first; the files
    of a folder are in the order of the patterns."""
    any_of_them = re.compile("|".join(patterns))
    for folder in _folders(path):
        names = sorted(filter(any_of_them.fullmatch, _names(folder)))
        yield from (folder / name for each in patterns for name in names if re.fullmatch(each, name))


def _names(folder: Path) -> list[str]:
    """Return the first `NAMES` names in a folder; an empty list if the folder cannot be read."""
    with contextlib.suppress(OSError):
        return os.listdir(folder)[:NAMES]
    return []


def _folders(path: Path) -> Iterator[Path]:
    folder = path.parent
    for _ in range(UPWARD + 1):
        yield folder
        if folder == folder.parent or (folder / ".git").exists():
            return
        folder = folder.parent


def _candidates(path: Path, named: str, suffixes: tuple[str, ...]) -> Iterator[Path]:
    return (folder / f"{named}{suffix}" for folder in _folders(path) for suffix in suffixes)


def text_of(path: Path, largest: int = LARGEST) -> str | None:
    """Return the content of a file, or None if the file cannot be read or is too large for a configuration."""
    try:
        with path.open("rb") as file:
            raw = file.read(largest + 1)
    except OSError:
        return None
    return raw.decode("utf-8-sig", "replace") if len(raw) <= largest else None
