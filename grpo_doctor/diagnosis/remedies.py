"""Loads remedies and rival explanations from ``advice.toml`` in each family of checks and from ``remedies.toml`` for
all families.

A file is read when a finding of its family is reported, not when the catalogue loads.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .check import CheckError, Remedy, Rival, Step
from .framework import FRAMEWORKS
from .lab_results import of_lab

SHARED = Path(__file__).with_name("remedies.toml")
_LAB = re.compile(r"\{lab:([\w-]+)(?:/([\w-]+))?\}")


class Advice(NamedTuple):
    """The advice of a check.

    ``probe_remedies`` come first for findings that a probe has proven in the code.
    """

    remedies: tuple[Remedy, ...] = ()
    probe_remedies: tuple[Remedy, ...] = ()
    rivals: tuple[Rival, ...] = ()


@cache
def shared_remedies() -> Mapping[str, Remedy]:
    """Return the remedies that checks of several families share, by id. Raises `CheckError`."""
    return _remedies(SHARED, _read(SHARED))


def advice_for(file: str, code: str) -> Advice:
    """Return the advice of the check ``code``, declared in ``file``. Raises `CheckError`."""
    return _family(Path(file).with_name("advice.toml")).get(code, Advice())


@cache
def _family(path: Path) -> dict[str, Advice]:
    if not path.is_file():
        return {}
    document = _read(path)
    known = {**shared_remedies(), **_remedies(path, document)}
    return {code: _advice(path, code, entry, known) for code, entry in document.items() if code != "remedies"}


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise CheckError(f"{path}: {error}") from None


def _remedies(path: Path, document: Mapping[str, Any]) -> dict[str, Remedy]:
    found = {}
    for name, entry in document.get("remedies", {}).items():
        if missing := [key for key in ("title", "evidence", "source") if key not in entry]:
            raise CheckError(f"{path}: the remedy {name!r} lacks {missing[0]!r}")
        if unknown := entry.keys() - {"title", "evidence", "source", *FRAMEWORKS}:
            raise CheckError(f"{path}: the remedy {name!r} has {min(unknown)!r}; steps are for {', '.join(FRAMEWORKS)}")
        steps = tuple(_step(who, do) for who, do in entry.items() if who in FRAMEWORKS)
        evidence = _LAB.sub(lambda m: of_lab(m[1], m[2] or "mended"), entry["evidence"])
        found[name] = Remedy(name, entry["title"], steps, evidence, entry["source"])
    return found


def _step(who: str, do: str | dict[str, str]) -> Step:
    """Parse the action. In TOML, a table ``{built-in = "…"}`` describes how the framework's trainer already applies the
    remedy."""
    if isinstance(do, str):
        return Step(who, do)
    return Step(who, f"{do['built-in']}. Only custom code needs this remedy.", built_in=True)


def _advice(path: Path, code: str, entry: Mapping[str, Any], known: Mapping[str, Remedy]) -> Advice:
    def named(key: str) -> tuple[Remedy, ...]:
        ids = entry.get(key, [])
        if unknown := [name for name in ids if name not in known]:
            raise CheckError(f"{path}: {code}: no remedy {unknown[0]!r} here or in {SHARED.name}")
        return tuple(known[name] for name in ids)

    try:
        rivals = tuple(
            Rival(r["name"], r["why"], r["separated-by"], r.get("ruled-out-by", ""), tuple(r.get("run-types", ())))
            for r in entry.get("rivals", [])
        )
    except KeyError as error:
        raise CheckError(f"{path}: {code}: a rival lacks {error}") from None
    remedies = named("remedies")
    return Advice(remedies, named("probe-remedies") if "probe-remedies" in entry else remedies, rivals)
