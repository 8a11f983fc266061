"""Selects the format of a file. Each file has one format, which is selected by content, not by extension.

A format is a module with three names: ``FORMAT``, ``sniff(head) -> int`` (0 no, 1 possible, 2 likely, 3 certain) and
``read(file) -> list[Run]``. Formats are tried in the order of `FORMATS`, and the format with the highest result of
``sniff`` is used. Packages add formats as entry points of the group ``grpo_doctor.readers``. The API is in
`grpo_doctor.readers`, and the files in ``custom/`` are examples.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

import numpy as np

from ..config import PluginError, plugins
from ..limits import OverBudgetError, spending
from ..run import Run
from .archive import ZIP, is_inspect_log
from .input import ArchiveError, Head, Input, ReadError, UnreadableError, broken, words
from .phases import judged
from .reading import checked

FORMATS = (
    "formats.records", "plugins", "custom.aflow", "custom.dual", "custom.lever", "formats.tensorboard", "formats.wandb",
    "formats.swanlab", "formats.clearml", "formats.aim", "formats.sqlite", "formats.completions", "formats.kaggle",
    "formats.notebook", "formats.mlflow", "formats.json_rows", "formats.table", "formats.jsonl", "formats.console",
)  # fmt: skip
"""Modules that read a format, by precedence in a tie. ``plugins`` marks the position of formats from installed
packages."""


class Format(Protocol):
    """The interface of a format module."""

    FORMAT: str

    def sniff(self, head: Head) -> int: ...
    def read(self, file: Input) -> list[Run]: ...


SURE = 3
"""The result of ``sniff`` if the format is certain. Further formats are then not loaded."""


@cache
def _installed() -> tuple[Format, ...]:
    """Return the readers of installed packages. Raises `UnreadableError` if a plugin cannot be used."""
    found: list[Format] = []
    try:
        for label, module in plugins("grpo_doctor.readers"):
            if lacking := [name for name in ("FORMAT", "sniff", "read") if not hasattr(module, name)]:
                raise PluginError(f"{label} has no {lacking[0]!r}; see .github/CONTRIBUTING.md")
            found.append(module)
    except PluginError as error:
        raise UnreadableError(str(error)) from error
    return tuple(found)


def _formats() -> Iterator[Format]:
    """Yield every format. Each format is loaded on demand."""
    for name in FORMATS:
        if name == "plugins":
            yield from _installed()
        else:
            yield cast(Format, importlib.import_module(f"{__package__}.{name}"))


def format_of(head: Head) -> Format | None:
    """Return the format of a file, or None if no format is recognised."""
    best, most = None, 0
    for module in _formats():
        if (score := module.sniff(head)) > most:
            best, most = module, score
        if most == SURE:
            break
    return best


@np.errstate(all="ignore")
def read_input(file: Input) -> list[Run]:
    """Return the runs in a file of any format. Raises `ReadError`."""
    head = file.head()
    if not head.raw:
        return [_nothing(file, "the file is empty")]
    if head.raw[257:262] == b"ustar":
        raise ReadError(f"{file.source}: a tar archive; unpack it and pass the folder")
    if head.raw.startswith(ZIP) and not is_inspect_log(head.raw):
        raise ArchiveError(f"{file.source}: an archive inside an archive; unpack it and pass the folder")
    if (found := format_of(head)) is not None:
        try:
            with spending():
                runs = found.read(file)
        except OverBudgetError as error:
            raise UnreadableError(f"{file.source}: {error}") from None
        except broken() as error:
            raise UnreadableError(f"{file.source}: {words(error)}") from None
        runs = judged(runs)
        for run in runs:
            checked(run).path = file.path
        return runs
    if head.binary:
        raise ReadError(f"{file.source}: binary data in an unsupported format")
    return [_nothing(file, "no line looks like a training metric")]


def _nothing(file: Input, why: str) -> Run:
    run = Run(file.source, "unknown", "none")
    run.notes.append(why)
    return run
