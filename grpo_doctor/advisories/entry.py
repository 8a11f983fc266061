"""Defines an advisory, and validates an entry when it is loaded."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from .conditions import Condition, parse
from .releases import release

Level = Literal["info", "warning", "error"]
Verified = Literal["reproduced", "read in source", "reported"]
_ID = re.compile(r"RLA-20\d\d-\d{3}")
_SOURCE = re.compile(r"[\w.\-]+/[\w.\-]+(?:#\d+|@[0-9a-f]{7,40})")
FIRST = "0"
"""Value of ``introduced`` for a bug that is in the first release."""


class AdvisoryError(ValueError):
    """An invalid entry; the message names the file, the entry and the fix."""


class Advisory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One known bug of one package.

    Attributes:
        id: ``RLA-YEAR-NUMBER``; never reused. package: name on PyPI, or name of the repository without a package.
        title: the problem in one sentence without a period.
        introduced: first release with the bug; ``0`` for the very first release.
        fixed: first release without the bug; empty if no release contains the fix.
        last_affected: newest checked release, if ``fixed`` is empty.
        when: conditions on settings that must be true; if a setting is unknown, the bug may apply.
        opt_in: conditions on features that are off unless a configuration enables them.
        unless: conditions that rule the bug out.
        environment: required versions of other packages, such as ``vllm>=0.10``.
        where: an additional condition, in words, that no setting shows. A bug with such a condition is never reported
            as certain.
        symptom: what the user sees.
        signature: relations between record fields in the log of an affected run.
        effect: the effect on training.
        severity: severity of the bug if it applies.
        do: the version to install, or the setting to change.
        sources: issue, pull request or commit, as ``owner/name#1`` or ``owner/name@commit``.
        verified: how the bug was checked.
        read: the code that was read, with versions, if the bug was verified by reading.
    """

    id: str
    package: str
    title: str
    introduced: str
    fixed: str = ""
    last_affected: str = ""
    when: tuple[str, ...] = ()
    opt_in: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    where: str = ""
    symptom: str
    signature: tuple[str, ...] = ()
    effect: str
    severity: Level
    do: str
    sources: tuple[str, ...]
    verified: Verified
    read: str = ""

    @cached_property
    def conditions(self) -> dict[str, tuple[Condition, ...]]:
        """Return the parsed conditions of each list, by the name of the list."""
        lists = {"when": self.when, "opt_in": self.opt_in, "unless": self.unless, "signature": self.signature}
        return {name: tuple(parse(text) for text in texts) for name, texts in lists.items()}

    @cached_property
    def needs(self) -> tuple[tuple[str, str, str], ...]:
        """Return the package, operator and version of each condition in ``environment``."""
        return tuple(_requirement(text) for text in self.environment)

    def conditions_in_words(self, code: str = "{}") -> str:
        """Return all conditions as one phrase; ``code`` formats an expression."""
        stated = [*self.when, *self.opt_in, *self.environment]
        words = [code.format(text) for text in stated] + [self.where] * bool(self.where)
        return " and ".join([*words, *(f"not {code.format(text)}" for text in self.unless)])

    @property
    def range(self) -> str:
        """Return the affected versions in words: ``>= 0.23.0, < 0.24.0``."""
        parts = [f">= {self.introduced}"] if self.introduced != FIRST else []
        if self.fixed:
            parts.append(f"< {self.fixed}")
        elif self.last_affected:
            parts.append(f"not fixed in {self.last_affected}")
        return ", ".join(parts) or "all"

    def affects(self, version: str) -> bool | None:
        """Return whether a version has the bug, or None if its number does not show whether the bug is present."""
        given = release(version)
        if given is None:
            return None
        first, fixed = release(self.introduced), release(self.fixed) if self.fixed else None
        assert first is not None
        if given < first or (fixed is not None and given >= fixed):
            return False
        if fixed is None and self.last_affected:
            last = release(self.last_affected)
            return True if last is not None and given <= last else None
        return True


_REQUIREMENT = re.compile(r"([\w\-.]+?)\s*(<=|>=|<|>|==)\s*([\w.]+)")


def _requirement(text: str) -> tuple[str, str, str]:
    found = _REQUIREMENT.fullmatch(text.strip())
    if found is None or release(found[3]) is None:
        raise ValueError(f"{text!r} is not PACKAGE OPERATOR VERSION")
    return found[1].lower(), found[2], found[3]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    advisory: list[dict[str, Any]]


def load_file(path: Path) -> list[Advisory]:
    """Return the advisories of one file. Raises `AdvisoryError`."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        entries = msgspec.convert(data, _File).advisory
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise AdvisoryError(f"{path}: {error}; write each entry under [[advisory]]") from None
    return [_entry(one, path) for one in entries]


def _entry(data: dict[str, Any], path: Path) -> Advisory:
    name = f"{path}: {data.get('id', 'an entry without id')}"
    try:
        made = msgspec.convert(data, Advisory)
    except msgspec.ValidationError as error:
        raise AdvisoryError(f"{name}: {error}") from None
    if (why := _wrong(made)) is not None:
        raise AdvisoryError(f"{name}: {why}")
    return made


def _wrong(made: Advisory) -> str | None:
    """Return why an entry is invalid, or None if it is valid."""
    if _ID.fullmatch(made.id) is None:
        return "an id is RLA-YEAR-NUMBER, such as RLA-2026-001"
    if not made.sources:
        return "has no source; name an issue, a pull request or a commit"
    if bad := [one for one in made.sources if _SOURCE.fullmatch(one) is None]:
        return f"source {bad[0]!r} is not owner/name#NUMBER or owner/name@COMMIT"
    if not (made.fixed or made.last_affected):
        return "has no range; give `fixed`, or `last_affected` if no release has the fix"
    for version in filter(None, (made.introduced, made.fixed, made.last_affected)):
        if release(version) is None:
            return f"{version!r} is not the number of a release"
    first, end = release(made.introduced), release(made.fixed or made.last_affected)
    if first is not None and end is not None and not (first < end or (not made.fixed and first == end)):
        return f"the range is empty: introduced {made.introduced}, then {made.fixed or made.last_affected}"
    if made.verified == "read in source" and not made.read:
        return "has 'read in source' but does not name in `read` what was read"
    return _wrong_words(made)


def _wrong_words(made: Advisory) -> str | None:
    try:
        made.conditions, made.needs  # noqa: B018 - parsed on first use
    except (ValueError, re.error) as error:
        return str(error)
    empty = [name for name in ("title", "symptom", "effect", "do") if not getattr(made, name).strip()]
    return f"`{empty[0]}` is empty" if empty else None
