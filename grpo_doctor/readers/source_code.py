"""Reads training code: the trainer's class and its literal arguments. Nothing is executed."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from ..run import RunType

_KINDS: tuple[tuple[RunType, re.Pattern[str]], ...] = (
    ("rl", re.compile(r"GRPO|GSPO|RLOO|PPO|REINFORCE|OnlineDPO", re.IGNORECASE)),
    ("preference", re.compile(r"DPO|ORPO|KTO|CPO|SimPO", re.IGNORECASE)),
)
"""Kinds of training by the class of the trainer; the first that matches counts."""
_CONFIGURES = re.compile(r"(?:Config|Arguments|Args|Trainer|SamplingParams|get_peft_model|from_pretrained)$")
_LONGEST = 1 << 18
"""Maximum size of a cell in characters."""


class SourceCode:
    """Consecutive cells of code, and their settings so far."""

    def __init__(self) -> None:
        self.trainer = ""
        self.settings: dict[str, Any] = {}
        self._named: dict[str, Any] = {}

    @property
    def trains(self) -> RunType | None:
        """Return the kind of training if it is not supervised."""
        return next((kind for kind, name in _KINDS if name.search(self.trainer)), None)

    def see(self, text: str) -> None:
        """Process a cell; a cell that is not Python is ignored."""
        lines = [line for line in text[:_LONGEST].splitlines() if not line.lstrip().startswith(("%", "!"))]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                tree = ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                value = self._value(node.value)
                if value is not None:
                    self._named[node.targets[0].id] = value
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._call(node)

    def _call(self, call: ast.Call) -> None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if not _CONFIGURES.search(name):
            return
        if name.endswith("Trainer"):
            self.trainer = name
        if name in ("get_peft_model", "LoraConfig"):
            self.settings["use_peft"] = True
        for keyword in call.keywords:
            value = self._value(keyword.value)
            if keyword.arg and value is not None:
                self.settings[keyword.arg] = value

    def _value(self, node: ast.expr) -> str | int | float | bool | None:
        """Return the value of a literal or of a name with a literal value, and None for anything else."""
        if isinstance(node, ast.Name):
            named: str | int | float | bool | None = self._named.get(node.id)
            return named
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand)
            return -value if isinstance(value, int | float) else None
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool):
            return node.value
        return None
