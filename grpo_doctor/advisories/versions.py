"""Versions of packages that are installed, or that a log prints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata

from .database import names

_BANNERS = (
    ("vllm", r"(?:vLLM (?:API server )?version|Initializing (?:a|an) (?:V\d )?LLM engine \(v|vLLM[:=] ?v?)[ :]*v?"),
    ("unsloth", r"Unsloth[: ]+v?(?=20\d\d\.)"),
    ("trl", r"(?:\bTRL(?: version)?[:=]? ?v?|\"?trl_version\"?[:=] ?[\"']?)"),
)
"""What trainers and engines print before their version."""
_NUMBER = r"(\d{1,4}(?:\.\d{1,4}){1,3}(?:\.?post\d{1,3})?)(?![\w.]*(?:dev|rc|\+git))\b"


def installed(packages: Iterable[str] | None = None) -> dict[str, str]:
    """The versions of these packages, or of all that have advisories, in the environment that runs this."""
    found = {}
    for name in names() if packages is None else packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def stated(lines: Iterable[str]) -> dict[str, str]:
    """The versions that lines of a log print, as ``name==1.2.3`` or in a known banner; none that differ."""
    patterns = _patterns()
    found: dict[str, set[str]] = {}
    for line in lines:
        for name, pattern in patterns:
            if (said := pattern.search(line[:2_000])) is not None:
                found.setdefault(name, set()).add(said[1])
    return {name: next(iter(versions)) for name, versions in found.items() if len(versions) == 1}


def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    spelt = [(name, rf"(?<![\w\-.]){re.escape(name)} ?(?:==|@ ?v) ?") for name in names()]
    return [(name, re.compile(before + _NUMBER)) for name, before in (*spelt, *_BANNERS)]
