"""Selects the advisories that apply, by versions, settings and metrics."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from .conditions import holds
from .database import advisories
from .entry import Advisory
from .releases import release

Standing = Literal["affected", "likely", "possible", "version unknown"]
"""Affected: the version and all conditions match. Likely: a condition is unknown, but the log shows the signature."""
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}


class Match(NamedTuple):
    """An advisory that applies or may apply. ``unknown`` lists the unknown conditions, and ``shown`` states whether the
    log shows the bug."""

    advisory: Advisory
    standing: Standing
    version: str = ""
    unknown: tuple[str, ...] = ()
    shown: bool | None = None


Shows = Callable[[Advisory], bool | None]
"""Function that returns whether a log shows the signature of an advisory, or None if the log lacks the fields."""


def matches(
    versions: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    complete: bool = False,
    used: Iterable[str] = (),
    shows: Shows = lambda _: None,
) -> list[Match]:
    """Return the advisories that affect these versions with these settings, certain matches first.

    Args:
        versions: package to version.
        settings: setting to value; absent settings are unknown.
        complete: whether a feature is off if its setting is absent.
        used: packages in use, including packages of unknown version.
        shows: function that returns whether the log shows the signature of an advisory.
    """
    found = []
    for one in advisories():
        if one.package not in versions and one.package not in used:
            continue
        match = _match(one, versions, settings, complete)
        if match is None or (shown := shows(one)) is False:
            continue
        standing: Standing = "likely" if shown and match.standing == "possible" else match.standing
        found.append(match._replace(shown=shown, standing=standing))
    return sorted(found, key=lambda match: (get_args(Standing).index(match.standing), match.advisory.id))


def _match(one: Advisory, versions: Mapping[str, str], settings: Mapping[str, Any], complete: bool) -> Match | None:
    version = versions.get(one.package, "")
    affected = one.affects(version) if version else None
    unknown = _unknown(one, versions, settings, complete)
    if affected is False or unknown is None:
        return None
    if affected is None:
        return Match(one, "version unknown", version, unknown)
    return Match(one, "possible" if unknown else "affected", version, unknown)


def _unknown(
    one: Advisory, versions: Mapping[str, str], settings: Mapping[str, Any], complete: bool
) -> tuple[str, ...] | None:
    """Return the conditions of an advisory that cannot be decided, or None if the advisory does not apply."""
    unknown = [one.where] if one.where else []
    for condition in one.conditions["unless"]:
        if holds(condition, settings):
            return None
    for name in ("when", "opt_in"):
        for condition in one.conditions[name]:
            held = holds(condition, settings)
            if held is None and complete and name == "opt_in":
                held = False
            if held is False:
                return None
            unknown += [] if held else [condition.text]
    for package, sign, limit in one.needs:
        given = release(versions.get(package, ""))
        bound = release(limit)
        if given is None or bound is None:
            unknown.append(f"{package} {sign} {limit}")
        elif not COMPARE[sign](given, bound):
            return None
    return tuple(unknown)
