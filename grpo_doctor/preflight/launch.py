"""Represents the content of a configuration before it is interpreted with a framework's table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..readers import ReadError
from .versions import Pin

LARGEST_SCRIPT = 1 << 18
"""Maximum size of a script in bytes."""
MOST = 10_000
"""Maximum number of settings per configuration, because YAML aliases can multiply the number without limit."""

PER_PROMPT = re.compile(
    r"(?:num_|n_|number_of_)?(?:unique_)?"
    r"(?:rollout|generation|inference|gen|completion|response|resp|sample|answer|output|out|o|trajector|candidate|attempt|return)"
    r"(?:s|y|ies)?_per_(?:prompt|question|query|q|problem|task|example|instance|group|input|item)(?:_rollout)?"
    r"|(?:num_|n_)?(?:rollout|generation|gen|completion|response)s?_per_(?:sample|trial)"
    r"|(?:num_|n_)?(?:rollouts|completions|generations|trajectories)_per_"
    r"(?!(?:[a-z]+_)?(?:step|batch|epoch|iter|update|round|phase|stage|cycle|turn|episode|run|rollout|collect|call|request"
    r"|gpu|device|worker|node|rank|process|host|server|engine|replica|thread|actor|learner|agent|player|policy|model|env"
    r"|eval|val|test|checkpoint|log|save|file|shard|split|class|level|sec|min|hour|day|dataset))\w{1,20}"
)
"""Names that custom trainers use for the number of responses to one prompt."""


OF_RL = re.compile(
    r"(?i)grpo|ppo|rloo|rlvr|rlhf|dapo|gspo|cispo|reinforce|policy_?gradient|verl\b|(?:^|[^a-z])rl(?:[^a-z]|$)"
)
"""Matches words for reinforcement learning in the name of a program or class."""


class Unresolved(str):
    """The text of an expression that could not be evaluated."""


class Several(Unresolved):
    """The numbers of a sweep. Each run of the sweep uses one number. The text lists all numbers."""

    values: tuple[float, ...]

    def __new__(cls, values: Sequence[float]) -> Several:
        made = super().__new__(cls, f"one of {', '.join(map(str, values))}")
        made.values = tuple(values)
        return made


class Items(list[Any]):
    """The items of a list, with the line of each item."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting: its key as written (with dots if nested), its value and its line.

    ``value`` is a number, a word, None, a list of such values, or `Unresolved`. ``line`` is 0 if the setting is in
    another file.
    """

    key: str
    value: Any
    line: int


class Command(NamedTuple):
    """A command in a file: either shell text with the number of lines before it, or words with their line."""

    said: str | list[str]
    line: int


@dataclass
class Launch:
    """One training run that a file describes.

    Attributes:
        program: the words of a command, or the name of a Python call; empty for a document.
        entries: the settings. If a key occurs more than once, the first entry counts.
        line: the line of the command or call.
        complete: whether absent keys have the framework's defaults; false if a part of the launch was not read.
        notes: sentences about the parts that were not read.
        elsewhere: descriptions of other places that contain settings.
        absent: scripts that the launch starts, but that were not found.
        severed: lines of arguments that were read, although the shell does not pass them to the command above.
        forced: keys that a command adds to the program's configuration (``+key=value``).
        vague: keys that are parameters of functions whose names do not indicate training.
        folder: the working folder of the script that starts the training.
        followed: whether the files that the launch names were added.
        firm: number of entries that were passed to a program; all later entries are defaults of the program's script.
            None means that all entries were passed.
        title: name of the file, without the suffix.
        imports_rl: whether a script imports a framework's names for reinforcement learning.
        also: alternative names of a script's options, mapped to the main names.
        broken: the line that prevents a script from running, and the reason.
        versions: trainer libraries that this file or a file next to it pins to a version.
    """

    program: str
    entries: list[Entry] = field(default_factory=list)
    line: int = 1
    complete: bool = True
    notes: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    severed: list[int] = field(default_factory=list)
    forced: set[str] = field(default_factory=set)
    vague: set[str] = field(default_factory=set)
    folder: str = ""
    followed: bool = False
    firm: int | None = None
    title: str = ""
    versions: dict[str, Pin] = field(default_factory=dict)
    imports_rl: bool = False
    also: dict[str, str] = field(default_factory=dict)
    broken: tuple[int, str] | None = None

    def add(self, key: str, value: Any, line: int) -> None:
        """Add a setting. Raises `ReadError` if there are more than `MOST` settings."""
        if len(self.entries) >= MOST:
            raise ReadError(f"more than {MOST} settings, so not a configuration")
        self.entries.append(Entry(key, value, line))

    def move(self, lines: int) -> None:
        """Shift the lines of this launch by the number of lines that precede the launch in its file."""
        self.entries = [Entry(e.key, e.value, e.line and e.line + lines) for e in self.entries]
        self.severed = [line + lines for line in self.severed]


def scalar(text: str) -> Any:
    """Parse a word as a number, a truth value or None. A word of another form stays unchanged."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if len(word) > 40 or (not word[:1].lstrip("+-.").isdigit() and not word[1:2].isdigit()):
        return word
    try:
        return int(word.replace("_", ""))
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


_WORDS = {"true": True, "false": False, "null": None, "none": None, "~": None, "": None}
