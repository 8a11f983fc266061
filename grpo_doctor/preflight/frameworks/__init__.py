"""Loads the frameworks from data: one TOML file per framework, with the evidence for the framework, the meaning of its
keys, and its behaviour.

A setting has the same name in all frameworks; ``readers/settings.toml`` lists the names. A name with a leading
underscore is an intermediate setting, which ``[[when]]`` in the same file uses, and which is dropped afterwards.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...readers import ReadError
from ...readers.settings import VOCABULARY, meanings

FOLDER = Path(__file__).parent


class FrameworkError(ReadError):
    """An invalid framework file; the message names the file, the line and the error."""


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pattern for the commands and calls that start the framework.

    Attributes:
        weight: weight of the evidence: 10 for a unique name, and less than 2 if other programs have the same name.
    """

    pattern: str
    weight: float

    def matches(self, program: str) -> bool:
        """Return whether a command or a call matches the pattern."""
        return re.search(self.pattern, program) is not None


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Evidence for a framework in a configuration: programs, and keys with their weights."""

    programs: tuple[Program, ...] = ()
    keys: dict[str, float] = {}


class Removal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The version that removed a key, and the replacement for this key."""

    since: str
    instead: str = ""


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule with the consequences of a setting. The rule applies if the setting is present, has a given value
    (``is``), has any other value (``is_not``), or was read from ``key``.

    ``set`` sets other settings or capabilities to a value, and ``take`` copies the value of an intermediate setting.
    ``rename`` moves a setting to another name, and ``drop`` removes settings.
    """

    setting: str
    equals: Any = msgspec.field(name="is", default=None)
    differs: Any = msgspec.field(name="is_not", default=None)
    key: str = ""
    set: dict[str, bool | int | float | str] = {}
    take: dict[str, str] = {}
    rename: dict[str, str] = {}
    drop: tuple[str, ...] = ()


class Forks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The modules, sections and keys that the framework has, but none of its forks.

    Attributes:
        episodes: keys that contain the group size in forks whose agents take several turns.
    """

    modules: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    episodes: tuple[str, ...] = ()


