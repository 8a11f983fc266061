"""Reads verl's console output: lines such as ``step:34 - actor/entropy:0.22 - …``, with prefixes of Ray, and the
configuration at the start."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from typing import Any

from ..fast import NumberShape
from ..input import NotRead
from ..row_buffer import Rows
from ..row_kinds import is_eval
from ..values import loaded, number

FORMAT = "verl-console"
_LONGEST_CONFIG = 4000
_PROCESS = re.compile(r"\([^()]{1,120}pid=[^()]{1,60}\)")
"""The prefix that Ray adds to every line of a process, including the lines of a mapping."""
_PART = re.compile(r"['\"](\w{1,80})['\"]:$")
"""The name of a part of a configuration, before a mapping on the same line. This name is needed if other output has
interrupted the complete mapping."""
_KEY = re.compile(r"""\s*["']""")
_GOES_ON = re.compile(
    r"""\s*(?:$|["'{}\])(]|[-+]?[\d.][\d.eE+-]*\s*[]),}]|\[\s*(?:$|["'\[{(\]]|[-+]?[\d.][\d.eE+-]*\s*[\],])"""
    r"""|(?:True|False|None|nan|inf|true|false|null)\b)"""
)
"""Start of a line within a mapping. A line with any other start ends an unclosed mapping."""
_VALUE = r":(?:np\.float64\()?([^ ()\r\x1b]*)\)?"


class Lines:
    """Reads lines of metrics. If a line has the same keys as the previous line, only the wanted values are read."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._order: list[str] = []
        self._shape: _Shape | None = None

    def quick(self, line: int, raw: bytes) -> bool:
        """Read a line with the same keys as the previous line. Return False for any other line."""
        if self._shape is None or not self._shape.take(raw.decode("utf-8", "replace"), line):
            return False
        self.rows.hold(self._shape)
        return True

    def see(self, line: int, text: str) -> bool:
        """Read a line of metrics. Return False for any other line."""
        start = begins(text)
        first, *parts = text[start + 5 :].split(" - ") if start >= 0 else ("",)
        step = number(first)
        if step is None or not parts:
            return False
        order = [part.rpartition(":")[0] for part in parts]
        held = len(order)
        torn = order == self._order[:held] and not all(map(is_eval, self._order[held:]))
        row = _whole(parts[:-1] if torn else parts)
        if len(row) < 0.5 * len(parts):
            return False
        self.rows.add(row, line, step)
        if torn:  # the line is incomplete, perhaps within its last number
            self.rows.notes.append(
                NotRead(f"line {line} is incomplete: its last value and everything after it were not read")
            )
            return True
        if order == self._order and (self._shape is None or self._shape.order != order):
            self._shape = _Shape(order, row, self.rows.wanted(row, step))
        self._order = order
        return True


def begins(text: str) -> int:
    """Return the index at which the metrics of a line begin, or -1 if the line has no metrics."""
    start = text.find("step:")
    return start if start <= 0 or text[start - 1] in " )]:|" else -1


def _whole(parts: list[str]) -> dict[str, Any]:
    row = {}
    for part in parts:
        key, colon, value = part.rpartition(":")
        if colon and "/" in key:
            row[key] = value
    return row


class _Shape(NumberShape):
    """Buffers lines with the same number of keys, and with the wanted keys in the same positions. The lines match one
    pattern without alternatives."""

    def __init__(self, order: list[str], keys: Iterable[str], wanted: list[str]) -> None:
        places = [i for i, key in enumerate(order) if key in wanted]
        super().__init__(keys, ["", *(order[i] for i in places)], "")
        self.order = order
        known = order[: places[-1] + 1] if places else order
        parts = (re.escape(key) + (_VALUE if key in wanted else ":[^ ]*") for key in known)
        self._match = re.compile(f"step:([0-9]+) - {' - '.join(parts)}(?![^ \\r\\x1b])").match
        self._rest = len(order) - len(known)

    def take(self, text: str, line: int) -> bool:
        """Buffer a line of this shape. Return False for any other line, and for a line with a number that is not
        finite."""
        match = self._match(text, max(begins(text), 0))
        return match is not None and text.count(" - ", match.end()) == self._rest and self.put(match.groups(), line)


class Config:
    """A mapping that is printed over many lines. The prefix of the process is on every line, or only on the first
    line."""

    def __init__(self) -> None:
        self._prefix: str | None = None
        self._lines: list[str] = []
        self._depth = 0
        self.before = self._part = ""
        self.took = False

    @property
    def open(self) -> bool:
        return self._prefix is not None

    def see(self, text: str) -> dict[str, Any] | None:
        """Read a line if it belongs to a mapping (``took`` is then true). Return the mapping once it is complete."""
        self.took = False
        if self._prefix is None:
            start = _begins(text)
            if start < 0:
                return None
            before = text[:start].rstrip()
            process, part = _PROCESS.match(before), _PART.search(before)
            self._part = part[1] if part else ""
            self._prefix, self._lines, self._depth = process[0] if process else before, [], 0
            self.before, text = before[-40:], self._prefix + text[start:]
        if self._prefix and text.startswith(self._prefix):
            text = text[len(self._prefix) :]
        elif "pid=" in self._prefix:  # a line of another process in between
            return None
        if self._lines and not (_GOES_ON if len(self._lines) > 1 or len(self._lines[0].strip()) > 1 else _KEY).match(
            text
        ):
            self._prefix = None
            return None
        self._lines.append(text)
        self._depth += text.count("{") - text.count("}")
        if self._depth > 0 and len(self._lines) < _LONGEST_CONFIG:
            self.took = True
            return None
        self._prefix = None
        value = _literal("\n".join(self._lines).strip().removesuffix(","))
        self.took = isinstance(value, dict)
        return settled({self._part: value} if self._part else value) if isinstance(value, dict) else None


def _begins(text: str) -> int:
    """Return the index at which a mapping begins in a line outside a mapping, or -1 if there is none."""
    start = text.find("{'")
    if start < 0 and text.rstrip().endswith("{"):
        start = text.rindex("{")
    before = text[: max(start, 0)].rstrip()
    return start if not before or before.endswith((")", "]", ":")) else -1


def _literal(text: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        value: object = loaded(text)
        return value


def settled(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with the effective KL coefficient, which is 0 if neither the loss nor the reward uses
    KL."""
    actor = config.get("actor_rollout_ref", {}).get("actor", {})
    algorithm = config.get("algorithm", {})
    if not isinstance(actor, dict) or not isinstance(algorithm, dict) or "use_kl_in_reward" not in algorithm:
        return config
    control = algorithm.get("kl_ctrl", {})
    in_reward = control.get("kl_coef") if algorithm["use_kl_in_reward"] and isinstance(control, dict) else None
    in_loss = actor.get("kl_loss_coef") if actor.get("use_kl_loss") else None
    return {"kl_coef": in_loss or in_reward or 0.0, **config}


def overrides(text: str) -> dict[str, str]:
    """Return the settings on a command line, such as ``actor_rollout_ref.rollout.n=8``."""
    found = {}
    for word in text.replace('"', " ").replace("'", " ").split():
        key, equals, value = word.lstrip("+").partition("=")
        if equals and "." in key:
            found[key] = value
    return found
