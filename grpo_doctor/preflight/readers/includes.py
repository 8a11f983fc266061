"""Follows the files that a command names: configuration files and the script that it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ...readers import ReadError
from ..frameworks import frameworks
from ..launch import OF_RL, Entry, Launch
from .document import read_document
from .nearby_files import beside, text_of
from .python import started

CONFIGURATIONS = ("config", "cfg", "config_path", "cfg_path", "train_config", "grpo_config", "yaml", "yaml_path")
"""Flags that name a configuration file."""
_FILE = re.compile(r"(?:^|\s)@?\s?(\S+\.(?:ya?ml|toml|json))(?=\s|$)")
_SCRIPT = re.compile(r"(?:^|\s)(\S+\.py)(?=\s|$)")
_MODULE = re.compile(r"\s-m\s+([\w.]+)")
_PROCESSES = ("num_processes", "num_machines")
_SUFFIXES = ("", ".yaml", ".yml", ".toml", ".json")


def follow(launch: Launch, path: Path, written: Mapping[str, str], scripts: bool) -> None:
    """Add the settings of files that a command names. Settings that the command itself passes take precedence.

    Args:
        launch: the command.
        path: the script that contains the command.
        written: text of each file that the script writes.
        scripts: whether to add the defaults of the script that the command starts.
    """
    launch.followed = True
    said = {entry.key: entry.value for entry in launch.entries}
    if isinstance(said.get("config_file"), str) and "launch" in launch.program:
        _take(launch, path, str(said["config_file"]), written, only=_PROCESSES)
    for named in _named(launch, said):
        if why := _take(launch, path, named, written):
            launch.complete = False
            launch.notes.append(f"the settings of {named[:80]} were not read: {why}")
    if scripts:
        _options_of_the_script(launch, path, written)


def documents(written: Mapping[str, str], path: Path, by: str, before: Mapping[str, int] | None = None) -> list[Launch]:
    """Return the documents that a notebook or script writes, with line numbers of the notebook or script. For a
    document that cannot be read, a note is returned."""
    found: list[Launch] = []
    for name, text in written.items():
        if Path(name).suffix in (".yaml", ".yml", ".toml", ".json"):
            try:
                launches = read_document(text, path.with_name(Path(name).name))
            except ReadError as error:
                launches = [Launch("", notes=[f"{name[:80]}, which the {by} writes, was not read: {error}"])]
            for launch in launches:
                launch.line = 0  # the command that uses the document takes precedence
                launch.move((before or {}).get(name, 0))
            found += launches
    return found


def _named(launch: Launch, said: Mapping[str, object]) -> list[str]:
    """Return the configuration files that a command names."""
    folder, name = said.get("config_path") or said.get("config_dir"), said.get("config_name")
    if isinstance(name, str):
        if str(folder or "config").strip("./") == "config" and name.removesuffix(".yaml") in _own_documents():
            return []  # the framework's table already contains these defaults
        return [f"{folder}/{name}" if isinstance(folder, str) else name]
    found = [value for key, value in said.items() if key in CONFIGURATIONS and isinstance(value, str)]
    return [str(word) for word in found or _FILE.findall(launch.program)]


def _own_documents() -> frozenset[str]:
    return frozenset(name for f in frameworks() for name in f.own_documents)


def _take(launch: Launch, path: Path, named: str, written: Mapping[str, str], only: tuple[str, ...] = ()) -> str:
    """Add the settings of a file to the settings of a command. Return why the file cannot be read, or an empty
    string."""
    module = _MODULE.search(f" {launch.program}")
    home = module[1].rpartition(".")[0].replace(".", "/") if module else ""  # Hydra's search path
    starts = dict.fromkeys(("", f"{launch.folder}/", f"{home}/", f"{home}/config/"))
    at = next((at for start in starts if (at := beside(path, f"{start}{named}", _SUFFIXES)) is not None), None)
    text = written.get(named) or (text_of(at) if at is not None else None)
    if text is None:
        return "not found"
    at = at or path.with_name(Path(named).name)
    said = {entry.key: entry.value for entry in launch.entries}
    try:
        base = started(text, at, {}) if at.suffix == ".py" else read_document(text, at, said=said)[0]
    except ReadError as error:
        return str(error)
    for entry in base.entries:
        if entry.key in only if only else entry.key not in _PROCESSES:
            launch.add(entry.key, entry.value, 0)
    launch.complete &= base.complete
    launch.notes += base.notes
    return ""


def _options_of_the_script(launch: Launch, path: Path, written: Mapping[str, str]) -> None:
    """Add the defaults of options that a command omits, if the script that it starts is found or was written by the
    file itself."""
    if any(not f.flat and f.starts(launch.program) for f in frameworks()):
        return  # the framework's table already contains these defaults
    module = _MODULE.search(f" {launch.program}")
    scripts = [f"{folder}{module[1].replace('.', '/')}.py" for folder in ("", "src/")] if module else []
    scripts = scripts or _SCRIPT.findall(launch.program)
    at = next((found for word in scripts if (found := beside(path, word)) is not None and found != path), None)
    text = text_of(at) if at is not None else None
    if named := next((word for word in scripts if word in written), ""):
        at, text = path.with_name(Path(named).name), written[named]
    if at is None or text is None:
        if scripts and OF_RL.search(launch.program):
            launch.elsewhere.append(f"it starts {scripts[0][:80]}, which was not found")
        elif scripts and at is None:
            launch.absent.append(scripts[0][:80])
        return
    try:
        script = started(text, at, {entry.key: entry.value for entry in launch.entries})
    except ReadError as error:
        launch.complete = False
        launch.notes.append(f"{at.name} next to it was not read: {error}")
        return
    launch.entries = [Entry(script.also.get(e.key, e.key), e.value, e.line) for e in launch.entries]
    launch.program = f"{launch.program} {script.program}"
    launch.firm = len(launch.entries) if script.firm is not None else None
    for entry in script.entries:
        launch.add(entry.key, entry.value, 0)
    launch.complete &= script.complete
    launch.notes += script.notes
    launch.elsewhere += [f"in {at.name}, {where}" for where in script.elsewhere]