class Framework(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """A framework: how to recognise it, what its keys mean, and how it behaves.

    Attributes:
        name, version: name and version as users write them. ``version`` is the version that the tables describe; it is
            empty for a snapshot.
        source: where the facts in the tables come from.
        package: the package that a requirement pins, if keys are known for each version.
        modules: Python modules with the framework's configuration classes.
        launchers: the commands that the framework installs.
        extends: the framework whose settings this framework inherits.
        base: whether the file exists only so that other files can extend it.
        capabilities: the behaviour of the framework, by the names under ``[capabilities]`` in
            ``readers/settings.toml``.
        keys: ``flat`` if the last part of a key identifies the key, as in a dataclass; otherwise ``nested``.
        trained_section: the section of the trained policy, which evaluation-only pipelines lack.
        settings: the framework's keys for each setting. If a setting has several keys, the first key that a
            configuration contains is used.
        defaults: the value of each setting if its key is absent.
        largest_defaults: the largest default of each setting over all versions, if the default changed.
        fields: every key that any version of the trainer's configuration accepts; empty if unknown.
        removed: keys that the described version no longer accepts.
        added: the keys that each version introduced.
        renamed: keys that have a new name with the same meaning.
        documents: names of the files that together configure one run, and the section of each file.
        own_documents: names of the Hydra documents that contain the framework's defaults.
    """

    name: str
    source: str
    keys: Literal["flat", "nested"]
    version: str = ""
    package: str = ""
    modules: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    extends: str = ""
    base: bool = False
    trained_section: str = ""
    evidence: Evidence = Evidence()
    capabilities: dict[str, bool] = {}
    settings: dict[str, tuple[str, ...]] = {}
    defaults: dict[str, bool | int | float | str] = {}
    largest_defaults: dict[str, int | float] = {}
    fields: frozenset[str] = frozenset()
    removed: dict[str, Removal] = {}
    added: dict[str, tuple[str, ...]] = {}
    renamed: dict[str, str] = {}
    when: tuple[When, ...] = ()
    forks: Forks = Forks()
    documents: dict[str, str] = {}
    own_documents: tuple[str, ...] = ()

    @property
    def flat(self) -> bool:
        """Return whether the last part of a key identifies the key."""
        return self.keys == "flat"

    @cached_property
    def sections(self) -> frozenset[str]:
        """Return the top-level sections that contain the framework's keys."""
        return frozenset(key.split(".", 1)[0] for keys in self.settings.values() for key in keys if "." in key)

    @property
    def label(self) -> str:
        """Return the name and the version in the form that reports use."""
        return f"{self.name} {self.version}".strip()

    def can(self, capability: str) -> bool:
        """Return whether the framework has a capability. ``[capabilities]`` in ``readers/settings.toml`` lists the
        names of capabilities."""
        return self.capabilities.get(capability, False)

    def added_in(self, key: str) -> str:
        """Return the version that introduced a key, or an empty string if unknown."""
        return next((version for version, keys in self.added.items() if key in keys), "")

    def starts(self, program: str, least: float = 2.0) -> bool:
        """Return whether a command or a call matches a pattern of the framework with at least this weight."""
        return any(p.weight >= least and p.matches(program) for p in self.evidence.programs)


HAND_WRITTEN = Framework(
    name="hand-written trainer",
    source="names that trainers usually give their settings",
    keys="flat",
    settings={
        "mask_without_eos": ("code.mask_without_eos",),
        "lora_dropout": ("lora.dropout", "lora_config.dropout", "peft_config.dropout"),
        "lora_r": ("lora.r", "lora.rank", "qlora.r", "lora_config.r", "peft_config.r"),
    },
)
"""The framework that is used if no framework is recognised. The meaning of keys is then guessed from common names."""


def load(folder: Path) -> list[Framework]:
    """Return the frameworks in a folder, excluding frameworks that exist only for others to extend. Raises
    `FrameworkError`."""
    found = {}
    for path in sorted(folder.glob("*.toml")):
        framework = _read(path)
        if framework.name in found:
            raise _wrong(path, framework.name, f"another file has the name {framework.name!r}; choose another")
        found[framework.name] = (path, framework)
    return [_extended(path, f, found) for path, f in found.values() if not f.base]


@cache
def frameworks() -> tuple[Framework, ...]:
    """Return the frameworks that the package knows."""
    return tuple(load(FOLDER))


def vocabulary() -> Mapping[str, str]:
    """Return every setting that a framework file may contain, with the meaning of the setting."""
    return meanings()["declared"]


@cache
def known_fields() -> frozenset[str]:
    """Return every known field of any configuration class."""
    return frozenset().union(*(f.fields for f in frameworks()))


def modules() -> frozenset[str]:
    """Return the Python modules with configuration classes of frameworks."""
    return frozenset(name for f in frameworks() for name in f.modules)


@cache
def documents() -> Mapping[str, str]:
    """Return the names of the files that together configure one run, and the section of each file."""
    return {stem: section for f in frameworks() for stem, section in f.documents.items()}


def launchers() -> tuple[str, ...]:
    """Return the commands that frameworks install."""
    return tuple(name for f in frameworks() for name in f.launchers)


def _read(path: Path) -> Framework:
    text = path.read_text(encoding="utf-8")
    try:
        framework = msgspec.convert(tomllib.loads(text), Framework, strict=True)
    except tomllib.TOMLDecodeError as error:
        raise FrameworkError(f"{path}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        at = re.findall(r"[\w\-]+", str(error).rpartition("`$")[2])
        named = re.findall(r"`([\w\-]+)`", str(error)) if "unknown field" in str(error) else at[-1:]
        raise _wrong(path, named[0] if named else "", str(error)) from None
    settings = (*framework.settings, *framework.defaults, *framework.largest_defaults)
    used = [("declared", name) for name in settings if name[0] != "_"]
    for table, name in (*used, *(("capabilities", name) for name in framework.capabilities)):
        if name not in meanings()[table]:
            where = f"[{table}] of {VOCABULARY.name}"
            raise _wrong(path, name, f"{name!r} is not in {where}; use a name of it or add yours")
    for program in framework.evidence.programs:
        try:
            re.compile(program.pattern)
        except re.error as error:
            raise _wrong(path, program.pattern, f"{program.pattern!r} is not a regular expression: {error}") from None
    return framework


def _wrong(path: Path, word: str, why: str) -> FrameworkError:
    """Return the error for a framework file, with the number of the first line that contains the word."""
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next((number for number, text in enumerate(lines, 1) if word and word in text), 1)
    return FrameworkError(f"{path}:{line}: {why}")


def _extended(path: Path, framework: Framework, found: Mapping[str, tuple[Path, Framework]]) -> Framework:
    """Return a framework with the settings of the base framework that it extends. The fields of the base framework are
    added only if the framework itself lists fields."""
    if not framework.extends:
        return framework
    if framework.extends not in found:
        raise _wrong(path, "extends", f"no file has the name {framework.extends!r}; use one of {', '.join(found)}")
    base = _extended(*found[framework.extends], found)
    fields = framework.fields | base.fields if framework.fields else framework.fields
    return msgspec.structs.replace(framework, settings=base.settings | framework.settings, fields=fields)
