"""Interprets a launch: finds its framework, its kind of training, and its settings under common names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..readers.values import number
from ..run import RunType
from .custom_names import NAMES, RL_SECTION, few, rank, usual
from .frameworks import HAND_WRITTEN, Framework
from .launch import Entry, Launch, Several, Unresolved
from .recognition import SWEPT, Clue, recognise
from .training_kind import kind_of
from .unknown_keys import name_misspelt, name_unknown

OTHERS = re.compile(
    r"(?i)critic|value_\w+|vf_\w+|reward\w*|ref|reference|val|val_\w+|valid\w*|eval\w*|test\w*|teacher\w*|judge\w*|sft\w*|dpo\w*|optim_args"
    r"|supervised|pretrain_\w+|inference|benchmark\w*|quant\w*|embedding\w*|scheduler|runtime_assertions"
)
"""Sections whose settings do not affect the training of the policy."""
_SWITCH = re.compile(r".+(?=\.enabled?$)")
"""Matches keys that switch a whole section on or off."""


OF_PAIRS = re.compile(r"(?i)(?:dpo|kto|orpo|cpo|reward)_?(?:config|args)?$")
"""Sections that configure the policy in preference training, although their names occur in `OTHERS`."""


@dataclass
class Configuration:
    """The settings of one training run, as declared in its configuration.

    Attributes:
        settings: values by the names that checks use, including derived settings.
        assumed: the settings that are defaults of the framework's version.
        lines, keys: the line and the key of each setting.
        unknown: keys that no version of the framework accepts, each with a hint.
        removed: keys that the framework has removed, each with a hint.
        renames: line, key and current name of each key that a patch may rename.
        unresolved: keys whose value is an expression that could not be evaluated.
        swept: settings with several successive values; ``settings`` contains the first value of each.
        unread: keys that no rule uses.
        elsewhere: other places that contain settings of this training run.
        clues: the evidence for the framework and the kind of training.
        versions: packages whose version is known.
        complete: whether a feature is off if its setting is absent.
    """

    framework: Framework
    run_type: RunType
    settings: dict[str, Any] = field(default_factory=dict)
    assumed: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    unknown: list[tuple[Entry, str]] = field(default_factory=list)
    removed: list[tuple[Entry, str]] = field(default_factory=list)
    renames: list[tuple[int, str, str]] = field(default_factory=list)
    unresolved: dict[str, str] = field(default_factory=dict)
    swept: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    clues: list[Clue] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def number(self, name: str) -> float | None:
        """Return a setting as a number, or None if it is not a finite number or has several values."""
        value = None if name in self.swept else self.settings.get(name)
        figure = number(value) if isinstance(value, int | float) else None
        return figure if figure is not None and math.isfinite(figure) else None

    def stated(self, *names: str) -> bool:
        """Return whether the file itself sets all of these settings, each to a single value."""
        known = self.settings.keys() - self.assumed.keys() - self.swept.keys()
        return known.issuperset(names)


def understand(launch: Launch) -> Configuration:
    """Interpret the configuration of a launch."""
    from .settle import settle

    framework, clues = recognise(launch)
    found = Configuration(framework, "none", notes=list(launch.notes), elsewhere=list(launch.elsewhere))
    found.versions = {package: pin.version for package, pin in launch.versions.items()}
    found.complete = launch.complete
    taken = _take(launch, framework, found)
    found.run_type, of_kind = kind_of(launch, found)
    found.clues = [*clues, *of_kind]
    if found.run_type == "none" and not found.elsewhere:
        found.elsewhere = [f"it starts {named}, which was not found" for named in launch.absent]
    name_unknown(launch, found)
    if launch.complete and found.run_type == "rl" and not _only_by_keys(launch, framework, found):
        _assume_defaults(launch, framework, found)
    found.unread = [e.key for e in launch.entries if e.key not in taken and not e.key.startswith(("lora.", "env."))]
    name_misspelt(launch, found)
    settle(launch, found)
    if launch.broken or launch.severed:
        lines = ", ".join(map(str, launch.severed[:5]))
        found.lines["cannot_run"], found.settings["cannot_run"] = launch.broken or (
            launch.severed[0],
            f"the shell does not pass line {lines} to the command above: an earlier line does not end in a backslash",
        )
    return found


def _assume_defaults(launch: Launch, framework: Framework, found: Configuration) -> None:
    """Add the framework's defaults for absent settings.

    For a document without a command, the group size is not assumed, because the command usually sets it. A Hydra
    document gets no defaults, because the framework's own documents contain them.
    """
    for name, value in framework.defaults.items():
        elsewhere = not launch.program and (name == "group_size" or framework.can("composed_by_hydra"))
        elsewhere |= name == "group_size" and str(found.settings.get("algorithm", "grpo")).lower() == "ppo"
        if name not in found.settings and name not in found.unresolved and not elsewhere:
            found.settings[name] = found.assumed[name] = value
    for name, value in framework.largest_defaults.items():
        if launch.program and name not in found.settings and name not in found.unresolved:
            found.settings[f"{name}_at_most"] = value


def _only_by_keys(launch: Launch, framework: Framework, found: Configuration) -> bool:
    """Return whether only keys indicate the framework: in a custom program, or in a document whose keys are all in
    sections that the framework does not have."""
    if not launch.program:
        return bool(framework.fields) and all("." in key for key in found.keys.values())
    return bool(framework.fields) and not framework.starts(launch.program, least=0)


def _take(launch: Launch, framework: Framework, found: Configuration) -> set[str]:
    """Read the settings from the entries and return the keys that were used."""
    index = _suffixes(launch, framework)
    names: dict[str, list[str]] = {name: list(keys) for name, keys in framework.settings.items()}
    if framework is HAND_WRITTEN:
        for key in sorted(index, key=lambda key: (index[key].line == 0, key in launch.vague, rank(key, index[key]))):
            if (name := usual(key, index)) is not None:
                names.setdefault(name, []).append(key)
    for name in SWEPT if framework is not HAND_WRITTEN and framework.flat else ():
        if not any(key in index for key in names.get(name, [name])):  # a custom program
            own = [key for key in index if usual(key, index) == name]
            names.setdefault(name, []).extend(sorted(own, key=lambda key: rank(key, index[key])))
    if framework is HAND_WRITTEN and not names.get("group_size") and ("kl_coef" in names or "epsilon" in names):
        names["group_size"] = [key for key in NAMES["perhaps_group_size"] if key in index and few(index[key].value)]
    if framework is HAND_WRITTEN:
        names.setdefault("learning_rate", []).extend(NAMES["rates"])
    taken: set[str] = set()
    for name, keys in names.items():
        entries = [index[key] for key in keys if key in index]
        for entry in sorted(entries, key=lambda entry: entry.line == 0):  # entries of other files come last
            taken.add(entry.key)
            _hold(name, entry, found)
    if framework is HAND_WRITTEN:
        _repeat(index, found)
    return taken


def _repeat(index: Mapping[str, Entry], found: Configuration) -> None:
    """Multiply the group size by the number of repetitions, because all responses to one prompt are compared."""
    times = next((entry for key in NAMES["repeats"] if (entry := index.get(key)) is not None), None)
    group = found.number("group_size")
    if times is None or group is None or type(times.value) is not int or times.key == found.keys.get("group_size"):
        return
    found.settings["group_size"] = int(group * times.value)
    found.keys["group_size"] += f" x {times.key}"


def _hold(name: str, entry: Entry, found: Configuration) -> None:
    """Store the setting of an entry, unless an earlier entry set it."""
    if name in found.settings or entry.value is None:
        return
    swept = isinstance(entry.value, Several) and name in SWEPT
    if isinstance(entry.value, Unresolved) and not swept:
        found.unresolved.setdefault(name, f"{entry.key} = {entry.value}")
        return
    found.unresolved.pop(name, None)
    if swept:
        found.swept[name] = f"{entry.key} = {entry.value}"
    found.settings[name], found.keys[name] = entry.value.values[0] if swept else entry.value, entry.key
    if entry.line:
        found.lines[name] = entry.line


def _suffixes(launch: Launch, framework: Framework) -> Mapping[str, Entry]:
    """Map the full key of every entry, and the endings of this key, to the entry. An entry in a section of `OTHERS` has
    only endings with two or more parts."""
    index: dict[str, Entry] = {}
    for entry in launch.entries:
        if entry.key not in index or index[entry.key].value is None:
            index[entry.key] = entry
    off = {section[0] for key, e in index.items() if e.value is False and (section := _SWITCH.match(key))}
    for key in [key for key in index if off and not _SWITCH.match(key) and off & _sections(key)]:
        del index[key]
    for entry in sorted(index.values(), key=lambda entry: not any(map(RL_SECTION.fullmatch, entry.key.split(".")))):
        parts = entry.key.split(".")
        pairs = framework.can("learns_from_pairs")
        other = any(OTHERS.fullmatch(part) and not (pairs and OF_PAIRS.match(part)) for part in parts[:-1])
        for start in range(1, len(parts)):
            if len(parts) - start >= 2 or (framework.flat and not other):
                end = ".".join(parts[start:])
                if end not in index or _takes_precedence(entry, index[end]):
                    index[end] = entry
    return index


def _sections(key: str) -> set[str]:
    """Return the sections that contain a key."""
    return {key[:at] for at, sign in enumerate(key) if sign == "."}


def _takes_precedence(entry: Entry, than: Entry) -> bool:
    """Return whether an entry takes precedence over another one, whose value is missing, unresolved, or from another
    file."""
    if isinstance(entry.value, Unresolved) or entry.value is None:
        return than.value is None
    return than.value is None or isinstance(than.value, Unresolved) or (entry.line > 0 and than.line == 0)
