"""Finds keys that a framework does not accept, because it never had them, removed them, or added them in a later
version."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ..advisories.releases import before
from .frameworks import HAND_WRITTEN, Framework, known_fields
from .launch import Entry, Launch

if TYPE_CHECKING:
    from .configuration import Configuration

_OWN = "GRPOConfig "
"""Start of a launch that calls the class itself, not a subclass with additional fields."""
SPELT = 50
"""Maximum number of unknown keys for which a key with a similar spelling is searched."""
SHORTEST = 6
"""Minimum length of a name that is checked for typing errors. Shorter names can be similar by chance."""
TOLD = 8
"""Maximum number of keys that are listed in one finding."""
_CALL = re.compile(r"\w*GRPO\w*Config ")
"""Start of a launch that calls TRL's configuration class, which accepts only its own fields."""


def name_unknown(launch: Launch, found: Configuration) -> None:
    """Add the keys that the framework does not accept in the pinned version or, without a pinned version, in any
    version."""
    framework = found.framework
    pin = launch.versions.get(framework.package)
    version = pin.version if pin else ""
    if version:
        found.framework = framework = msgspec.structs.replace(framework, version=version)
        found.settings[f"{framework.package.replace('-', '_')}_version"] = version
    call = bool(framework.fields) and _CALL.match(launch.program) is not None
    document = not launch.program and framework.flat and bool(framework.fields)
    if (not call and not document and not _refuses(launch, framework)) or (document and _renames(found)):
        return
    for entry in launch.entries:
        if not entry.line or entry.key in launch.forced or ((call or document) and "." in entry.key):
            continue
        if (why := _refused(entry.key, framework, version)) is not None:
            found.removed.append((entry, why))
            if entry.key in framework.renamed and "before" not in why:
                found.renames.append((entry.line, entry.key, framework.renamed[entry.key]))
        elif call and entry.key not in framework.fields:
            near = difflib.get_close_matches(entry.key, framework.fields, 1, 0.85) if len(found.unknown) < SPELT else []
            found.unknown.append((entry, f"did you mean {near[0]}?" if near else ""))
            found.renames += [(entry.line, entry.key, name) for name in near]
            if near and launch.program.startswith(_OWN):
                found.settings["misspelt_settings"] = 1.0
    _state(found, "unknown_settings", found.unknown)
    _state(found, "removed_settings", found.removed)
    if pin and found.removed:
        found.settings |= {"pinned_version": f"{framework.name} {version}", "pinned_beside": pin.beside}


def name_misspelt(launch: Launch, found: Configuration) -> None:
    """Add the unused keys that are probably misspelled keys of the framework.

    A document or a command may contain keys of other programs. Therefore, a key is added only if one typing error
    separates it from a key of the framework.
    """
    framework = found.framework
    custom = framework is HAND_WRITTEN
    if found.unknown or found.run_type == "none":
        return
    present = {entry.key for entry in launch.entries}
    known = {*framework.fields, *framework.renamed.values(), *(k for keys in framework.settings.values() for k in keys)}
    known = set(known_fields()) if custom else known
    unread = set(found.unread)
    for entry in launch.entries:
        name = entry.key.rpartition(".")[2]
        if entry.key not in unread or not entry.line or entry.key in launch.forced or _is_known(name, known):
            continue
        near = next((key for key in sorted(known) if _misspells(entry.key, key, framework)), None)
        if near is not None and near not in present and len(found.unknown) < SPELT:
            found.unknown.append((entry, f"did you mean {near}?"))
            found.renames.append((entry.line, name, near.rpartition(".")[2]))
            found.settings["perhaps_misspelt"] = 1.0
    _state(found, "unknown_settings", found.unknown)


def _is_known(name: str, known: set[str]) -> bool:
    """Return whether a name is a field of any framework, or the last part of a key in ``known``."""
    return name in known_fields() or any(key.rpartition(".")[2] == name for key in known)


def _misspells(key: str, known: str, framework: Framework) -> bool:
    """Return whether a key is a misspelling of a known key in the same section, with one typing error in the last part.

    In a custom trainer, a missing last letter does not count as a typing error, because the name may be in the
    singular.
    """
    section, _, name = key.rpartition(".")
    home, _, right = known.rpartition(".")
    if framework is HAND_WRITTEN and name == right[:-1]:
        return False
    same = framework.flat or section == home or section.endswith(f".{home}")
    return same and min(len(name), len(right)) >= SHORTEST and name in _typing_errors(right)


def _typing_errors(name: str) -> Iterator[str]:
    """Yield variants of a name with two adjacent letters exchanged, one letter doubled, or one letter missing."""
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]
        yield name[: at + 1] + name[at:]
        yield name[:at] + name[at : at + 2][::-1] + name[at + 2 :]


def _state(found: Configuration, setting: str, told: list[tuple[Entry, str]]) -> None:
    """Set the value of a setting to a list of these keys with their hints."""
    if told:
        more = f" and {len(told) - TOLD} more" if len(told) > TOLD else ""
        found.settings[setting] = ", ".join(f"{e.key}{f' ({why})' if why else ''}" for e, why in told[:TOLD]) + more
        found.lines[setting] = told[0][0].line
        found.keys[setting] = told[0][0].key


def _renames(found: Configuration) -> bool:
    """Return whether a document uses another name for a field of the framework. If so, another program reads the
    document before the trainer."""
    fields = found.framework.fields
    said = ((found.framework.settings.get(name, ()), key) for name, key in found.keys.items() if "." not in key)
    return any(key not in fields and not fields.isdisjoint(keys) for keys, key in said)


def _refuses(launch: Launch, framework: Framework) -> bool:
    """Return whether a command starts the framework's own program, which rejects unknown keys.

    Return False if the command passes its own Hydra document, which may contain any key.
    """
    own = any(entry.key in ("config_name", "config_path") for entry in launch.entries)
    return bool(framework.removed) and not framework.fields and launch.program != "" and not own


def _refused(key: str, framework: Framework, version: str) -> str | None:
    """Return why the pinned version or, without a pinned version, the current version rejects a key. Return None if the
    key is accepted, or if it is unknown whether the key is accepted."""
    since = framework.added_in(key)
    if since and before(version, since):
        return f"unknown before {framework.name} {since}"
    if key == "evaluation_strategy" and framework.fields:
        return None if version else "removed in transformers 4.46; instead: eval_strategy"
    if key in framework.removed:
        since, instead = framework.removed[key].since, framework.removed[key].instead
        if not before(version, since):
            return f"removed in {framework.name} {since}{f'; instead: {instead}' if instead else ''}"
    return None
