"""Frameworks as data: one TOML file per framework, with its evidence, the meaning of its keys, and its behaviour.

A setting has one name, that of ``readers/settings.toml``, whatever a framework calls it. A name with a leading
underscore is intermediate: it is read, used by ``[[when]]`` of the same file, and dropped.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from ...readers import ReadError
from ...readers.settings import VOCABULARY, meanings

FOLDER = Path(__file__).parent


class FrameworkError(ReadError):
    """A framework's file is wrong; the message names the file, the line and what to change."""


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pattern of the commands and calls that start the framework.

    Attributes:
        weight: 10 where nothing else is called so; below 2 where other programs are called so too.
    """

    pattern: str
    weight: float

    def matches(self, program: str) -> bool:
        """Whether a command or call is so called."""
        return re.search(self.pattern, program) is not None


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a configuration of the framework has: programs, and keys with their weights."""

    programs: tuple[Program, ...] = ()
    keys: dict[str, float] = {}


class Removal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The version that took a key away, and what to write instead."""

    since: str
    instead: str = ""


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What follows from a setting: it is there, has a value (``is``), has another (``is_not``), or came by ``key``.

    ``set`` gives other settings, or a capability, a value, ``take`` the value of an intermediate one, ``rename`` moves
    one to another name, ``drop`` removes them.
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
    """How what others build on a framework is told from it: modules, sections and keys that are its own.

    Attributes:
        episodes: keys of the group in forks whose agents play several turns.
    """

    modules: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    episodes: tuple[str, ...] = ()


class Framework(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One framework.

    Attributes:
        name, version: as its users write them; the version is the one that the tables follow, empty for a snapshot.
        source: where the facts were read.
        package: the package that a requirement pins, where keys are known by version.
        modules: Python modules that its configuration classes come from.
        launchers: commands that it installs.
        extends: the framework whose settings it has too.
        base: whether it is only there to be extended.
        capabilities: how it behaves, by the names of ``[capabilities]`` in ``readers/settings.toml``.
        keys: ``flat`` where keys are recognised by their last part, as those of a dataclass are.
        trained_section: the section of the trained policy, where pipelines that only evaluate have all but that.
        settings: setting to the framework's keys; the first that a configuration has counts.
        defaults: setting to the value of an absent key.
        largest_defaults: setting to the largest value that an absent key has in any version, where it changed.
        fields: every key that the trainer's configuration takes or took; empty where no list was made.
        removed: keys that the version no longer takes.
        added: version to the keys that it took first.
        renamed: keys that mean the same under another name today.
        documents: names of the files of one run that lie together, and the section of each.
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

    @property
    def flat(self) -> bool:
        """Whether keys are recognised by their last part."""
        return self.keys == "flat"

    @cached_property
    def sections(self) -> frozenset[str]:
        """The top-level sections in which its keys stand."""
        return frozenset(key.split(".", 1)[0] for keys in self.settings.values() for key in keys if "." in key)

    @property
    def label(self) -> str:
        """Name and version as one."""
        return f"{self.name} {self.version}".strip()

    def can(self, capability: str) -> bool:
        """Whether it behaves so; the names are those of ``[capabilities]`` in ``readers/settings.toml``."""
        return self.capabilities.get(capability, False)

    def added_in(self, key: str) -> str:
        """The version that first took a key; empty where it is not known."""
        return next((version for version, keys in self.added.items() if key in keys), "")

    def starts(self, program: str, least: float = 2.0) -> bool:
        """Whether a command or call is its own, by a pattern of at least this weight."""
        return any(p.weight >= least and p.matches(program) for p in self.evidence.programs)


HAND_WRITTEN = Framework(
    name="hand-written trainer",
    source="names that trainers usually give their settings",
    keys="flat",
    settings={
        "mask_without_eos": ("code.mask_without_eos",),
        "lora_r": ("lora.r", "lora.rank", "qlora.r", "lora_config.r", "peft_config.r"),
    },
)
"""What no framework recognises: keys are told by the names that trainers usually give them."""


def load(folder: Path) -> list[Framework]:
    """The frameworks of a folder, by name; those that are only extended are left out. Raises `FrameworkError`."""
    found = {}
    for path in sorted(folder.glob("*.toml")):
        framework = _read(path)
        if framework.name in found:
            raise _wrong(path, framework.name, f"another file has the name {framework.name!r}; choose another")
        found[framework.name] = (path, framework)
    return [_extended(path, f, found) for path, f in found.values() if not f.base]


@cache
def frameworks() -> tuple[Framework, ...]:
    """The frameworks that the package knows."""
    return tuple(load(FOLDER))


def vocabulary() -> Mapping[str, str]:
    """Every setting that a framework's file may name, and what it means."""
    return meanings()["declared"]


@cache
def known_fields() -> frozenset[str]:
    """Every field of a configuration class that is known."""
    return frozenset().union(*(f.fields for f in frameworks()))


def modules() -> frozenset[str]:
    """The Python modules that configuration classes of frameworks come from."""
    return frozenset(name for f in frameworks() for name in f.modules)


@cache
def documents() -> Mapping[str, str]:
    """Names of the files of one run that lie together, and the section of each."""
    return {stem: section for f in frameworks() for stem, section in f.documents.items()}


def launchers() -> tuple[str, ...]:
    """The commands that frameworks install."""
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
        if name not in (known := meanings()[table]):
            where = f"[{table}] of {VOCABULARY.name}"
            near = _nearest(name, known)
            raise _wrong(path, name, f"{name!r} is not in {where}{near}; use a name of it or add yours")
    for program in framework.evidence.programs:
        try:
            re.compile(program.pattern)
        except re.error as error:
            raise _wrong(path, program.pattern, f"{program.pattern!r} is not a regular expression: {error}") from None
    return framework


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _wrong(path: Path, word: str, why: str) -> FrameworkError:
    """The error of a file, with the first line that has the word."""
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next((number for number, text in enumerate(lines, 1) if word and word in text), 1)
    return FrameworkError(f"{path}:{line}: {why}")


def _extended(path: Path, framework: Framework, found: Mapping[str, tuple[Path, Framework]]) -> Framework:
    """A framework with the settings of the one that it extends, and its fields where it lists some itself."""
    if not framework.extends:
        return framework
    if framework.extends not in found:
        raise _wrong(path, "extends", f"no file has the name {framework.extends!r}; use one of {', '.join(found)}")
    base = _extended(*found[framework.extends], found)
    fields = framework.fields | base.fields if framework.fields else framework.fields
    return msgspec.structs.replace(framework, settings=base.settings | framework.settings, fields=fields)
