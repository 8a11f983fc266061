"""Tracks which branches of a shell script certainly run, and the values of variables after the branches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from .variables import SEVERAL, joined


@dataclass
class _Branch:
    """An open ``if`` or ``case``.

    Attributes:
        taken: True if the current branch certainly runs, False if it certainly does not run, and None if unknown.
        ruled_out: whether an earlier branch certainly runs.
        unsure: whether an earlier branch may run.
        before: the variables at the start of a branch that does not run; otherwise None.
        of_options: whether the branch is a ``case`` over the arguments of the script.
    """

    taken: bool | None = None
    ruled_out: bool = False
    unsure: bool = False
    before: dict[str, str] | None = None
    of_options: bool = False


class Branches:
    """Tracks which assignments of a script are in a branch that may not run."""

    def __init__(self) -> None:
        self.open: list[_Branch] = []
        self.chosen: set[str] = set()

    def see(self, words: list[str], environment: dict[str, str], goes_on: bool = False) -> None:
        """Process the words of a statement that may open or close a branch. ``goes_on`` is true if ``&&`` or ``||``
        follows."""
        first = words[0] if words else ""
        if first in ("if", "case"):
            self.open.append(_Branch())
            self._enter(_decided(words) if first == "if" and not goes_on else None, environment)
        elif first in ("elif", "else") and self.open:
            branch = self._leave(environment)
            decided = None if goes_on else _decided(words) if first == "elif" else True
            self._enter(False if branch.ruled_out else None if branch.unsure and decided else decided, environment)
        elif first in ("fi", "esac") and self.open:
            self._leave(environment)
            self.open.pop()

    def option(self, given: bool, environment: dict[str, str]) -> None:
        """Enter a branch of a ``case`` over the arguments. ``given`` is whether the option was passed."""
        self._leave(environment)
        self._enter(given, environment)

    def _enter(self, taken: bool | None, environment: dict[str, str]) -> None:
        branch = self.open[-1]
        branch.taken = taken
        branch.before = dict(environment) if taken is False else None

    def _leave(self, environment: dict[str, str]) -> _Branch:
        branch = self.open[-1]
        branch.ruled_out |= branch.taken is True
        branch.unsure |= branch.taken is None
        if branch.before is not None:
            environment.clear()
            environment.update(branch.before)
        return branch

    def value(self, name: str, value: str, environment: dict[str, str]) -> str:
        """Return the value of a variable after an assignment. A branch that may not run does not change an earlier
        value. If two branches set different values, the result contains both."""
        before = environment.get(name, "")
        if all(branch.taken is not None for branch in self.open):
            self.chosen.discard(name)
            return value
        if name not in self.chosen and before and not before.startswith("$"):
            return before
        self.chosen.add(name)
        if (not before or before.startswith("$")) and _UNKNOWN.fullmatch(value):
            return f"${name}"  # a later default applies
        return value if not before or before.startswith("$") else joined((before, value))

    @property
    def closed(self) -> bool:
        """Return whether the current statements certainly do not run."""
        return any(branch.taken is False for branch in self.open)


def _decided(words: list[str]) -> bool | None:
    """Return whether the condition ``[[ a == b ]]`` is true, or several such conditions joined by ``||`` or ``&&``.

    Return None if a value is unknown or the condition has another form.
    """
    inner = list(words[2:-1]) if words[1:2] in (["["], ["[["]) and words[-1] in ("]", "]]") else []
    signs = {word for word in inner if word in ("||", "&&")}
    if not inner or len(signs) > 1:
        return None
    parts = [_holds(list(part)) for joint, part in groupby(inner, lambda word: word in signs) if not joint]
    settles = "||" in signs
    if settles in parts:
        return settles
    return None if None in parts else not settles


def _holds(words: list[str]) -> bool | None:
    match words:
        case [left, ("=" | "==" | "!=") as sign, right] if not _UNSURE.search(left + right):
            return (left == right) == (sign != "!=")
    return None


_UNKNOWN = re.compile(r"\$\w+|\$\{\w+\}|\$\(.*\)", re.DOTALL)
_UNSURE = re.compile(rf"[$`*?{SEVERAL}]")
