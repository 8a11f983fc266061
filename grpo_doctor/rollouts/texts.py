"""Analyses the text of a response: loops, copies of the prompt, refusals, and scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from .words import WORDS, any_word

TAIL, TIMES, LEAST = 40, 4, 200
"""A response of at least `LEAST` characters ends in a loop if its last `TAIL` characters occur in it at least `TIMES`
times. Prose of this length does not repeat forty characters four times."""
_GRAM, _WORDS = 8, 100
"""Number of words per sequence, and minimum number of words in a response at which repeated sequences are counted."""
_MOSTLY = 0.5
"""Share of repeated sequences above which a response repeats itself. The share is below 1 because the passes of a loop
may differ in a number or a word."""
_REFUSAL = any_word(WORDS["refusals"]["words"])
_HINTS: list[str] = WORDS["refusals"]["hints"]
_OPENING = 200
_PIECE, _LOOKED = 60, 600
"""Length of a piece in characters, and number of first characters of a response that are split into pieces. The pieces
are searched for in the prompt."""
_ECHOED = 0.8
_OTHERS = re.compile(r"[\x00-\x7f]+")
_LETTERS = {name: re.compile(f"[{blocks}]") for name, blocks in WORDS["scripts"].items()}
_LATIN = re.compile(r"[\u00c0-\u024f\u1e00-\u1eff]")
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())


def repeats(text: str) -> bool:
    """Return whether a response ends in a loop, or consists mostly of repeated word sequences."""
    if len(text) < LEAST:
        return False
    if text.count(text[-TAIL:]) >= TIMES:
        return True
    words = text.split()
    if len(words) < _WORDS or len(set(words)) - _GRAM > (1 - _MOSTLY) * len(words):
        return False  # each distinct word ends a distinct sequence
    grams = list(zip(*(words[shift:] for shift in range(_GRAM)), strict=False))
    return len(set(grams)) < (1 - _MOSTLY) * len(grams)


def echoes(text: str, prompt: str) -> bool:
    """Return whether a response begins with text copied from its prompt. A short response must be a copy of the whole
    prompt."""
    text = text.strip()[:_LOOKED]
    if len(text) < _PIECE:
        return bool(text) and text == prompt.strip()
    pieces = [text[place : place + _PIECE] for place in range(0, len(text) - _PIECE + 1, _PIECE)]
    return sum(piece in prompt for piece in pieces) >= _ECHOED * len(pieces)


def refuses(text: str) -> bool:
    """Return whether a response begins with a refusal or an apology."""
    opening = text[:_OPENING].lower()
    return any(hint in opening for hint in _HINTS) and _REFUSAL.search(opening) is not None


@lru_cache(256)
def scripts(text: str) -> Mapping[str, int]:
    """Count the letters of a text by script."""
    plain = len(text.encode("ascii", "ignore").translate(None, _NO_LETTERS))
    if text.isascii():
        return {"latin": plain}
    others = _OTHERS.sub("", text)
    found = {name: len(letters.findall(others)) for name, letters in _LETTERS.items()}
    return found | {"latin": plain + len(_LATIN.findall(others))}


OWN = 0.1
"""Share of the prompts' letters at or above which a script counts as a script of the prompts."""


def foreign(written: Mapping[str, int], asked: Mapping[str, int]) -> float:
    """Return the share of letters in scripts that the prompts do not use; NaN without letters."""
    letters, own = sum(written.values()), OWN * sum(asked.values())
    if not letters or not own:
        return float("nan")
    return sum(n for name, n in written.items() if asked.get(name, 0) < own) / letters
