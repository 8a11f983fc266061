"""The tables of words by which rollouts are read."""

from __future__ import annotations

import csv
import re
import tomllib
from importlib.resources import files

_FOLDER = files(__package__)
WORDS = tomllib.loads((_FOLDER / "words.toml").read_text("utf-8"))


def _names() -> dict[str, tuple[str, ...]]:
    """Field to the names that it has in rollouts, the surest first."""
    found: dict[str, tuple[str, ...]] = {}
    for row in csv.DictReader((_FOLDER / "names.csv").read_text("utf-8").splitlines()):
        found[row["field"]] = (*found.get(row["field"], ()), row["name"])
    return found


NAMES = _names()
FINISHES = {word: kind for kind, words in WORDS["finish"].items() for word in words}
SIGNS: dict[str, list[str]] = WORDS["signs"]
"""What a response may show, and the codes of the checks that it proves."""


def any_word(words: list[str]) -> re.Pattern[str]:
    """A pattern for any of these words."""
    return re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)
