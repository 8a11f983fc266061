"""Analyses the text of a response: loops, copies of the prompt, refusals, and writing systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from .words import WORDS, any_word

TAIL, TIMES, LEAST = 40, 4, 200
"""A response of at least `LEAST` characters ends in a loop if its last `TAIL` characters occur in it at least `TIMES`
times. Ordinary prose of `LEAST` characters does not contain the same 40 characters four times."""
_GRAM, _WORDS = 8, 100
"""`_GRAM`: number of words per sequence. `_WORDS`: minimum number of words in a response for repeated sequences to be
counted."""
_MOSTLY = 0.5
"""Share of repeated sequences above which a response repeats itself. The limit is below 1 because the repetitions in a
loop may differ in a number or a word."""
_REFUSAL = any_word(WORDS["refusals"]["words"])
_HINTS: list[str] = WORDS["refusals"]["hints"]
_OPENING = 200
_PIECE, _LOOKED = 60, 600
"""`_PIECE`: length of a piece in characters. `_LOOKED`: number of characters at the start of a response that are split
into pieces. The prompt is searched for the pieces."""
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
    """Count the letters of a text by writing system."""
    plain = len(text.encode("ascii", "ignore").translate(None, _NO_LETTERS))
    if text.isascii():
        return {"latin": plain}
    others = _OTHERS.sub("", text)
    found = {name: len(letters.findall(others)) for name, letters in _LETTERS.items()}
    return found | {"latin": plain + len(_LATIN.findall(others))}


OWN = 0.1
"""Minimum share of the prompts' letters at which a writing system counts as used by the prompts."""


def foreign(written: Mapping[str, int], asked: Mapping[str, int]) -> float:
    """Return the share of letters in writing systems that the prompts do not use; NaN without letters."""
    letters, own = sum(written.values()), OWN * sum(asked.values())
    if not letters or not own:
        return float("nan")
    return sum(n for name, n in written.items() if asked.get(name, 0) < own) / letters
