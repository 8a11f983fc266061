"""What a fault is: an engine with one sick seam, or with sick settings, under a name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ...config import ConfigError
from ..engine import Engine

FAULTS: dict[str, type[Fault]] = {}
"""Every fault by its name."""


class Fault(Engine):
    """Base of all faults; a subclass of this package registers itself under its name in kebab-case.

    Attributes:
        named_by: codes of the checks and probes of which at least one should name it.
        settings_of_fault: settings that are the fault, or a part of it; to mend it is to take them back.
        circumstances: settings that are right in themselves and without which it does not show.
        mended_by: id of the remedy that mends it, "" where no remedy of the catalogue does.
    """

    named_by: ClassVar[tuple[str, ...]] = ()
    settings_of_fault: ClassVar[dict[str, Any]] = {}
    circumstances: ClassVar[dict[str, Any]] = {}
    mended_by: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.rpartition(".")[0] == __package__:
            FAULTS[fault_name(cls)] = cls

    @classmethod
    def begins(cls, max_steps: int) -> int:
        """The first step of a run of so many that is sick."""
        return 1


def fault_name(fault: type[Fault]) -> str:
    """``TrainModeGeneration`` is ``train-mode-generation``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", fault.__name__).lower()


def sick_engine(names: Sequence[str]) -> tuple[type[Engine], dict[str, Any]]:
    """The engine with these faults, and the settings that they bring. Raises `ConfigError` for an unknown name."""
    for name in names:
        if name not in FAULTS:
            near = difflib.get_close_matches(name, FAULTS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"--inject {name}: no such fault; {hint}`grpo-doctor faults` lists them")
    chosen = [FAULTS[name] for name in names]
    settings = {
        key: value for fault in chosen for key, value in {**fault.circumstances, **fault.settings_of_fault}.items()
    }
    if not chosen:
        return Engine, {}
    return (chosen[0] if len(chosen) == 1 else type("Mixed", tuple(chosen), {"__module__": "mixed"})), settings
