"""A sample of the public logs that shows whatever any of them shows: each format, column, verdict, cause and finding.

The suite takes the sample; with ``GRPO_DOCTOR_EVERY_LOG=1`` it takes all logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from .__main__ import stored

FACT = re.compile(
    r"^ run (?P<form>.+) rows|^  = (?P<column>\S+)|^ (?P<verdict>[a-z]+ \S+ \S+) (?:\d|None)"
    r"|^  (?P<finding>[A-Z]+\d+ \w+) \w+ (?P<state>\w+)|^ (?P<unreadable>unreadable.*)",
    re.MULTILINE,
)
ROWS = re.compile(r"^ run .* rows (\d+) ", re.MULTILINE)
BASE = 100
"""Rows whose diagnosis takes about as long as opening a log."""
LOGS = stored("logs")


def sampled(names: Iterable[str], most: int | None = None) -> list[str]:
    """Return few of these logs that together show what all of them show, by their snapshots, or the first of these: they
    show most in the least time."""
    facts = {name: {found.groups() for found in FACT.finditer(LOGS[name])} for name in names}
    if os.environ.get("GRPO_DOCTOR_EVERY_LOG"):
        return list(facts)
    costs = {name: BASE + sum(map(int, ROWS.findall(LOGS[name]))) for name in facts}
    chosen: list[str] = []
    left = set().union(*facts.values())
    while left and len(chosen) != most:
        best = max(facts, key=lambda name: len(facts[name] & left) / costs[name])
        chosen.append(best)
        left -= facts[best]
    return chosen
