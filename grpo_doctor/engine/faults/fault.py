"""Base class of faults: an engine with one wrong method or wrong settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ...config import ConfigError
from ..engine import Engine

FAULTS: dict[str, type[Fault]] = {}
"""Every fault, by its name."""


class Fault(Engine):
    """Base of all faults; a subclass of this package registers itself under its name in kebab-case.

    Attributes:
        named_by: codes of checks and probes; at least one of them should detect the fault.
        settings_of_fault: settings that cause the fault or a part of it; the fix reverts these settings.
        circumstances: correct settings that the fault needs to have an effect.
        fixed_by: id of the remedy that fixes the fault; empty if there is none.
    """

    named_by: ClassVar[tuple[str, ...]] = ()
    settings_of_fault: ClassVar[dict[str, Any]] = {}
    circumstances: ClassVar[dict[str, Any]] = {}
    fixed_by: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.rpartition(".")[0] == __package__:
            FAULTS[fault_name(cls)] = cls

    @classmethod
    def begins(cls, max_steps: int) -> int:
        """Return the first step that has the fault."""
        return 1


def fault_name(fault: type[Fault]) -> str:
    """Return the name in kebab-case: ``TrainModeGeneration`` becomes ``train-mode-generation``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", fault.__name__).lower()


def faulty_engine(names: Sequence[str]) -> tuple[type[Engine], dict[str, Any]]:
    """Return the engine class with these faults, and the settings of the faults. Raises `ConfigError` for an unknown
    name."""
    for name in names:
        if name not in FAULTS:
            near = difflib.get_close_matches(name, FAULTS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"--inject {name}: unknown fault; {hint}`grpo-doctor lab faults` lists all faults")
    chosen = [FAULTS[name] for name in names]
    settings = {
        key: value for fault in chosen for key, value in {**fault.circumstances, **fault.settings_of_fault}.items()
    }
    if not chosen:
        return Engine, {}
    return (chosen[0] if len(chosen) == 1 else type("Mixed", tuple(chosen), {"__module__": "mixed"})), settings
