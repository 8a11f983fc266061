"""Reads YAML, TOML and JSON as settings with dotted keys. YAML is read as nodes, so no objects are constructed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ...limits import OverBudgetError, spent
from ...readers import ReadError
from ..frameworks import documents
from ..launch import MOST, Entry, Items, Launch, Several, Unresolved, scalar
from .nearby_files import beside, text_of

_REFERENCE = re.compile(r"\$\{([\w.\-]+)\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:\s*\w+\s*,\s*([^{}]*)\}")
_KEY = re.compile(r"""[\s\-{,]*(?:[\w\-]+\.)*["']?([\w\-]+)["']?\s*[:=]""")
_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w./\-]{0,200})=(.*)", re.DOTALL)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BASES = ("defaults", "inherit", "inherits", "inherit_from", "base", "base_config", "_base_", "extends")
"""Keys whose values name base configurations."""
DEEPEST = 100
"""Maximum nesting of a document."""
CHAIN = 5
"""Maximum length of a chain of base configurations."""
_GLOBAL = re.compile(r"(?m)^#\s*@package\s+_global_")
"""Header of a Hydra document whose keys are at the top level, regardless of the document's folder."""
BUILT_ON = 50
"""Maximum number of base configurations per file."""
_DOTS = re.compile(r"(?<![\w\-\"'])(?:[\w\-\"']++[ \t]*+\.[ \t]*+){100}")
"""Matches dotted TOML keys that are nested deeper than in any real configuration. Documents with such keys are
rejected, because the parser's memory use grows with the square of the depth."""


def read_document(text: str, path: Path, depth: int = 0, said: Mapping[str, Any] | None = None) -> list[Launch]:
    """Return the settings of a document and its base configurations.

    Raises `ReadError`. ``said`` contains the keys that the command sets, because the document may refer to them.
    """
    launch = _parsed(text, path.suffix)
    _unwrap(launch)
    _sweep(launch)
    _overrides(launch)
    if path.name != "pyproject.toml":
        _bases(launch, path, depth)
    if not depth:
        _resolve(launch, said or {})
        _parts(launch, path)
    return [launch]


def _parsed(text: str, suffix: str) -> Launch:
    """Return the settings of a document, without its base configurations."""
    launch = Launch("")
    try:
        for key, value, line in _pairs(text, suffix):
            spent()
            launch.add(key, value, line)
    except (ReadError, OverBudgetError):
        raise
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        why = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else str(error)
        raise ReadError(f"not {suffix[1:].upper() or 'YAML'}: {' '.join(why.split())[:300]}") from None
    return launch


def _parts(launch: Launch, path: Path) -> None:
    """Join the documents of one run in the same folder, each as a separate section."""
    parts = documents()
    if path.stem not in parts or all(parts[s] == parts[path.stem] or not path.with_stem(s).is_file() for s in parts):
        return
    launch.entries = [Entry(f"{parts[path.stem]}.{e.key}", e.value, e.line) for e in launch.entries]
    for stem in (stem for stem in parts if parts[stem] != parts[path.stem]):
        other = path.with_stem(stem)
        if (text := text_of(other)) is None:
            continue
        try:
            (part,) = read_document(text, other, 1)
        except ReadError as error:
            launch.notes.append(f"{other.name} next to it was not read: {error}")
            continue
        for entry in part.entries:
            launch.add(f"{parts[stem]}.{entry.key}", entry.value, 0)


def _pairs(text: str, suffix: str) -> Iterator[tuple[str, Any, int]]:
    if suffix in (".toml", ".json"):
        if suffix == ".toml" and _DOTS.search(text):
            raise _too_deep()
        loaded = tomllib.loads(text) if suffix == ".toml" else json.loads(text)
        lines = _lines_of(text)
        for key, value in flat(loaded):
            yield key, value, lines.get(key.rsplit(".", 1)[-1], 1)
    else:
        yield from _yaml(text)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a document with their values. A list of scalars counts as one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for number, item in enumerate(value):
            yield from flat(item, f"{path}.{number}")
    else:
        yield path, scalar(value) if isinstance(value, str) else value


def _lines_of(text: str) -> dict[str, int]:
    """Return the first line of each key."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines()[:20_000], 1):
        if (match := _KEY.match(line[:500])) is not None:
            found.setdefault(match[1], number)
    return found


def _yaml(text: str) -> Iterator[tuple[str, Any, int]]:
    """Yield the settings from YAML nodes, with a limit on nesting. No objects are constructed."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        spent()
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _too_deep()
    for document in yaml.compose_all(text, Loader=_Loader):
        if not isinstance(document, yaml.ScalarNode | None):
            yield from _below(document, "", 0)


