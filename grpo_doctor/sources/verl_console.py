"""verl's console: ``step:34 - actor/entropy:0.22 - …``, with Ray prefixes, and the configuration it prints first."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from .rows import Rows, number

FORMAT = "verl-console"
_LONGEST_CONFIG = 4000


class Lines:
    """Reads the lines of metrics; where the keys are those of the line before, only the ones that are wanted."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._wanted: list[tuple[int, str, str]] = []
        self._others: tuple[str, ...] = ()
        self._count = self._quick = 0

    def see(self, line: int, text: str) -> bool:
        """Takes a line of metrics; False for any other."""
        start = text.find("step:")
        if start < 0 or (start and text[start - 1] not in " )]:|"):
            return False
        first, *parts = text[start + 5 :].split(" - ")
        step = number(first)
        if step is None or not parts:
            return False
        row = self._known(parts) if len(parts) == self._count else None
        if row is None:
            row = self._whole(parts)
            if len(row) < 0.5 * len(parts):
                return False
            self.rows.add(row, line, step)
            self._learn(parts)
        else:
            self._quick += 1
            self.rows.add(row, line, step)
        return True

    def _known(self, parts: list[str]) -> dict[str, Any] | None:
        row = {}
        for place, prefix, key in self._wanted:
            part = parts[place]
            if not part.startswith(prefix):
                return None
            row[key] = part[len(prefix) :]
        return row

    @staticmethod
    def _whole(parts: list[str]) -> dict[str, Any]:
        row = {}
        for part in parts:
            key, colon, value = part.rpartition(":")
            if colon and "/" in key:
                row[key] = value
        return row

    def _learn(self, parts: list[str]) -> None:
        self.finish()
        keys = [part.rpartition(":")[0] for part in parts]
        self._count = len(parts)
        self._wanted = [(i, key + ":", key) for i, key in enumerate(keys) if self.rows.wants(key)]
        self._others = tuple(key for key in keys if "/" in key and not self.rows.wants(key))

    def finish(self) -> None:
        """Counts the keys that were passed over."""
        self.rows.pass_over(self._others, self._quick)
        self._quick = 0


class Config:
    """The configuration that is printed as a mapping over many lines, each behind the prefix of its process."""

    def __init__(self) -> None:
        self._prefix: str | None = None
        self._lines: list[str] = []
        self._depth = 0

    @property
    def open(self) -> bool:
        return self._prefix is not None

    def see(self, text: str) -> dict[str, Any] | None:
        """Takes a line; the mapping once it is whole."""
        if self._prefix is None:
            start = text.find("{'")
            if start < 0 or (text[:start].strip() and not text[:start].rstrip().endswith((")", "]", ":"))):
                return None
            self._prefix, self._lines, self._depth = text[:start].rstrip(), [], 0
        if not text.startswith(self._prefix):
            return None
        body = text[len(self._prefix) :]
        self._lines.append(body)
        self._depth += body.count("{") - body.count("}")
        if self._depth > 0 and len(self._lines) < _LONGEST_CONFIG:
            return None
        self._prefix = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                value = ast.literal_eval("".join(self._lines).strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        return settled(value) if isinstance(value, dict) else None


def settled(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the KL coefficient that is in force: none where neither loss nor reward uses KL."""
    actor = config.get("actor_rollout_ref", {}).get("actor", {})
    algorithm = config.get("algorithm", {})
    if not isinstance(actor, dict) or not isinstance(algorithm, dict) or "use_kl_in_reward" not in algorithm:
        return config
    control = algorithm.get("kl_ctrl", {})
    in_reward = control.get("kl_coef") if algorithm["use_kl_in_reward"] and isinstance(control, dict) else None
    in_loss = actor.get("kl_loss_coef") if actor.get("use_kl_loss") else None
    return {"kl_coef": in_loss or in_reward or 0.0, **config}


def overrides(text: str) -> dict[str, str]:
    """Settings on the command line: ``actor_rollout_ref.rollout.n=8``."""
    found = {}
    for word in text.replace('"', " ").replace("'", " ").split():
        key, equals, value = word.lstrip("+").partition("=")
        if equals and "." in key:
            found[key] = value
    return found
