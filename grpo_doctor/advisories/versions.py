"""Finds versions of packages: installed versions, and versions that a log prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from .database import names

LIBRARIES = frozenset({"peft", "vllm"})
"""Packages that are not trainers; their advisories apply to every trainer that uses them."""
BUILT_ON = {"unsloth": ("trl",), "axolotl": ("trl",)}
"""Trainers that use the trainer of another package."""
_BANNERS = (
    ("vllm", r"(?:vLLM (?:API server )?version|Initializing (?:a|an) (?:V\d )?LLM engine \(v|vLLM[:=] ?v?)[ :]*v?"),
    ("unsloth", r"Unsloth[: ]+v?(?=20\d\d\.)"),
    ("trl", r"(?:\bTRL(?: version)?[:=]? ?v?|\"?trl_version\"?[:=] ?[\"']?)"),
)
"""Texts that trainers and rollout engines print before their version."""
_HINT = re.compile(r"==\s?\d|@ ?v\d|LLM engine|[vV]ersion|Unsloth|vLLM|TRL|^\s*[-*] ")
"""Pattern that every line with a version matches. Most lines of a log do not match it."""
LONGEST = 2_000
"""Number of characters at the start of a line that are searched for a version."""
_NUMBER = r"(\d{1,4}(?:\.\d{1,4}){1,3}(?:\.?post\d{1,3})?)(?![\w.]*(?:dev|rc|\+git))\b"


def installed(packages: Iterable[str] | None = None) -> dict[str, str]:
    """Return the installed versions of these packages, or of all packages with advisories."""
    from importlib import metadata

    found = {}
    for name in names() if packages is None else packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def stated(lines: Iterable[str]) -> dict[str, str]:
    """Return the versions that lines of a log print, as ``name==1.2.3`` or in a known banner. Packages with
    contradictory versions are omitted."""
    found: dict[str, set[str]] = {}
    for line in lines:
        if _HINT.search(line) is None:
            continue
        for name, pattern in _patterns():
            if (said := pattern.search(line[:LONGEST])) is not None:
                found.setdefault(name, set()).add(said[1])
    return {name: next(iter(versions)) for name, versions in found.items() if len(versions) == 1}


def applicable(versions: Mapping[str, str], framework: str | None) -> dict[str, str]:
    """Return the versions that affect a framework: its own version, the versions of libraries, and the versions of
    trainers that it builds on or that build on it.

    If the framework is unknown, the version of a trainer is included only if the log names exactly one trainer.
    """
    stated = versions.keys() & (names() - LIBRARIES)
    used = {framework} if framework else stated if len(stated) == 1 else set()
    used = {name for name in stated if used & {name, *BUILT_ON.get(name, ())}} | used
    used |= {base for name in used for base in BUILT_ON.get(name or "", ())}
    return {name: version for name, version in versions.items() if name in LIBRARIES or name in used}


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    spelt = [(name, rf"(?<![\w\-.]){re.escape(name)} ?(?:==|@ ?v) ?") for name in names()]
    listed = [(name, rf"^\s*[-*] `?{re.escape(name)}`?: v?") for name in names()]  # the form that issue forms request
    return [(name, re.compile(before + _NUMBER)) for name, before in (*spelt, *listed, *_BANNERS)]
