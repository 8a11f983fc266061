"""Finds the runs of a fleet in local folders and files, trackers, or any fsspec location, and groups their files into
units.

A unit contains every file that may belong to one run: the files of a folder, including its subfolders for checkpoints,
completions and TensorBoard. A unit is read, judged and stored as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..readers import ReadError
from ..readers.log_names import NO_NAME
from ..readers.remote import (
    Renaming,
    Tracked,
    copy,
    is_remote,
    listing,
    may_be_log,
    prefix_of,
    renaming,
    tracked,
    write,
)
from ..readers.walk import Answer, candidates, metrics

PART = re.compile(
    r"(?i)checkpoints?|(?:checkpoint|global_step|ckpt|version|rank)[-_]?\d+|runs|completions|tensorboard|tb|tb_logs|events"
    r"|logs?|wandb|files|ranks|metrics|params|swanlog|lightning_logs|train|eval|val|hydra"
)
"""Names of subfolders that belong to the run of their parent folder."""
CONFIGURATIONS = frozenset(
    "config.json config.yaml config.yml config.toml args.json params.json hparams.yaml hparams.json training_args.json "
    "flags.json".split()
)
"""Names of files next to a log in which trainers and sweep tools write the settings of the run."""
CONFIGURATION = "config.json"
"""Name of the file to which the configuration of a tracker's run is written."""
COMPANIONS = ("", "files", ".hydra")
"""Folders that may contain configurations, relative to the folder of the run."""
CROWD = 12
"""Minimum number of logs in a folder for each log to count as a separate run. No trainer writes that many logs per
run."""


class Stamp(msgspec.Struct, frozen=True):
    """A file, with metadata that changes when its content changes. ``digest`` is the digest of the content, if the
    content was read."""

    path: str
    size: int
    changed: str
    digest: str = ""


class Unit(msgspec.Struct, frozen=True):
    """Files that are read together: logs and their configurations. ``remote`` is the address of the files, and is empty
    for local files."""

    name: str
    logs: list[Stamp]
    configurations: list[Stamp]
    remote: str = ""

    @property
    def files(self) -> list[Stamp]:
        return [*self.logs, *self.configurations]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class Found(NamedTuple):
    """The units of some inputs, and a result for every file that belongs to no unit."""

    units: list[Unit]
    answers: list[Answer]


def find(places: list[str]) -> Found:
    """Return the units of these places, in the given order. Raises `ReadError` if a place does not exist."""
    units: dict[str, Unit] = {}
    answers: list[Answer] = []
    for place in places:
        found = _remote(place) if is_remote(place) else _local(Path(place))
        units |= {unit.name: unit for unit in found.units}
        answers += found.answers
    return Found(list(units.values()), answers)


def _local(place: Path) -> Found:
    if not place.exists():
        raise ReadError(f"{place}: No such file or directory")
    if not place.is_dir():
        return Found([Unit(str(place), [stamp(place)], _configurations(place.parent))], [])
    answers: list[Answer] = []
    homes: dict[str, list[Path]] = {}
    for path, known in candidates(place):
        if known is not None:
            if path.name not in CONFIGURATIONS or known.fate == "unreadable":
                answers.append(known)
            continue
        homes.setdefault(_home(str(path), str(place)), []).append(path)
    units: list[Unit] = []
    for home, logs in homes.items():
        beside = _configurations(Path(home))
        for name, paths in _crowds(home, [str(path) for path in logs]).items():
            stamps, gone = _stamps([Path(path) for path in paths])
            answers += gone
            if stamps:
                units.append(Unit(name, stamps, beside))
    return Found(units, answers)


def _home(path: str, place: str) -> str:
    """Return the folder of the run to which a file belongs. Subfolders that are parts of a run belong to their parent
    folder."""
    home = posixpath.dirname(path)
    while home != place and PART.fullmatch(posixpath.basename(home)):
        home = posixpath.dirname(home)
    return home


