"""Runs one call of the server in a separate process, so that its side effects end with the process.

The worker reads a `Call` as a line of JSON from standard input, and writes an `Answer` to standard output. All other
output goes to standard error. The worker ends when the server closes the worker's standard input.
"""

from __future__ import annotations

import os
import signal
from io import FileIO
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from ..fault_isolation import bug, words_of
from ..probes import AdapterError
from ..report.redaction import one_line
from . import answers

PATHS = frozenset({"path", "base", "new", "adapter"})
"""The path arguments of `answers`."""


class Call(msgspec.Struct):
    """A call: a function of `answers`, its arguments, and the allowed folders."""

    name: str
    arguments: dict[str, Any]
    folders: list[str]


class Answer(msgspec.Struct):
    """The result of a call, or a one-line error."""

    result: Any = None
    error: str = ""


def main() -> None:
    """Answer one call, while standard input and output are reserved for it."""
    server = os.fdopen(os.dup(0), "rb", buffering=0)
    call = msgspec.json.decode(server.readline(), type=Call)
    Thread(target=_end_with, args=(server,), daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as output, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        output.write(msgspec.json.encode(answered(call)) + b"\n")


def _end_with(server: FileIO) -> None:
    """End this process and its children when the server ends."""
    server.read()
    os.killpg(0, signal.SIGKILL) if os.name == "posix" else os._exit(1)


def answered(call: Call) -> Answer:
    """Return the result of a call or a one-line error. An adapter may raise any exception, including SystemExit."""
    try:
        for name, word in call.arguments.items():
            if name in PATHS:
                _refuse(name, word, [Path(folder) for folder in call.folders])
        return Answer(getattr(answers, call.name)(**call.arguments))
    except (ValueError, OSError, AdapterError) as error:
        return Answer(error=one_line(str(error)))
    except Exception as error:  # noqa: BLE001 - the boundary of the process: an internal error becomes one line
        return Answer(error=one_line(f"this is a bug in grpo-doctor, not in your run: {bug(error)}"))
    except BaseException as error:  # noqa: BLE001 - only user code raises these
        return Answer(error=one_line(f"the adapter raised {type(error).__name__}: {words_of(error)}"))


def _refuse(name: str, word: str, folders: list[Path]) -> None:
    """Raise `ValueError` unless the path is a file or folder in the allowed folders."""
    if not word.strip() or "\0" in word:
        raise ValueError(f"{name}: {word!r} is not a path; pass a file or a folder")
    if word.startswith("~"):
        raise ValueError(f"{name}: {word}: ~ is not expanded; pass the full path")
    path = Path(word)
    place = path.resolve()
    if not any(place.is_relative_to(folder) for folder in folders):
        raise ValueError(
            f"{name}: {word} is outside the workspace ({', '.join(map(str, folders))}); ask the user to start the "
            "server with --allow FOLDER if it may be read"
        )
    if not path.exists():
        raise ValueError(f"{name}: {word}: no such file or folder")
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"{name}: {word} is a pipe, a socket or a device; pass a file or a folder")
