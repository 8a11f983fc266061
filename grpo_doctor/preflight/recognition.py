"""Recognises the framework of a launch by scores for its programs and keys."""

from __future__ import annotations

from typing import NamedTuple

from .custom_names import usual
from .frameworks import HAND_WRITTEN, Framework, frameworks, modules
from .launch import Entry, Launch

LEAST = 1.5
"""Minimum score for a framework to be recognised."""
UNSUPPORTED = 1.5
"""Maximum weight of a program if the launch has no keys of the program's framework. Two keys of another framework then
have more weight than the program."""
SWEPT = ("group_size", "learning_rate")
"""Settings that identify a custom program if they are set with custom flags."""


class Clue(NamedTuple):
    """A piece of evidence: the framework or kind of training that it supports, its weight, and its description."""

    of: str
    weight: float
    words: str


def recognise(launch: Launch) -> tuple[Framework, list[Clue]]:
    """Return the framework with the highest score, and the evidence for all frameworks."""
    passed = launch.entries[: launch.firm]
    heads = {".".join(e.key.split(".")[:n]) for e in passed for n in (1, 2, 3)}
    lasts = {e.key.rsplit(".", 1)[-1] for e in passed}
    script = launch.program.startswith("script") or _of_another_class(launch)
    clues: list[Clue] = []
    best, score = HAND_WRITTEN, 0.0
    for framework in frameworks():
        if launch.program and framework.can("beside_the_weights"):
            continue
        keys = _keys(framework, heads, lasts)
        program = _program(framework, launch, bool(keys))
        found = [*([] if script and program is None else keys), *([program] if program else [])]
        total = sum(clue.weight for clue in found)
        clues += found
        if total >= LEAST and total > score:
            best, score = framework, total
    return best, clues


def _keys(framework: Framework, heads: set[str], lasts: set[str]) -> list[Clue]:
    bare = lasts - framework.sections if framework.flat else set()  # without names of sections
    had = {key: weight for key, weight in framework.evidence.keys.items() if key in heads or key in bare}
    return [Clue(framework.name, weight, f"key {key}") for key, weight in had.items()]


def _of_another_class(launch: Launch) -> bool:
    """Return whether a call has the name of a framework's class, but at least half of its arguments are not fields of
    that class. The script must not import a framework."""
    name, _, imports = launch.program.partition(" ")
    own = [f for f in frameworks() if f.fields and f.starts(name)]
    if not name.endswith("Config") or not own or modules() & set(imports.split()):
        return False
    passed = [e.key for e in launch.entries if "." not in e.key and e.line]
    known = [key for key in passed if any(key in f.fields for f in own)]
    return len(passed) - len(known) >= max(len(known), 1)


def _program(framework: Framework, launch: Launch, supported: bool) -> Clue | None:
    """Return the evidence from the started program. The evidence is weak without keys of the framework, and absent if
    the command passes custom flags."""
    weights = [p.weight for p in framework.evidence.programs if launch.program and p.matches(launch.program)]
    if not weights or _of_another_class(launch):
        return None
    strange = not framework.flat and not supported
    if strange and _own_flags(launch.entries[: launch.firm]):
        return None
    return Clue(framework.name, min(max(weights), UNSUPPORTED) if strange else max(weights), "the program")


def _own_flags(passed: list[Entry]) -> bool:
    """Return whether a command passes custom flags and no nested keys."""
    index = {entry.key: entry for entry in passed}
    return not any("." in key for key in index) and any(usual(key, index) in SWEPT for key in index)