def _below(node: yaml.Node, path: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Yield the settings of a node. The keys of a mapping come before the keys that the mapping merges with ``<<``."""
    spent()
    if depth > DEEPEST:  # a mapping that contains itself
        raise _too_deep()
    dot = path and f"{path}."
    match node:
        case yaml.ScalarNode():
            yield path, _scalar(node), node.start_mark.line + 1
        case yaml.MappingNode():
            pairs = [(key.value[:200], value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
            for key, value in pairs:
                if key != "<<":
                    yield from _below(value, f"{dot}{key}", depth + 1)
            for taken in (value for key, value in pairs if key == "<<"):
                for value in taken.value if isinstance(taken, yaml.SequenceNode) else [taken]:
                    yield from _below(value, path, depth + 1)
        case yaml.SequenceNode():
            yield from _of_list(node, path, depth)


def _of_list(node: yaml.SequenceNode, path: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Yield the settings of a list. The scalars of a list are one setting, and the keys of other items contain the
    number of the item."""
    items = Items()
    for number, value in enumerate(node.value):
        if isinstance(value, yaml.ScalarNode):
            items.append(_scalar(value))
            items.lines.append(value.start_mark.line + 1)
        else:
            yield from _below(value, f"{path}.{number}" if path else str(number), depth + 1)
    if len(items) > MOST:
        raise ReadError(f"more than {MOST} items in a list, so not a configuration")
    if items or not node.value:
        yield path, items, items.lines[0] if items else node.start_mark.line + 1


def _scalar(node: yaml.ScalarNode) -> Any:
    """Parse a scalar. A block scalar stays a string."""
    return node.value if node.style in ("|", ">") else scalar(node.value)


def _too_deep() -> ReadError:
    return ReadError(f"nested more than {DEEPEST} levels deep, so not a configuration")


def _unwrap(launch: Launch) -> None:
    """Unwrap the values of W&B's ``config.yaml``, which has the form ``key: {value: …}``."""
    if any(e.key.startswith(("_wandb.", "wandb_version")) for e in launch.entries):
        launch.entries = [
            Entry(re.sub(r"^([^.]+)\.value(?=\.|$)", r"\1", e.key), e.value, e.line)
            for e in launch.entries
            if not e.key.endswith(".desc")
        ]


def _sweep(launch: Launch) -> None:
    """Read a W&B sweep. ``parameters.lr.value`` gives a single value, while ``values`` and ranges give several
    values."""
    if any(e.key == "method" for e in launch.entries):
        launch.entries = [_of_sweep(e) if e.key.startswith("parameters.") else e for e in launch.entries]


def _of_sweep(entry: Entry) -> Entry:
    key, _, what = entry.key.removeprefix("parameters.").replace(".parameters.", ".").rpartition(".")
    value = entry.value
    if isinstance(value, list) and len(value) > 1 and all(type(one) in (int, float) for one in value):
        return Entry(key, Several(value), entry.line)
    if isinstance(value, list) and len(value) == 1:
        return Entry(key, value[0], entry.line)
    return Entry(key, value if what == "value" else Unresolved(f"{what} {value}"[:200]), entry.line)


def _overrides(launch: Launch) -> None:
    """Read Hydra's list of overrides ``a.b=c``, from a separate document or from the document of the run."""
    listed = [
        e for e in launch.entries if e.key in ("", "overrides", "hydra.overrides.task") and isinstance(e.value, list)
    ]
    for entry in listed:
        for word in entry.value:
            if isinstance(word, str) and (found := _OVERRIDE.fullmatch(word)):
                launch.add(found[1].replace("/", "."), scalar(found[2].strip("'\"")), entry.line)


def _bases(launch: Launch, path: Path, depth: int) -> None:
    """Add the settings of the base configurations, with a note for each base configuration that was not read."""
    named = [(e, "") for e in launch.entries if re.sub(r"\.\d+$", "", e.key) in BASES]
    hydra = [(e, e.key.split(".", 2)[2]) for e in launch.entries if re.fullmatch(r"defaults\.[^.]*\..+", e.key)]
    if len(named) + len(hydra) > BUILT_ON:
        raise ReadError(f"includes more than {BUILT_ON} other files, so not a configuration")
    hydra = [(e, group.removeprefix("override ")) for e, group in hydra]
    chosen = [one for one in hydra if "override " in one[0].key]  # entries that override the base configurations
    for entry, group in (*chosen, *named, *(one for one in hydra if one not in chosen)):
        package = (
            "" if "@_global_" in group else f"{group.split('@')[-1].strip('/').replace('/', '.')}." if group else ""
        )
        for word in reversed(entry.value) if isinstance(entry.value, list) else [entry.value]:  # the last item counts
            if not isinstance(word, str) or word == "_self_" or group.startswith(("optional ", "hydra/")):
                continue
            word = (f"{group.split('@')[0]}/{word}" if group else word).lstrip("/")  # an absolute group name in Hydra
            found = beside(path, word, ("", ".yaml", ".yml", ".toml", ".json"))
            text = None if found is None or depth >= CHAIN else text_of(found)
            if text is None or found is None:
                launch.complete = False
                launch.notes.append(f"it includes {word[:80]}, which was not read")
                continue
            (base,) = read_document(text, found, depth + 1)
            for e in base.entries:
                launch.add(e.key if _GLOBAL.search(text[:500]) else package + e.key, e.value, 0)
            launch.complete &= base.complete
            launch.notes += base.notes


def _resolve(launch: Launch, said: Mapping[str, Any]) -> None:
    """Fill in ``${other.key}`` and ``${oc.env:NAME,default}``. Any other ``${…}`` stays unresolved."""
    values = dict(said)
    for entry in launch.entries:
        values.setdefault(entry.key, entry.value)

    def filled(value: Any, key: str, depth: int = 0) -> Any:
        if not isinstance(value, str) or "${" not in value or "\n" in value:
            return value
        if (default := _ENVIRONMENT.fullmatch(value)) is not None:
            return scalar(default[1])
        if (named := _REFERENCE.fullmatch(value)) is not None and depth < 5:
            target = named[1]
            if target.startswith("."):
                ups = len(target) - len(target.lstrip("."))
                target = ".".join([*key.split(".")[:-ups], target.lstrip(".")])
            if target in values:
                return filled(values[target], target, depth + 1)
        return Unresolved(value[:200])

    launch.entries = [Entry(e.key, filled(e.value, e.key), e.line) for e in launch.entries]
