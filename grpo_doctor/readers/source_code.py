"""Reads the trainer's class and literal arguments from training code, without running the code."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from ..run import RunType

_KINDS: tuple[tuple[RunType, re.Pattern[str], frozenset[str]], ...] = (
    (
        "rl",
        re.compile(r"GRPO|GSPO|RLOO|PPO|REINFORCE|OnlineDPO", re.IGNORECASE),
        frozenset("reward_funcs reward_func reward_fn reward_function reward_model".split()),
    ),
    (
        "preference",
        re.compile(r"DPO|ORPO|KTO|CPO|SimPO", re.IGNORECASE),
        frozenset("ref_model reference_model".split()),
    ),
)
"""Kinds of training by patterns for the trainer's class or its base class, and by argument names of a trainer class
that the notebook defines. For example, a trainer with a reference model does more than maximise the likelihood. The
first match counts."""
_ARGUMENTS = re.compile(r"(?:Config|Arguments)$")
_OTHER_ARGUMENTS = frozenset("SFTConfig TrainingArguments RewardConfig".split())
"""Classes of arguments for training of another kind."""
_CONFIGURES = re.compile(r"(?:Config|Arguments|Args|Trainer|SamplingParams|get_peft_model|from_pretrained)$")
_LONGEST = 1 << 18
"""Maximum size of a cell in characters."""


class SourceCode:
    """Consecutive cells of code, with the trainer and the settings so far."""

    def __init__(self) -> None:
        self.trainer = ""
        self.begins = False
        """Whether the last cell calls ``train``, ``step`` (of a PPO trainer), or a function such as ``run_ppo``."""
        self.settings: dict[str, Any] = {}
        self.arguments = ""
        """The class of the last arguments for a trainer. It shows the kind of training of an imported trainer."""
        self._named: dict[str, Any] = {}
        self._classes: dict[str, ast.ClassDef] = {}

    @property
    def trains(self) -> RunType | None:
        """Return the kind of training: RL or preference training; None for any other kind."""
        own, name = self._classes.get(self.trainer), self.trainer
        arguments: set[str] = set()
        if own is not None:
            name = " ".join((name, *map(ast.unparse, own.bases)))
            inits = (node for node in own.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
            arguments = {arg.arg for init in inits for arg in (*init.args.args, *init.args.kwonlyargs)}
        found = next((kind for kind, of, told in _KINDS if of.search(name) or told & arguments), None)
        return found or next((kind for kind, of, _ in _KINDS if of.search(self.arguments)), None)

    def see(self, text: str) -> None:
        """Process a cell. A cell that is not valid Python is ignored."""
        self.begins = False
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
            elif isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Trainer") for base in node.bases):
                self._classes[node.name] = node
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._call(node)

    def _call(self, call: ast.Call) -> None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        runs = name.startswith(("run_", "train_")) and any(of.search(name) for _, of, _ in _KINDS)
        if runs:
            self.trainer = name
        self.begins |= runs or name in ("train", "step")
        if name not in self._classes and not _CONFIGURES.search(name):
            return
        if name in self._classes or name.endswith("Trainer"):
            self.trainer = name
        if name in _OTHER_ARGUMENTS or (_ARGUMENTS.search(name) and any(of.search(name) for _, of, _ in _KINDS)):
            self.arguments = name
        if name in ("get_peft_model", "LoraConfig"):
            self.settings["use_peft"] = True
        for keyword in call.keywords:
            value = self._value(keyword.value)
            if keyword.arg and value is not None:
                self.settings[keyword.arg] = value

    def _value(self, node: ast.expr) -> str | int | float | bool | None:
        """Return the value of a literal, or of a name with a literal value; None for any other expression."""
        if isinstance(node, ast.Name):
            named: str | int | float | bool | None = self._named.get(node.id)
            return named
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand)
            return -value if isinstance(value, int | float) else None
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool):
            return node.value
        return None
