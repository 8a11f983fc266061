"""A file as configurations: the reader by its suffix, bounded, and every failure one line."""

from __future__ import annotations

import re
from pathlib import Path

from ..sources import ReadError
from ..sources.input import Input
from .configuration import Configuration, understand
from .entry import LARGEST_SCRIPT, Entry, Launch
from .frameworks import FRAMEWORKS
from .readers.document import read_document
from .readers.log import LINES, read_log
from .readers.notebook import read_notebook
from .readers.python import read_python
from .readers.shell import ENVIRONMENT, read_shell
from .versions import pinned

LARGEST = 1 << 20
"""Bytes of a configuration at most."""
LARGEST_NOTEBOOK = 1 << 25
"""Notebooks hold the pictures that they drew."""
LIBRARIES = tuple({framework.library for framework in FRAMEWORKS if framework.library})
"""Packages whose pinned versions are looked for."""
LOGS = (".log", ".txt", ".out", ".err")
"""Files that may print the configuration of their run; of them the head is read."""
_COMMAND = re.compile(r"(?m)^\s*(?:\w+=\S*\s+)*(?:uv run|python|torchrun|accelerate|deepspeed|ray|trl|swift|bash)\b")
SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch", ".py", ".ipynb", ".yaml", ".yml", ".toml", ".json")


def read(path: Path) -> list[Configuration]:
    """The configurations of a file, those of reinforcement learning first. Raises `ReadError`."""
    text = _text(path)
    try:
        launches = [launch for launch in _launches(path, text) if launch.entries]
        if path.suffix.lower() not in LOGS and launches:
            versions = pinned(LIBRARIES, text, path)
            for launch in launches:
                launch.versions = versions
        found = [understand(launch) for launch in launches]
        by_variables = [c for c, launch in zip(found, launches, strict=True) if launch.program == ENVIRONMENT]
    except ReadError as error:
        raise ReadError(f"{path}: {error}") from None
    found = found or [understand(Launch(""))]
    if path.suffix.lower() in LOGS:
        return [max(found, key=lambda c: (c.run_type == "rl", len(c.keys)))]
    trained = [c for c in found if c.run_type == "rl"]
    trained = [c for c in trained if c not in by_variables] or trained
    return trained or [c for c in found if c.run_type != "none"][:1] or found[:1]


def _text(path: Path) -> str:
    script = path.suffix in ("", ".sh", ".bash", ".slurm", ".sbatch", ".py", ".toml")
    if path.suffix.lower() in LOGS:
        return _head(path)
    largest = LARGEST_SCRIPT if script else LARGEST_NOTEBOOK if path.suffix == ".ipynb" else LARGEST
    try:
        with path.open("rb") as file:
            raw = file.read(largest + 1)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from None
    if len(raw) > largest:
        raise ReadError(f"{path}: longer than {largest >> 10} KB, so no configuration")
    if b"\0" in raw[:4096]:
        raise ReadError(f"{path}: binary, so no configuration")
    return raw.decode("utf-8-sig", "replace")


def _with_commands(documents: list[Launch], path: Path) -> list[Launch]:
    """The documents, and the commands that they hold as text: jobs of SkyPilot, Kubernetes and the like."""
    found = list(documents)
    for entry in documents[0].entries if documents else ():
        texts = entry.value if isinstance(entry.value, list) else [entry.value]
        for text in texts:
            if not isinstance(text, str) or "\n" not in text or not _COMMAND.search(text):
                continue
            for launch in read_shell(text, path):
                if launch.program != ENVIRONMENT:
                    launch.entries = [Entry(e.key, e.value, e.line and e.line + entry.line) for e in launch.entries]
                    found.append(launch)
    return found


def _head(path: Path) -> str:
    """The head of a log, whatever it is packed in. Raises `ReadError`."""
    lines: list[str] = []
    for _, text in Input(path).lines():
        lines.append(text[:LARGEST_SCRIPT])
        if len(lines) == LINES:
            break
    return "\n".join(lines)


def _launches(path: Path, text: str) -> list[Launch]:
    match path.suffix.lower():
        case ".py":
            return read_python(text, path)
        case ".ipynb":
            return read_notebook(text)
        case ".yaml" | ".yml" | ".toml" | ".json":
            return _with_commands(read_document(text, path), path)
        case suffix if suffix in LOGS:
            return read_log(text, path)
        case ".sh" | ".bash" | ".slurm" | ".sbatch":
            return read_shell(text, path)
    if text.startswith("#!") and "python" in text.split("\n", 1)[0]:
        return read_python(text, path)
    return read_shell(text, path)
