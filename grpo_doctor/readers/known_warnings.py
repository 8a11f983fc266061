"""Recognises warnings and repeated error messages in console logs of any format."""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from textwrap import shorten

from ..run import RepeatedError, Run

WARNINGS = (
    "incompatible with gradient checkpointing",
    "None of the inputs have requires_grad=True",
    "probability tensor contains either",
    "Inconsistent training and inference tokenization",
    "KL divergence is starting to become negative",
    "Gradient checkpointing enabled",
    "gradient checkpointing enabled",
    "梯度检查点已启用",
)
_WARNED = re.compile("|".join(map(re.escape, WARNINGS)))
_SENTENCES = (
    (re.compile(r"KL divergence is starting to become negative: (-?\d[\d.e+-]{0,20})"), "objective/kl"),
    (re.compile(r"The average ratio of batch \((\d[\d.e+-]{0,20})\) exceeds threshold"), "policy/ratio"),
)
"""Warnings of TRL's PPO that contain a metric, with the key of the metric."""
_REFUSED = re.compile(r"WARN: (?:rank 0 )?grad_norm is not finite: (-?(?:inf|nan))\b")
"""verl's warning about a skipped update, which every rank prints."""
_SKIPS = re.compile(r"\bskip(?:s|ped|ping) (?:the |this |an |optimizer )?(?:update|batch|step)s?\b", re.IGNORECASE)
_OFTEN = 3
"""Minimum number of skipped updates or batches to report; a loss scale that starts too high skips a few."""
LONGEST = 300
ERRORS = (b"rror", b"ailed", b"kipp")
"""Parts of the words for an error or a skipped update, by which lines are searched before the pattern is tried."""
_TOTAL = re.compile(r"\bstep=(\d{1,9}), skipped=(\d{1,9})\b")
"""DeepSpeed's number of updates so far, and how many of them were skipped because their gradient was not finite."""
_MOSTLY = 0.5
"""Minimum share of skipped updates that is reported like an error; with loss scaling, a few are normal."""
_ERROR = re.compile(r"\b(?:ERROR|FAILED|[A-Z]\w{0,60}(?:Error|Exception)(?=:)|[Ff]ailed|[Ee]rror|refused)\b")
_COUNTED = re.compile(
    r"\d[.,%]?\s(?:failed|errors?)\b|\b(?:failed|errors?)['\"]?\s?[:=]\s?(?:[-+]?\d|null\b|[Nn]one\b|nan\b|false\b|False\b)"
)
"""Matches a number of errors, or an empty field for an error."""
_PYTHON = re.compile(r"\b[A-Z]\w{0,60}Warning:|\bTraceback \(most recent call last\)")
"""Matches a warning of Python's ``warnings`` module, which may describe an error that did not occur, or the heading of
a traceback, which names no error."""
_VARIES = re.compile(r"\d+(?:\.\d+)?|'[^']{0,200}'")
_LEAD = re.compile(r"(?:\([^()]{1,120}pid=[^()]{1,60}\)\s*)?(?:.{0,80}?\b(?:ERROR|WARNING|CRITICAL)\b[\W\d]*)?")
"""Matches the text that a logger prints before a message: the process, the time, and the level."""
_SHOWN, _MOST, _KEPT = 150, 10_000, 1000
"""`_SHOWN`: maximum number of characters of an error message in a report. `_MOST`: maximum number of messages; lines
with further messages are not counted. `_KEPT`: maximum number of lines of a message whose text is kept."""
_REPEATED = 10
"""Minimum number of lines with the same error message. A few failed calls are normal in a run with thousands of
calls."""


def sign(text: str) -> str | None:
    """Return the line as the message of a ``log-warning`` event, or None if it contains no known warning."""
    return text.strip()[:LONGEST] if _WARNED.search(text) else None


def refused(text: str) -> dict[str, str]:
    """Return the gradient norm in verl's warning about a skipped update; an empty dictionary for other lines."""
    found = _REFUSED.search(text)
    return {"actor/grad_norm": found[1]} if found is not None else {}


def metric(text: str) -> dict[str, str]:
    """Return the metric in a warning of TRL's PPO; an empty dictionary for other lines."""
    for sentence, key in _SENTENCES:
        if told := sentence.search(text):
            return {key: told[1]}
    return {}


def skipped(lines: Sequence[str]) -> list[str]:
    """Return a note on the lines that report a skipped update, batch or step; empty if there are few such lines."""
    found = [text.strip() for text in lines if "kip" in text and _SKIPS.search(text, 0, LONGEST)]
    if len(found) < _OFTEN:
        return []
    of = f"{len(found)} of the last {len(lines)} lines report"
    return [f"{of} skipped updates, batches or steps; the first of them is {found[0][:LONGEST]!r}"]


class Errors:
    """The error messages of a console log, with the lines that report them. An error is recognised by English words,
    such as "failed", and by the names of exceptions."""

    def __init__(self) -> None:
        self._lines: dict[str, array[int]] = {}
        self._texts: dict[str, list[tuple[int, str]]] = {}
        self._skips: set[str] = set()

    def see(self, line: int, text: str) -> None:
        """Count a line if it reports an error."""
        text = text.strip()[:LONGEST]
        if not (lost := _loses_an_update(text)) and (
            not _ERROR.search(text) or _COUNTED.search(text) or _PYTHON.search(text)
        ):
            return
        text = lost or _LEAD.sub("", text, count=1)
        same = _VARIES.sub("#", text)
        if lost:
            self._skips.add(same)
        if same in self._texts or len(self._texts) < _MOST:
            self._lines.setdefault(same, array("q")).append(line)
            if len(texts := self._texts.setdefault(same, [])) < _KEPT:
                texts.append((line, text))

    def conclude(self, runs: Sequence[Run]) -> None:
        """Set the most frequent error message of each run, from the lines up to the start of the next run."""
        ordered = sorted(runs, key=lambda run: int(run.lines[0]) if len(run) else 0)
        starts = [0, *(int(run.lines[0]) for run in ordered[1:])]
        for run, start, stop in zip(ordered, starts, [*starts[1:], sys.maxsize], strict=True):
            counts = {same: bisect_left(at, stop) - bisect_left(at, start) for same, at in self._lines.items()}
            for same in self._skips:
                if counts[same] < _MOSTLY * len(run):
                    del counts[same]
            often = max(counts, key=counts.__getitem__, default="")
            if counts and counts[often] >= _REPEATED:
                texts = self._texts[often]
                own = next((text for line, text in texts if line >= start), texts[0][1])
                said = shorten(own, _SHOWN, placeholder="…").rstrip(" .:")
                run.repeated_error = RepeatedError(lines=counts[often], text=said, skips=often in self._skips)


def _loses_an_update(text: str) -> str:
    """Return the part of a line that reports a skipped update, or that most updates so far were skipped; an empty
    string for other lines."""
    if total := _TOTAL.search(text):
        return total[0] if int(total[2]) >= _MOSTLY * int(total[1]) > 0 else ""
    return text.rpartition("Warning: ")[2] if _SKIPS.search(text) else ""
