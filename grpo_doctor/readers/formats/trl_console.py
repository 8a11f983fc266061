"""Reads rows that are printed on one line as a Python or JSON mapping: the format of TRL, Transformers, slime and
accelerate."""

from __future__ import annotations

import re
from typing import Any

from ...run import Run
from ..aliases import is_step, resolve, words
from ..values import loaded, number
from .pairs import pairs

FORMAT = "trl-console"

_BAR_BEHIND = re.compile(r"(?<=\})\s*\d+%\|[^{}]*$")
_BAR = re.compile(r"\|\s*(\d{1,12})/(\d{1,12}) \[")
TRAINED = re.compile(r"\bTrainOutput\(global_step=(\d{1,12}),")
"""The result of Transformers' ``train``, which contains the number of steps."""
_CUT = "-truncated_ratio"
_FLAT = re.compile(r"\{['\"][^{}]*\}")
_OF_FORM = frozenset("valid_rate success_rate truncated_rate response_length_mean".split())
"""Fields whose names are also names of reward components, such as ``format``, ``correct`` and ``length``."""
_MOST_FOREIGN = 4
"""Number of keys per known field up to which a mapping with only fields of `_OF_FORM` is a row of metrics."""
_BARE = re.compile(rb"%(?<=\d%)(?= +\d{1,12}/\d{1,12} \[)")
"""The place of a progress bar of width 0, as in ``19% 58/300 [21:38<…]``."""


def unfilled(raw: bytes) -> bytes:
    """Remove the fill of progress bars from a line, so that lines of one bar differ only in numbers."""
    before, *bars = raw.split(b"%|")
    if bars:
        return before + b"".join(b"%||" + (bar.partition(b"|")[2] if b"|" in bar else bar) for bar in bars)
    return _BARE.sub(b"%||", raw) if b"% " in raw and b"[" in raw else raw


def mapping(text: str) -> tuple[str, str] | None:
    """Return the mapping at the end of a line, and the text before it; None if there is no mapping."""
    text = (_BAR_BEHIND.sub("", text) if "%|" in text else text).rstrip()
    start = text.find("{")
    if start < 0 or not text.endswith("}") or text[start + 1 : start + 2] not in ("'", '"'):
        return None
    return text[start:], text[max(0, start - 40) : start]


def several(text: str) -> list[str]:
    """Return the rows of a line that contains several mappings of numbers (for example, because line breaks are
    missing), or an empty list."""
    rows = _FLAT.findall(text) if text.count("{") > 1 else []
    return rows if len(rows) > 1 and "{" not in _FLAT.sub("", text) else []


def counted(before: str) -> tuple[float | None, bool]:
    """Return the step in the text before a mapping, or None, and whether the step counts rollouts instead of
    updates."""
    names, values = pairs(before)
    found = next(((name, value) for name, value in zip(names, values, strict=True) if is_step(name)), None)
    return (found[1], "rollout" in words(found[0])) if found else (None, False)


def json(body: str) -> str:
    """Replace the quotes of a Python mapping with the quotes of JSON."""
    return body.replace("'", '"') if body[1] == "'" else body


def row(body: str) -> dict[str, Any] | None:
    """Return the keys and values of a mapping; None if it cannot be a row of metrics."""
    value = loaded(json(body))
    if not isinstance(value, dict):
        value = _loose(body)
    return None if len(value) < 2 else _scored(value)


def tells(row: dict[str, Any]) -> bool:
    """Return whether a mapping is a row of metrics, not the reward components of one response.

    The reward components of a response may have one or two known names, but no loss, gradient or total reward.
    """
    known = _fields(row)
    return bool(known - _OF_FORM) or _MOST_FOREIGN * len(known) >= len(row)


def updates(row: dict[str, Any]) -> bool:
    """Return whether a row contains metrics of an update or an evaluation, or keys of training, and not only the
    rewards of one response."""
    return bool(_fields(row) - _OF_FORM - {"reward_mean"}) or any(key.startswith("train/") for key in row)


def rewards(row: dict[str, Any]) -> bool:
    """Return whether a row contains the total reward."""
    return "reward_mean" in _fields(row)


def _fields(row: dict[str, Any]) -> set[str]:
    return {alias.field for key in row for alias in resolve(key)[:1]}


def _scored(row: dict[str, Any]) -> dict[str, Any]:
    """Add the mean of slime's evaluation scores, whose keys are names of datasets, such as ``eval/aime`` next to
    ``eval/aime-truncated_ratio``."""
    sets = [key.removesuffix(_CUT) for key in row if key.startswith("eval/") and key.endswith(_CUT)]
    scores = [score for key in sets if (score := number(row.get(key))) is not None]
    return {**row, "eval/all/avg_score": sum(scores) / len(scores)} if scores else row


def _loose(body: str) -> dict[str, Any]:
    """Return the numbers of a mapping that is not JSON, because it has values such as ``nan``, ``None`` or
    ``np.float64(0.5)``."""
    quote = body[1]
    found = {}
    for part in body[2:-1].split(f", {quote}"):
        key, colon, value = part.partition(f"{quote}:")
        figure = number(value) if colon else None
        if figure is not None:
            found[key] = figure
    return found


class Bars:
    """The position of the trainer's progress bar, which is the last bar without a description before the first row."""

    def __init__(self) -> None:
        self._total = self._last = ""
        self.position: float | None = None
        self.named: tuple[int, int] | None = None
        """Position and length of the last bar whose description is ``Training Progress``, as in verl."""

    def see(self, text: str) -> bool:
        """Process a line with bars, and return whether a new bar begins after a completed bar."""
        percent = text.find("%|")
        if percent < 0:
            return False
        before = text[text.rfind("}", 0, percent) + 1 : percent]  # a row may come before its bar
        described = before.strip().rstrip("0123456789")
        begun = False
        for place in sorted({percent, text.rfind("%|")}):  # without carriage returns, bars are on one line
            match = _BAR.search(text, place + 2, place + 400)
            if match is None:
                continue
            at, own = float(match[1]), match[2] == self._total
            if described.rstrip().endswith("Training Progress:"):
                self.named = int(match[1]), int(match[2])
            if described and not (own and self.position is not None and at >= self.position):
                continue
            if self._total and self.position == float(self._total) and at <= 1 and (at < self.position):
                self._total, begun = "", True
            if self._total in ("", match[2]):
                self._last, self.position = match[2], at
        return begun

    @property
    def total(self) -> int:
        """The length of the trainer's bar, or 0 without a bar."""
        return int(self._last or 0)

    def tell(self, run: Run) -> None:
        """Add the position and the length of the trainer's bar to a run without training rows."""
        at = self.named if self.position is None else (int(self.position), self.total)
        if at is not None and run.run_type in ("none", "evaluation"):
            run.reached = at[0]
            run.settings.setdefault("max_steps", at[1])

    def settle(self) -> None:
        """Restrict the position to bars with the length of the last bar, because other bars belong to evaluations and
        datasets."""
        self._total = self._last
