"""Turns a condition into an alarm. The alarm fires after some rows on which the condition is true, and clears after
some rows on which it is false. Short pauses are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
from msgspec import Struct

from .check import Severity

RECENT = 0.1
"""Share of rows at the end of the run within which a cleared alarm still counts as active."""


class Episode(Struct):
    """The range of rows from the first to the last row on which a condition was true."""

    onset_row: int
    onset_step: int
    detected_step: int
    last_row: int
    last_step: int
    evidence: dict[str, Any] = {}
    confidence: Any = None
    suffered: Any = None

    @property
    def rows(self) -> int:
        return self.last_row - self.onset_row + 1

    def backdate(self, onset: Any) -> None:
        """Move the onset to this step, if the step is known."""
        if onset is not None and onset == onset:
            self.onset_step = int(onset)


class Alarm(Struct):
    """The alarm of one severity of a check. It fires after its hold, clears after ``clear`` rows on which its condition
    is false, and keeps the main episode.

    Attributes:
        hold: ``(m, n)``: the condition must be true on m of the last n rows.
    """

    level: Severity
    hold: tuple[int, int]
    clear: int
    recent: tuple[tuple[int, int, int], ...] = ()
    quiet: int = 0
    active: bool = False
    episode: Episode | None = None
    longest: Episode | None = None
    episodes: int = 0

    def copy(self) -> Alarm:
        """Return an independent copy."""
        other = copy(self)
        other.episode = copy(self.episode)
        return other

    @property
    def calm(self) -> bool:
        """Whether the alarm neither fires nor stores a row on which its condition was true. A row on which the
        condition is false then changes nothing."""
        return not (self.active or self.recent)

    def push(self, flag: bool, at: int, row: int, step: int) -> bool:
        """Process one row (the check's ``at``-th and the run's ``row``-th); return whether the alarm started to
        fire."""
        self._remember(flag, at, row, step)
        if self.active and self.episode is not None:
            if flag:
                self.quiet, self.episode.last_row, self.episode.last_step = 0, row, step
            else:
                self.quiet += 1
                self.active = self.quiet < self.clear
            return False
        if flag and len(self.recent) >= self.hold[0]:
            self._ring(row, step)
            return True
        return False

    def _remember(self, flag: bool, at: int, row: int, step: int) -> None:
        """Keep the recent rows on which the condition was true."""
        recent = self.recent
        while recent and recent[0][0] <= at - self.hold[1]:
            recent = recent[1:]
        self.recent = (*recent, (at, row, step)) if flag else recent

    def _ring(self, row: int, step: int) -> None:
        self.active, self.quiet = True, 0
        _, onset_row, onset_step = self.recent[0]
        before = self.episode
        if before is not None and onset_row - before.last_row <= max(2 * self.clear, before.rows):
            before.last_row, before.last_step = row, step  # the same episode after a short pause
            return
        if before is not None and (self.longest is None or before.rows > self.longest.rows):
            self.longest = before
        self.episode = Episode(onset_row, onset_step, step, row, step)
        self.episodes += 1

    def block(self, flags: np.ndarray, at: int, rows: np.ndarray, steps: np.ndarray) -> Iterator[int]:
        """Process many rows, starting at the check's ``at``-th; yield each position at which the episode's last row
        changed."""
        i, n = 0, len(flags)
        while i < n:
            if self.active and self.episode is not None and not self.quiet and flags[i]:
                run = int(np.argmin(flags[i:])) or n - i
                self.episode.last_row, self.episode.last_step = int(rows[i + run - 1]), int(steps[i + run - 1])
                for k in range(max(i, i + run - self.hold[1]), i + run):
                    self._remember(True, at + k, int(rows[k]), int(steps[k]))
                i += run
                yield i - 1
            elif not self.active and not self.recent and not flags[i]:
                i += int(np.argmax(flags[i:])) or n - i
            else:
                flag = bool(flags[i])
                self.push(flag, at + i, int(rows[i]), int(steps[i]))
                if flag and self.active:
                    yield i
                i += 1

    @property
    def main(self) -> Episode | None:
        """The active episode or, if none is active, the longest episode."""
        if self.active or self.longest is None or self.episode is None:
            return self.episode
        return max(self.episode, self.longest, key=lambda e: e.rows)
