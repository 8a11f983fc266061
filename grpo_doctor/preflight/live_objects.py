"""Reads a live object as a configuration: the arguments of a trainer, including the actual defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..advisories.versions import installed
from ..readers import ReadError
from .configuration import Configuration, understand
from .launch import Launch
from .readers.document import flat

_PLAIN = (bool, int, float, str, list, tuple)


def read_object(target: Any) -> Configuration:
    """Return the settings of an object. Raises `ReadError` if the object has no settings."""
    values = _values(target)
    names = " ".join(kind.__name__ for kind in type(target).__mro__)
    launch = Launch(names if not isinstance(target, Mapping) else "", complete=False, line=0)
    for name, value in flat(values):
        value = getattr(value, "value", value)  # an enumeration, such as IntervalStrategy
        if isinstance(value, _PLAIN):
            launch.add(name, list(value) if isinstance(value, tuple) else value, 0)
    if not launch.entries:
        raise ReadError(f"{type(target).__name__}: holds no settings")
    world = getattr(target, "world_size", None)
    if isinstance(world, int):
        launch.add("num_processes", world, 0)
    found = understand(launch)
    found.versions, found.complete = installed(), True
    return found


def _values(target: Any) -> Mapping[str, Any]:
    if isinstance(target, Mapping):
        return target
    if dataclasses.is_dataclass(target) and not isinstance(target, type):
        return {f.name: getattr(target, f.name, None) for f in dataclasses.fields(target)}
    return {name: value for name, value in getattr(target, "__dict__", {}).items() if not name.startswith("_")}
