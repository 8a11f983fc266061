"""Recognises how a log ends: out of memory, killed, time limit, collective timeout, exception, or finished."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple, cast

from ..record import Event
from ..run import Ending, EndKind, Run


class _Sign(NamedTuple):
    kind: EndKind
    what: str
    words: re.Pattern[str]


def _signs() -> tuple[_Sign, ...]:
    lines = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return tuple(_Sign(cast(EndKind, kind), what, re.compile(words)) for kind, what, words in rows)


_SIGNS = _signs()
"""Patterns for endings, the most certain first."""
_ANY = re.compile("|".join(f"(?:{sign.words.pattern.removeprefix('(?i)')})" for sign in _SIGNS), re.IGNORECASE)
_RAISED = re.compile(
    r"^(?:\([\w ,=.-]{1,80}\) )?(?:\[rank\d+\]: ?)?((?:\w{1,60}\.){0,9}\w{0,60}(?:Error|Exception)(?:: .*)?)$"
)
"""The line of a traceback that names the exception."""
_SURVIVED = re.compile(r"Exception (?:in thread|ignored in)\b|--- Logging error ---")
"""Text before a traceback of an exception that does not end the Python process."""
_LAUNCHERS = re.compile(r"ChildFailedError|CalledProcessError|RayTaskError|\bCaught \w{1,60} in ")
"""Exceptions that do not name the cause, because a process or thread raises them when its child fails. PyTorch raises
the exception of a worker or replica again, with the original traceback as the message."""
_DIGITS = re.compile(r"\d+")
_LONGEST = 400
"""Number of characters at the start of a line that are searched."""
_MOST_SAID = 160
"""Maximum number of characters of an exception message in reports."""
_POSSIBLE = re.compile(r"\b(?:potential|possible) (?:root )?causes\b")
"""Words after which Ray lists signals and memory as possible causes, regardless of the actual cause."""
_FRAME = re.compile(r'\s*File "(?:[^"]*/)?([^"/]{1,80})", line (\d{1,7}), in (<?\w{1,80}>?)')
"""The line of a traceback that names a function. The last line that names a function before an exception shows where
the exception was raised."""
_REPEATED = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b\W{0,3}(.+)")
"""A logged error, which counts as the ending if it is repeated until the end of the log."""
_OFTEN = 3
"""Minimum number of repetitions of a logged error that counts as the ending."""
TAIL = 2000
"""Number of lines at the end of a log that are searched for an ending. Earlier errors did not end the run."""


def conclude(run: Run, end: Ending | None) -> None:
    """Record how the log of a run ends, as a note and as an event of the last row. If training finished before, a
    ``finished`` event comes first."""
    run.ending = end
    if end is None or end.kind == "finished":
        return
    holds = "the rows before it are not affected" if len(run) else "no metric was read before it"
    run.notes.insert(0, f"the log ends with {end.described}; {holds}")
    if len(run):
        finished = [Event(kind="finished", line=end.line)] if end.after_training else []
        ended = Event(kind=end.kind, message=end.described, line=end.line)
        run.events.setdefault(len(run) - 1, []).extend([*finished, ended])


def ending(lines: Iterable[tuple[int, str]], last_row: int) -> Ending | None:
    """Return the most certain ending after the last row of metrics, or None if there is no ending.

    Args:
        lines: the last lines of the log with their numbers, at most `TAIL`.
        last_row: line number of the last row of metrics.
    """
    found: dict[_Sign, int] = {}
    errors: dict[int, str] = {}
    logged: dict[str, list[tuple[int, str]]] = defaultdict(list)
    frame, line, survived = "", 0, False
    for line, text in lines:
        if line <= last_row:
            continue
        if _SURVIVED.match(text):
            survived = True
            continue
        if survived:  # a traceback is skipped up to the line that names the exception
            survived = text.startswith((" ", "\t", "Traceback "))
            continue
        text = _POSSIBLE.split(text, maxsplit=1)[0]
        if _ANY.search(text, 0, _LONGEST):
            for sign in _SIGNS:
                if sign not in found and sign.words.search(text, 0, _LONGEST):
                    found[sign] = line
        if at := _FRAME.search(text, 0, _LONGEST):
            frame = f", in {at[3]} ({at[1]}, line {at[2]})"
        elif (found or not last_row) and (error := _RAISED.match(text[:_LONGEST])):
            errors[line], frame = f"{_shortened(error[1]).rstrip(' :')}{frame}", ""
        elif error := _REPEATED.search(text, 0, _LONGEST):
            logged[_DIGITS.sub("", error[1])].append((line, _shortened(error[1])))
    if not found:
        return _unsigned(errors, logged, line)
    surest = min(found, key=_SIGNS.index)
    by_hand = surest.kind == "interrupted"  # an interrupt causes the exceptions after it
    after = [error for line, error in errors.items() if line >= found[surest] and not by_hand]
    raised = next((error for error in after if not _LAUNCHERS.search(error)), after[0] if after else "")
    late = any(sign.kind == "finished" and line < found[surest] for sign, line in found.items())
    return Ending(kind=surest.kind, what=surest.what, line=found[surest], raised=raised, after_training=late)


def _unsigned(errors: Mapping[int, str], logged: Mapping[str, list[tuple[int, str]]], last: int) -> Ending | None:
    """Return the ending of a log without a known sign of its ending: a logged error that is repeated until the last
    line. In a log without metrics, an exception without its traceback also counts."""
    often = max(logged.values(), key=len, default=[])
    if len(often) >= _OFTEN and often[-1][0] == last:
        line, raised = often[0]
        return Ending(kind="exception", what="a repeated error", line=line, raised=raised)
    line, raised = max(errors.items(), default=(0, ""))
    return Ending(kind="exception", what="an exception", line=line, raised=raised) if ": " in raised else None


def _shortened(message: str) -> str:
    return shorten(message, _MOST_SAID, placeholder="…").rstrip(" .:")