def _crowds(home: str, paths: list[str]) -> dict[str, list[str]]:
    """Group the logs of a folder into one unit, or into one unit per name if the folder has at least `CROWD` logs.

    TensorBoard files and files of completions stay in one unit, because one run writes many such files.
    """
    alone = [path for path in paths if posixpath.dirname(path) == home and not _is_shard(path)]
    if len(alone) < CROWD:
        return {home: paths}
    units: dict[str, list[str]] = {}
    for path in paths:
        units.setdefault(os.path.splitext(path)[0] if path in alone else home, []).append(path)
    return units


def _is_shard(path: str) -> bool:
    name = posixpath.basename(path)
    return "tfevents" in name or name.startswith("completions")


def stamp(path: Path) -> Stamp:
    """Return the current state of a local file. Raises `ReadError` if the file cannot be accessed."""
    try:
        known = path.stat()
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from None
    return Stamp(str(path), known.st_size, str(known.st_mtime_ns))


def _stamps(logs: list[Path]) -> tuple[list[Stamp], list[Answer]]:
    """Return the current state of the logs, and results for deleted logs. For MLflow, the state covers all metrics of
    the run."""
    stamps: list[Stamp] = []
    gone: list[Answer] = []
    for log in logs:
        for file in metrics(log.parent) if log.parent.name == "metrics" else [log]:
            try:
                stamps.append(stamp(file))
            except ReadError as error:
                gone.append(Answer(str(file), "unreadable", str(error).removeprefix(f"{file}: ")))
    return stamps, gone


def _configurations(home: Path) -> list[Stamp]:
    paths = (home / folder / name for folder in COMPANIONS for name in sorted(CONFIGURATIONS))
    return [stamp(path) for path in paths if path.is_file()]


def digest(path: Path) -> str:
    """Return the digest of a file's content; empty if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return ""


# -- remote --------------------------------------------------------------------------------------------------------


def _remote(address: str) -> Found:
    runs = tracked(address)
    if runs is not None:
        return Found([_tracked_unit(run) for run in runs], [])
    listed, root = listing(address)
    place = posixpath.dirname(root) if root in listed else root
    prefix = prefix_of(address, root)
    homes: dict[str, list[Stamp]] = {}
    settings: dict[str, list[Stamp]] = {}
    answers = []
    for path, known in listed.items():
        if posixpath.basename(path) in CONFIGURATIONS:
            home = posixpath.dirname(path)
            home = posixpath.dirname(home) if posixpath.basename(home) in COMPANIONS else home
            settings.setdefault(home, []).append(_remote_stamp(path, known))
        elif not may_be_log(path, place):
            answers.append(Answer(prefix + path, "no log", NO_NAME))
        else:
            homes.setdefault(_home(path, place), []).append(_remote_stamp(path, known))
    units = []
    for home, logs in homes.items():
        stamps = {log.path: log for log in logs}
        for name, paths in _crowds(home, list(stamps)).items():
            units.append(Unit(prefix + name, [stamps[p] for p in paths], settings.get(home, []), address))
    return Found(units, answers)


def _tracked_unit(run: Tracked) -> Unit:
    """Return the unit of a tracker's run. The configuration of the unit contains the settings that the run declares."""
    files = [Stamp(run.place, 0, run.changed)], [Stamp(f"{run.place}/{CONFIGURATION}", 0, run.changed)]
    return Unit(run.address, *files, run.address)


def _remote_stamp(path: str, known: dict[str, Any]) -> Stamp:
    """Return the stamp of a remote file, with its tag or checksum or, if it has neither, its modification time."""
    said = ("ETag", "etag", "md5Hash", "sha256", "oid", "LastModified", "last_modified", "updated", "mtime", "created")
    changed = next((str(known[key]) for key in said if known.get(key)), "")
    return Stamp(path, int(known.get("size") or 0), changed)


def fetch(unit: Unit, folder: Path) -> Renaming:
    """Copy the files of a remote unit to a folder. Return a function that replaces the names of the copies in texts
    with the remote names."""
    runs = tracked(unit.remote)
    if runs is None:
        return copy(unit.remote, [file.path for file in unit.files], folder)
    for run in runs:
        settings = json.dumps(dict(run.settings), default=str)
        (write(run, folder) / CONFIGURATION).write_text(settings, encoding="utf-8")
    return renaming(unit.remote, folder)
