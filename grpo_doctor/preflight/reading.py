"""Reads a file as configurations: picks a reader by suffix, enforces limits, and reports each error in one line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from itertools import islice, repeat
from pathlib import Path

from ..advisories import names
from ..advisories.versions import stated
from ..limits import OverBudgetError, spending
from ..readers import ReadError
from ..readers.input import Input
from ..readers.log_names import is_passed_over
from .configuration import Configuration, understand
from .frameworks import HAND_WRITTEN, frameworks
from .launch import LARGEST_SCRIPT, Command, Items, Launch
from .readers.document import read_document
from .readers.includes import documents
from .readers.makefile import makefile
from .readers.markdown import Block, blocks
from .readers.notebook import read_notebook
from .readers.python import read_python
from .readers.shell import ENVIRONMENT, read_shell, read_words
from .versions import Pin, pinned

LARGEST = 1 << 20
"""Maximum size of a configuration in bytes."""
LARGEST_NOTEBOOK = 1 << 25
"""Maximum size of a notebook in bytes. The limit is larger because notebooks contain pictures."""
LOGS = (".log", ".txt", ".out", ".err")
"""Suffixes of log files, which may contain the configuration of their run. Only the start of a log is read."""
_COMMAND = re.compile(
    r"(?:^|\n|&&|;)[ \t]*(?:\w{1,100}=[^\s&;]{0,500}[ \t]+)*(?:exec |nohup |srun |uv run |poetry run )*"
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed|ray|trl|swift|axolotl|bash|sh|rl)\b"
)
_PASSES = re.compile(r"\s--?[a-z]|\s[+\w]+[.\w]*=|\.(?:py|sh)\b")
"""Matches a command that passes settings, or that starts a program that may contain settings."""
MARKDOWN = (".md", ".markdown")
_MAKEFILE = re.compile(r"(?:GNU)?[Mm]akefile|.*\.mk")
COMMANDS = 100
"""Maximum number of commands that are read from a file that is not a shell script."""
_ENVIRONMENT = "pyvenv.cfg"
"""Name of the file that marks the top level of a virtual environment."""
SUFFIXES = (
    *(".sh", ".bash", ".slurm", ".sbatch", ".py", ".ipynb"),
    *(".yaml", ".yml", ".toml", ".json", ".mk"),
)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that may be configurations, excluding environments, packages and caches."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not (is_passed_over(name) or Path(parent, name, _ENVIRONMENT).exists())
        )
        yield from (Path(parent, name) for name in sorted(files) if name.endswith(SUFFIXES))


def read(path: Path) -> list[Configuration]:
    """Return the configurations of a file. If any configuration is for reinforcement learning, the other configurations
    are omitted. Raises `ReadError`."""
    try:
        with spending():
            return _read(path)
    except OverBudgetError as error:
        raise ReadError(f"{path}: {error}") from None


def _read(path: Path) -> list[Configuration]:
    text, suffix = _text(path), path.suffix.lower()
    try:
        launches = _holding(_launches(path, text))
        if suffix not in LOGS:
            versions = pinned({f.package for f in frameworks() if f.package} | names(), text, path)
            if suffix in MARKDOWN:
                versions = {name: Pin(version, False) for name, version in stated(text.splitlines()).items()} | versions
            for launch in launches:
                launch.versions, launch.title = versions, path.stem
        found = [(understand(launch), launch) for launch in launches]
    except ReadError as error:
        raise ReadError(f"{path}: {error}") from None
    if suffix in LOGS:
        return [max((c for c, _ in found), key=lambda c: (c.run_type == "rl", len(c.keys)))]
    trained = [pair for pair in found if pair[0].run_type == "rl"]
    return _trainings(trained) if trained else _most_likely(found)


def _trainings(found: list[tuple[Configuration, Launch]]) -> list[Configuration]:
    """Return the configurations that start a training, among those of reinforcement learning. Constants of a script and
    variables of a shell count only if no call or command has settings."""
    started = [c for c, launch in found if launch.line and not launch.program.startswith("script")]
    of_frameworks = [c for c, _ in found if c.framework is not HAND_WRITTEN and "group_size" in c.settings]
    if of_frameworks and all(c.framework is HAND_WRITTEN for c in started):
        return of_frameworks  # a script that creates no configuration only prepares a training run
    if any("group_size" in c.settings for c in started):
        return [c for c in started if c.keys]
    return [c for c, launch in found if launch.program != ENVIRONMENT] or [c for c, _ in found]


def _most_likely(found: list[tuple[Configuration, Launch]]) -> list[Configuration]:
    """Return the configuration to report if none is for reinforcement learning."""
    of_pairs = [pair for pair in found if pair[0].run_type == "preference"]
    of_pairs.sort(key=lambda pair: (pair[1].program == ENVIRONMENT, -len(pair[0].keys)))
    known = [pair for pair in found if pair[0].run_type != "none"]
    elsewhere = [pair for pair in found if pair[0].elsewhere]
    return [c for c, _ in (of_pairs or known or elsewhere or found)[:1]]


def _text(path: Path) -> str:
    script = path.suffix in ("", ".sh", ".bash", ".slurm", ".sbatch", ".py", ".toml")
    if path.suffix.lower() in LOGS:
        return _head(path)
    largest = LARGEST_SCRIPT if script else LARGEST_NOTEBOOK if path.suffix == ".ipynb" else LARGEST
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            raw = file.read(largest + 1)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from None
    if len(raw) > largest:
        raise ReadError(f"{path}: longer than {largest >> 10} KB, so not a configuration")
    if b"\0" in raw[:4096]:
        raise ReadError(f"{path}: binary, so not a configuration")
    return raw.decode("utf-8-sig", "replace")


def _of_document(found: list[Launch]) -> Iterator[Command]:
    """Yield the commands in a document, such as a SkyPilot or Kubernetes job."""
    for entry in found[0].entries if found else []:
        value = entry.value
        if isinstance(value, list) and sum(str(word).startswith("--") for word in value) > 1:
            yield Command([str(word) for word in value], entry.line)
            continue
        lines = value.lines if isinstance(value, Items) else repeat(entry.line)
        for text, line in zip(value if isinstance(value, list) else [value], lines, strict=False):
            if isinstance(text, str) and _COMMAND.search(text) and _PASSES.search(text):
                yield Command(text, line - ("\n" not in text))


def _inner(found: list[Launch], path: Path) -> list[Launch]:
    """Return the documents inside a document, such as the files of a Kubernetes ConfigMap."""
    held = {e.key: e for launch in found for e in launch.entries if isinstance(e.value, str) and "\n" in e.value}
    texts = {key: str(entry.value) for key, entry in held.items()}
    return documents(texts, path, "document", {key: entry.line for key, entry in held.items()})


def _commands(held: Iterable[Command], path: Path, written: Mapping[str, str] | None = None) -> list[Launch]:
    """Return the launches of the commands in a file that is not a shell script."""
    found: list[Launch] = []
    for said, before in islice(held, COMMANDS):
        launches = read_words(said, before, path) if isinstance(said, list) else read_shell(said, path, written)
        for launch in launches:
            if isinstance(said, str):
                launch.move(before)
            if launch.program != ENVIRONMENT and (launch.entries or launch.elsewhere):
                found.append(launch)
    return found


def _holding(launches: list[Launch]) -> list[Launch]:
    """Return the launches that contain settings. If no launch contains settings, return an empty launch with the notes
    of all launches."""
    holding = [launch for launch in launches if launch.entries or launch.elsewhere or launch.broken]
    holding = holding or [Launch("")]
    unread = [note for launch in launches if not (launch.entries or launch.elsewhere) for note in launch.notes]
    absent = list(dict.fromkeys(named for launch in launches for named in launch.absent))
    for launch in holding:
        launch.notes += [note for note in dict.fromkeys(unread) if note not in launch.notes]
        launch.complete &= not unread
        launch.absent = absent
    return holding


def _head(path: Path) -> str:
    """Return the start of a log, which may be compressed. Raises `ReadError`."""
    from .readers.log import LINES

    lines: list[str] = []
    for _, text in Input(path).lines():
        lines.append(text[:LARGEST_SCRIPT])
        if len(lines) == LINES:
            break
    return "\n".join(lines)


def _launches(path: Path, text: str) -> list[Launch]:
    match path.suffix.lower():
        case ".py":
            return _script(text, path)
        case ".ipynb":
            launches, commands, written = read_notebook(text, path)
            return launches + _commands(commands, path, written) + documents(written, path, "notebook")
        case ".yaml" | ".yml" | ".toml" | ".json":
            found = read_document(text, path)
            return found + _commands(_of_document(found), path) + _inner(found, path)
        case suffix if suffix in LOGS:
            from .readers.log import read_log

            return read_log(text, path)
        case ".sh" | ".bash" | ".slurm" | ".sbatch":
            return read_shell(text, path)
        case suffix if suffix in MARKDOWN:
            return _markdown(text, path)
    recipes = _MAKEFILE.fullmatch(path.name) is not None
    launches = read_shell(makefile(text) if recipes else text, path)
    if recipes or any(launch.entries or launch.absent for launch in launches):
        return launches
    if not path.suffix:  # for example, standard input
        with suppress(ReadError):
            return _launches(path.with_suffix(".yaml"), text)
        return launches
    note = f"a file that ends in {path.suffix} is read as shell commands, but it contains none"
    return [*launches, Launch("", notes=[note])]


def _markdown(text: str, path: Path) -> list[Launch]:
    """Read the code blocks of a comment or page, each in its language. A document, or flags without a command, may be
    an excerpt. Therefore, no defaults are added for absent settings."""
    rest, held = blocks(text)
    found: list[Launch] = []
    for block in [*held, Block(".sh", rest, 0)]:
        try:
            launches = _launches(path.with_suffix(block.suffix), block.text)
        except ReadError as error:
            launches = [Launch("", notes=[f"the block after line {block.before} was not read: {error}"])]
        for launch in launches:
            launch.move(block.before)
            launch.line += block.before if launch.line else 0
            launch.broken = None  # an excerpt may be cut off
            if launch.entries and not launch.program:
                launch.complete = False
                before = block.before or launch.entries[0].line - 1
                launch.notes.append(f"the block after line {before} may be an excerpt, so defaults are not applied")
        found += launches
    return found


def _script(text: str, path: Path) -> list[Launch]:
    launches, commands = read_python(text, path)
    return launches + _commands(commands, path)
