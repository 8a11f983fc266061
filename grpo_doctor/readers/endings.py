"""How a log ends: a traceback, a GPU out of memory, a kill, an interrupt, a worker's death, a time-out, or plainly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..record import Event

_WORDS = {
    "a numerical failure": r"probability tensor contains either|FloatingPointError|\b(?:loss|grad(?:ient)?[_ ]norm) is "
    r"(?:nan|inf|not finite)\b",
    "a GPU out of memory": r"OutOfMemoryError|(?:CUDA|HIP|NPU) out of memory",
    "memory of the machine used up": r"\boom[-_ ]kill|Out of memory: Killed|exit(?:ed with)? code 137|MemoryError",
    "an interrupt": r"KeyboardInterrupt|\bSIGINT\b|Interrupted by user",
    "a hang of a collective operation": r"collective operation timeout|NCCL.{0,40}timeout",
    "a time-out": r"TimeoutError\b",
    "a time limit": r"DUE TO TIME LIMIT",
    "a kill from outside": r"\bSIGKILL\b|\bSIGTERM\b|(?:Received|got) signal:? \d|^Killed$|CANCELLED AT",
    "the death of a worker": r"ActorDiedError|WorkerCrashedError|RayActorError|ChildFailedError|EngineDeadError",
    "a traceback": r"^(?:\([\w ,=.-]{1,80}\) )?(?:\[rank\d+\]: ?)?Traceback \(most recent call last\)",
}
"""Signs of an end, the surest first."""
_SIGNS = {what: re.compile(words) for what, words in _WORDS.items()}
_RAISED = re.compile(
    r"^(?:\([\w ,=.-]{1,80}\) )?(?:\[rank\d+\]: ?)?((?:\w{1,60}\.){0,9}\w{0,60}(?:Error|Exception)(?:: .*)?)$"
)
"""The line of a traceback that names the exception."""
_LONGEST = 400
_MOST_SAID = 160
"""Characters of an exception's own words that are told."""
TAIL = 400
"""Lines from the end of a log in which it ends; what stands further up was survived."""


class Ending(NamedTuple):
    """What a log ends in, the line, and the exception that it names behind it."""

    what: str
    line: int
    raised: str = ""

    @property
    def event(self) -> Event:
        """The end as an event, its line in the message."""
        raised = f": {self.raised.rstrip(' .:')}" if self.raised else ""
        return Event(kind="end", message=f"{self.what} (line {self.line}){raised}", line=self.line)

    def words(self, rows: int) -> str:
        """One line; without a row of metrics before it there is nothing that it could hold up to."""
        holds = "what is told holds up to there" if rows else "it ended before the first metric"
        return f"the log ends in {self.what} (line {self.line}): {f'{self.raised}; ' if self.raised else ''}{holds}"


def ending(lines: Iterable[tuple[int, str]], last_row: int) -> Ending | None:
    """The surest sign of an end behind the last row of metrics, the first where there are several; None for none.

    Args:
        lines: the last lines of the log with their numbers, at most `TAIL`.
        last_row: line of the last row of metrics.
    """
    found: dict[str, int] = {}
    raised = ""
    for line, text in lines:
        if line > last_row and len(text) <= _LONGEST:
            for what, sign in _SIGNS.items():
                if sign.search(text):
                    found.setdefault(what, line)
            if found and (error := _RAISED.match(text)):
                raised = error[1][:_MOST_SAID]
    return next((Ending(what, found[what], raised) for what in _SIGNS if what in found), None)
