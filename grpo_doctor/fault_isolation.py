"""Where the doctor's own failures end: inside someone else's training, and at the one input that they came with."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Boundary:
    """Runs the doctor's own code until something fails in it, whatever that is; from then on it runs nothing."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """The traceback of what failed."""

    def __call__(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
        """What the function returns; None where it fails, or anything failed before."""
        if self.failure is not None:
            return None
        try:
            return function(*arguments, **named)
        except Exception:  # noqa: BLE001 - the one place that catches everything: a training must not end by its doctor
            self.failure = traceback.format_exc()
            return None


def bug(error: Exception) -> str:
    """What broke and where in the code, for an error that is grpo-doctor's own."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {words_of(error)} ({Path(frame.filename).name}:{frame.lineno})"


def words_of(error: BaseException) -> str:
    """What an error says; one of a user's own class may fail to say anything."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - its __str__ is the user's code
        return "(its own words cannot be had)"


def unwatched(failure: str, where: str) -> str:
    """What is said, once, when a training goes on without the doctor."""
    return (
        f"grpo-doctor failed {where}; the training goes on UNWATCHED, and no action of the doctor will stop it.\n"
        "The fault is not in your training. If the last line below names a full disk or a missing permission, mend "
        "that; else please report it with these lines and the versions of grpo-doctor and of the trainer.\n"
        f"{failure}"
    )


def tell(words: Any) -> None:
    """Prints to stderr where anyone can still read it: a closed or broken stream is no reason to fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # broken or full; closed; None under pythonw
        print(words, file=sys.stderr, flush=True)
