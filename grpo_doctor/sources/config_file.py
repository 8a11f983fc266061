"""A training configuration as a run of one row: what YAML, TOML or JSON declares, and the line of each setting."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..run import Run, RunBuilder
from . import ReadError
from .settings import declared

FORMAT = "config"
LARGEST = 1 << 20
"""Bytes of a configuration at most."""
MOST = 10_000
"""Settings at most: aliases of YAML can multiply without end."""


def read_config(path: Path) -> tuple[Run, dict[str, int]]:
    """The declared settings as a run, and setting to line. Raises `ReadError`."""
    try:
        raw = path.read_bytes()[: LARGEST + 1]
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from None
    if len(raw) > LARGEST:
        raise ReadError(f"{path}: longer than {LARGEST >> 20} MB, so no configuration")
    text = raw.decode("utf-8", "replace")
    builder = RunBuilder(str(path), FORMAT)
    lines: dict[str, int] = {}
    for number, (key, value) in enumerate(_flat(_load(path, text))):
        if number == MOST:
            raise ReadError(f"{path}: more than {MOST} settings")
        name = declared(key)
        if name is not None and isinstance(value, str | int | float):
            builder.run.settings.setdefault(name, _number(value))
            lines.setdefault(name, _line_of(text, key))
    builder.add({"step": 0}, 1)
    return builder.finish(), lines


def _load(path: Path, text: str) -> Any:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix == ".json":
            return json.loads(text)
        return _yaml(path, text)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path}: not {path.suffix[1:].upper()}: {' '.join(str(error).split())}") from None


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ReadError(f"{path}: reading YAML needs PyYAML: pip install pyyaml") from None
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ValueError(error) from None


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item, path)
    else:
        yield path, value


def _number(value: str | float) -> Any:
    """YAML 1.1 reads 1e-6 as a word."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _line_of(text: str, key: str) -> int:
    """The first line that gives the last part of the key a value."""
    pattern = re.compile(rf"""^[\s\-{{,]*(?:[\w.]+\.)?["']?{re.escape(key.rsplit(".", 1)[-1])}["']?\s*[:=]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line[:500])), 1)
