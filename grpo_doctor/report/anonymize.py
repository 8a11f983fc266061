"""Anonymises a log: keeps keys, numbers and line breaks, and replaces words and secrets."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable

from ..readers.aliases import resolve
from .redaction import invisible_removed, redact

WORD = "w"
"""Replacement for a word of the log."""

KEPT = frozenset(
    "nan inf infinity true false none null step steps epoch epochs iter iteration info warning error debug rank "
    "train training eval validation test metrics traceback e".split()
)
"""Words that the log readers need and that do not identify anyone."""

_TOKEN = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[^\W\d_][\w./@+-]{0,512}|\d[\w.+-]{0,512}")
_KEY_ENDS = re.compile(r"['\"]?\s{0,8}[:=]")
_OF_A_NUMBER = re.compile(
    r"['\"]?\s{0,8}[:=]\s{0,8}['\"]?(?:[-+]?\.?\d[\d.,]*(?:[eE][-+]?\d+)?%?(?![\w:])|[-+]?(?:nan|inf|none|null|true|false)\b|[\[{(]|(?:tensor|array|np\.float\d{1,3})\()",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?%?")
_METRIC = re.compile(r"[^\W\d_][\w./+-]{0,80}")


def shared(text: str) -> str:
    """Replace every word that is neither a key nor a number, line by line, so that readers still accept the log.

    A key is a word that names a metric, or a key of JSON or of a Python mapping. A word that is followed by ``:`` or
    ``=`` and a number is also a key if it occurs on several lines, or if its line contains another such word. All other
    words are replaced.
    """
    lines = invisible_removed(redact(text)).splitlines(keepends=True)
    often = Counter(name for line in lines for name in set(_of_numbers(line)))
    return "".join(_line(line, often) for line in lines)


def _of_numbers(line: str) -> list[str]:
    """Return the words of a line that are followed by ``:`` or ``=`` and a number, outside quotes."""
    return [found[0] for found in _TOKEN.finditer(line) if _METRIC.fullmatch(found[0]) and _bare_key(line, found)]


def _bare_key(line: str, found: re.Match[str]) -> bool:
    return line[found.end() : found.end() + 1] not in ("'", '"') and _OF_A_NUMBER.match(line, found.end()) is not None


def _line(line: str, often: Counter[str]) -> str:
    numbered, quoted = _of_numbers(line), _quoted_keys(line)

    def kept(found: re.Match[str]) -> str:
        token = found[0]
        if token.startswith("\x1b"):
            return ""
        if token[0].isdigit():
            return token if _NUMBER.fullmatch(token) else re.sub(r"[^\W\d_]+", WORD, token)
        of_a_path = line[max(0, found.start() - 1) : found.start()] in ("/", "\\", "~", "@")
        if of_a_path or not (token.lower() in KEPT or resolve(token) or _is_key(found)):
            return token if token.lower() in KEPT else WORD
        return token

    def _is_key(found: re.Match[str]) -> bool:
        token = found[0]
        if not (_METRIC.fullmatch(token) and _KEY_ENDS.match(line, found.end())):
            return False
        if line[found.end()] in ("'", '"'):
            return line[: found.start()].endswith(line[found.end()]) and quoted(token, found.start())
        return token in numbered and (often[token] > 1 or len(set(numbered)) > 1)

    return _TOKEN.sub(kept, line)


def _quoted_keys(line: str) -> Callable[[str, int], bool]:
    """Return a function that decides whether a quoted word is a key of a mapping. In valid JSON, the parsed keys
    decide. Otherwise, a word counts as a key if no backslash precedes it."""
    keys: set[str] = set()

    def note(pairs: list[tuple[str, object]]) -> None:
        keys.update(name for name, _ in pairs)

    try:
        json.loads(line, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return lambda _, start: line[start - 2 : start - 1] != "\\"
    return lambda name, _: name in keys
