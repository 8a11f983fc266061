"""Loads the tables of words and names that are needed to read rollouts."""

from __future__ import annotations

import csv
import re
import tomllib
from importlib.resources import files

_FOLDER = files(__package__)
WORDS = tomllib.loads((_FOLDER / "words.toml").read_text("utf-8"))


def _names() -> dict[str, tuple[str, ...]]:
    """Map fields to their names in rollouts, the most reliable first."""
    found: dict[str, tuple[str, ...]] = {}
    for row in csv.DictReader((_FOLDER / "names.csv").read_text("utf-8").splitlines()):
        found[row["field"]] = (*found.get(row["field"], ()), row["name"])
    return found


NAMES = _names()
FINISHES = {word: kind for kind, words in WORDS["finish"].items() for word in words}
SIGNS: dict[str, list[str]] = WORDS["signs"]
"""Signs of a response by name, with the codes of the checks whose findings the sign supports."""


def any_word(words: list[str]) -> re.Pattern[str]:
    """Compile a pattern for any of these words."""
    return re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)
