"""Keeps internal errors from stopping the user's training, and limits the effect of an error to the input that caused
it."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class FaultGuard:
    """Runs grpo-doctor's own code until an error occurs, and runs nothing afterwards."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """The traceback of the failure."""

    def __call__(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
        """Return the function's result, or None if it fails or an earlier function failed."""
        if self.failure is not None:
            return None
        try:
            return function(*arguments, **named)
        except Exception:  # noqa: BLE001 - the only place that catches everything: no internal error may end training
            self.failure = traceback.format_exc()
            return None


def bug(error: Exception) -> str:
    """Describe an internal error and its location."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {words_of(error)} ({Path(frame.filename).name}:{frame.lineno})"


def words_of(error: BaseException) -> str:
    """Return the message of an error, even if its class, which may be the user's, fails to produce a message."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - __str__ may be user code
        return "(the error has no readable message)"


def unwatched(failure: str, where: str) -> str:
    """Return the message that is printed once when training continues without checks."""
    return (
        f"grpo-doctor failed {where}; the training goes on UNWATCHED, and no action of grpo-doctor will stop it.\n"
        "Your training is not at fault. If the last line below names a full disk or a missing permission, fix that; "
        "otherwise, please report it with these lines and the versions of grpo-doctor and of the trainer.\n"
        f"{failure}"
    )


def tell(words: Any) -> None:
    """Print to stderr if possible. A closed or broken stream is not an error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, full or closed; None under pythonw
        print(words, file=sys.stderr, flush=True)
