"""Loads the advisories of the package from the files in ``data/``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from .entry import Advisory, AdvisoryError, load_file

DATA = Path(__file__).parent / "data"


def read_all(files: Iterable[Path]) -> tuple[Advisory, ...]:
    """Return the advisories of several files, ordered by id. Raises `AdvisoryError`."""
    found: dict[str, Advisory] = {}
    for path in files:
        for one in load_file(path):
            if one.id in found:
                raise AdvisoryError(f"{path}: {one.id} is used twice; take the next free number")
            found[one.id] = one
    return tuple(sorted(found.values(), key=lambda one: one.id))


@cache
def advisories() -> tuple[Advisory, ...]:
    """Return every advisory. Raises `AdvisoryError` for an invalid entry."""
    return read_all(sorted(DATA.glob("*.toml")))


@cache
def names() -> frozenset[str]:
    """Return the packages that have advisories, and the packages on which conditions of advisories depend."""
    every = advisories()
    return frozenset([one.package for one in every] + [name for one in every for name, _, _ in one.needs])


def find(package: str | None = None, version: str | None = None) -> list[Advisory]:
    """Return the advisories of a package, or of all packages, that affect or may affect a version."""
    chosen = [one for one in advisories() if package is None or one.package == normal(package)]
    return [one for one in chosen if version is None or one.affects(version) is not False]


def normal(package: str) -> str:
    """Return the name of a package in the form in which PyPI compares names."""
    return package.strip().lower().replace("_", "-")
