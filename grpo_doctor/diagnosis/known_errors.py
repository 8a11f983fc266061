"""Explains exceptions with a known cause, using the table ``known_errors.toml``."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..run import Ending


class KnownError(NamedTuple):
    """The cause of an exception and the next step, each as a sentence."""

    cause: str
    do: str


@cache
def _table() -> tuple[tuple[re.Pattern[str], KnownError], ...]:
    rows = tomllib.loads(Path(__file__).with_name("known_errors.toml").read_text("utf-8"))["error"]
    return tuple((re.compile(row["words"]), KnownError(row["cause"], row["do"])) for row in rows)


def known_error(ending: Ending | None) -> KnownError | None:
    """Return the explanation of the exception that ended a log, or None if it is not in the table."""
    for words, error in _table():
        if found := words.search(ending.raised if ending is not None else ""):
            return KnownError(*(sentence.format(**found.groupdict()) for sentence in error))
    return None
