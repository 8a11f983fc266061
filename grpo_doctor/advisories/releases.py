"""Compares version numbers of releases."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})(?:\.?post(\d{1,4}))?(?:\+[\w.]{1,40})?")
PARTS = 4
"""Number of parts of a version number that are compared; missing parts count as 0."""


def release(version: str) -> tuple[int, ...] | None:
    """Return a release as numbers for comparison, such as (0, 18, 0, 0, 0) for ``0.18``. The last number is that of a
    post-release.

    Return None for a development or pre-release version, because its number does not show which commits it contains.
    """
    found = _RELEASE.fullmatch(version.strip())
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    return (*numbers, *[0] * (PARTS - len(numbers)), int(found[2] or 0))


def before(version: str, limit: str) -> bool:
    """Return whether a version is known to be older than another."""
    given, bound = release(version), release(limit)
    return given is not None and bound is not None and given < bound
