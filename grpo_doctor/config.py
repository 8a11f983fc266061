"""Reads the configuration: ``[tool.grpo-doctor]`` in pyproject.toml, or grpo-doctor.toml, and finds installed plugins.

Unknown keys are errors.
"""

from __future__ import annotations

import datetime
import difflib
import os
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from .limits import Budget


class ConfigError(ValueError):
    """Invalid settings; the message names the file and the key."""


class PluginError(ConfigError):
    """A plugin that cannot be loaded; the message names the plugin, its package and the reason."""


class Accepted(msgspec.Struct, forbid_unknown_fields=True):
    """An accepted finding, which does not fail the gate: its code, the reason, the last day of the acceptance, and a
    pattern for the affected files."""

    code: str
    reason: Annotated[str, msgspec.Meta(pattern=r"\S")]
    until: datetime.date
    path: str = "*"

    @property
    def expired(self) -> bool:
        return self.until < datetime.date.today()


class Suppression(msgspec.Struct, frozen=True):
    """An active option or setting that can hide a finding."""

    kind: str
    text: str


class Config(msgspec.Struct, kw_only=True):
    """The user's settings. The command line overrides the environment, which overrides the file."""

    select: list[str] = []
    ignore: list[str] = []
    preview: bool = False
    checks: list[Path] = []
    fail_on: str = "error"
    accept: list[Accepted] = []
    map: dict[str, str] = {}
    settings: dict[str, Any] = {}
    budget_seconds: float | None = None
    budget_megabytes: float | None = None
    thresholds: dict[str, dict[str, Any]] = {}
    origin: str = "command line"
    trust_checks: bool = False
    """Whether the folders of ``checks`` may be executed regardless of their content. No file can set this value."""

    def budget(self) -> Budget:
        """Return the limits per input."""
        most = Budget()
        return Budget(
            most.seconds if self.budget_seconds is None else self.budget_seconds,
            most.megabytes if self.budget_megabytes is None else self.budget_megabytes,
        )

    def suppressions(self) -> list[Suppression]:
        """Return all options and settings that can hide a finding. An expired acceptance hides nothing; its description
        states that it no longer has an effect."""
        named = {"select": "only these checks ran", "ignore": "these checks did not run"}
        lists = [(kind, getattr(self, kind), why) for kind, why in named.items()]
        found = [Suppression(kind, f"{', '.join(words)}: {why}") for kind, words, why in lists if words]
        if self.fail_on.lower() == "critical":
            found.append(Suppression("fail-on", "critical: findings at error do not fail"))
        found += [
            Suppression("threshold", f"{code}.{name} = {value}")
            for code, limits in self.thresholds.items()
            for name, value in limits.items()
        ]
        found += [Suppression("map", f"{key} is read as {field}") for key, field in self.map.items()]
        for entry in self.accept:
            said = f"{entry.code} in {entry.path}: {entry.reason}"
            if entry.expired:
                found.append(Suppression("expired", f"{said} (until {entry.until}; it no longer has an effect)"))
            else:
                found.append(Suppression("accept", f"{said} (until {entry.until})"))
        return found


def find(start: Path) -> Path | None:
    """Return the nearest grpo-doctor.toml, or pyproject.toml with [tool.grpo-doctor], from ``start`` upwards.

    The search ends at the root of the repository, at the home directory and at the root of the file system. Raises
    `ConfigError` if the file belongs to another user.
    """
    ends = Path(os.path.expanduser("~"))
    for folder in (start, *start.parents):
        own, project = folder / "grpo-doctor.toml", folder / "pyproject.toml"
        if own.is_file():
            return _refuse_foreign(own)
        if project.is_file() and _own_table(project) is not None:
            return _refuse_foreign(project)
        if folder == ends or (folder / ".git").exists():
            return None
    return None


def _own_table(project: Path) -> dict[str, Any] | None:
    """Return the table [tool.grpo-doctor] of a pyproject.toml, or None if the file has no such table. Raises
    `ConfigError`."""
    table: Any = table_of(project)
    for name in ("tool", "grpo-doctor"):
        table = table.get(name)
        if table is None:
            return None
        if not isinstance(table, dict):
            raise ConfigError(f"{project}: {name!r} is not a table; write [tool.grpo-doctor]")
    return dict(table)


def _refuse_foreign(path: Path) -> Path:
    """Return the path if it belongs to this user. Raises `ConfigError` if it belongs to another user, even if this user
    is root."""
    if os.name == "posix" and (owner := path.stat().st_uid) != os.geteuid():
        raise ConfigError(
            f"{path}: belongs to another user (uid {owner}, and you are uid {os.geteuid()}), so it is not used; "
            f"pass --config {path} to use it anyway"
        )
    return path


def table_of(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file. Raises `ConfigError`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def read(path: Path | None) -> Config:
    """Return the settings of a file, or of the nearest settings file if ``path`` is None. Raises `ConfigError`."""
    path = path or find(Path.cwd())
    if path is None:
        return Config()
    table = (_own_table(path) or {}) if path.name == "pyproject.toml" else table_of(path)
    table = {key.replace("-", "_"): value for key, value in table.items()}
    if "tool" in table:
        raise ConfigError(f"{path}: write the keys without [tool.grpo-doctor]; only pyproject.toml has this table")
    known = [f for f in Config.__struct_fields__ if f not in ("origin", "trust_checks")]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise ConfigError(f"{path}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    try:
        config = msgspec.convert(table, Config, strict=True, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    config.checks = [path.parent / folder for folder in config.checks]
    config.origin = str(path)
    return config


@cache
def _entry_points(folders: tuple[str, ...]) -> bytes:
    """Return the entry points of all packages in these folders."""
    return b"".join(file.read_bytes() for folder in folders for file in Path(folder).glob("*-info/entry_points.txt"))


def plugins(group: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects that installed packages register in a group of entry points, each with the name that messages
    use.

    `importlib.metadata` takes half as long to import as numpy, so it is imported only if a package registers objects in
    the group.

    Raises:
        PluginError: an object cannot be imported.
    """
    if f"[{group}]".encode() not in _entry_points(tuple(sys.path)):
        return
    from importlib.metadata import entry_points

    for entry in entry_points(group=group):
        package = f" of the package {entry.dist.name}" if entry.dist else ""
        label = f"the plugin {entry.name!r}{package}"
        try:
            found = entry.load()
        except Exception as error:  # importing a plugin may raise any error
            why = f"{type(error).__name__}: {error}"
            raise PluginError(f"{label} cannot be loaded: {why}; fix or uninstall it") from error
        yield label, found
