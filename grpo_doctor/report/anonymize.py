"""A log made safe to share: its keys, numbers and lines stay, its words and secrets go."""

from __future__ import annotations

import re

from ..readers.aliases import resolve
from .redaction import redact

WORD = "w"
"""What stands where a word of the log stood."""

KEPT = frozenset(
    "nan inf infinity true false none null step steps epoch epochs iter iteration info warning error debug rank "
    "train training eval validation test metrics traceback e".split()
)
"""Words without which a log can no longer be read; none of them says anything about anyone."""

_TOKEN = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[^\W\d_][\w./@+-]{0,512}|\d[\w.+-]{0,512}")
_KEY_ENDS = re.compile(r"['\"]?\s{0,8}[:=]")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?%?")
_METRIC = re.compile(r"[^\W\d_][\w./+-]{0,80}")


def shared(text: str) -> str:
    """The text with every word that is neither a key nor a number replaced; line for line, so that it still reads.

    A key is a word before ``:`` or ``=``, or one that names a metric; what a key says in words is replaced too.
    """
    return "".join(_line(line) for line in redact(text).splitlines(keepends=True))


def _line(line: str) -> str:
    def kept(found: re.Match[str]) -> str:
        token = found[0]
        if token.startswith("\x1b"):
            return ""
        if token[0].isdigit():
            return token if _NUMBER.fullmatch(token) else re.sub(r"[^\W\d_]+", WORD, token)
        of_a_path = line[max(0, found.start() - 1) : found.start()] in ("/", "\\", "~", "@")
        is_key = _METRIC.fullmatch(token) and not of_a_path and _KEY_ENDS.match(line, found.end())
        return token if is_key or token.lower() in KEPT or (not of_a_path and resolve(token)) else WORD

    return _TOKEN.sub(kept, line)
