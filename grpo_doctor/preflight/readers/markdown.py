"""Extracts the code blocks of a Markdown document, such as an issue comment, with the file suffix of each block.

Code without a fence is recognised by its lines, which contain YAML keys, or flags without a backslash at the end of the
previous line.
"""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

_FENCED = re.compile(
    r"(?ms)^[ \t]{0,9}(?P<fence>`{3,9}|~{3,9})[ \t]*(?P<language>[\w+\-]{0,20})[^\n`]{0,100}\n"
    r"(?P<text>.*?)(?:^[ \t]{0,9}(?P=fence)[ \t]*$|\Z)"
)
_SPAN = re.compile(r"(?<!`)`(?P<text>[^`\n]*+\n[^`]*+)`(?!`)")
"""Matches inline code that spans several lines, which some users write instead of a code block."""
_SUFFIXES = {
    **dict.fromkeys(("python", "py", "python3", "ipython"), ".py"),
    **dict.fromkeys(("yaml", "yml"), ".yaml"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console"), ".sh"),
    "json": ".json",
    "toml": ".toml",
}
_PYTHON = re.compile(r"(?m)^[ \t]*+(?:from [\w.]+ import|import \w)|\w(?:Config|Arguments|Args)\(")
_YAML = re.compile(r"(?m)^[ \t]*[\w.\-]{2,60}:(?:[ \t]+[^\s{\[|].*)?$")
_UNFENCED = re.compile(
    r"(?m)^(?P<text>[a-z][\w.\-]{1,60}:(?:[ \t].*)?$(?:\n(?:[ \t]*(?:#.*|- .*|[a-z_][\w.\-]{0,60}:(?:[ \t].*)?)?$))*)"
)
"""Matches lines of YAML between lines of prose: lowercase keys, list items, comments and empty lines."""
_OVERRIDES = re.compile(r"(?m)^.*\b(?P<text>overrides: \[.*\])[ \t]*$")
"""Matches a list of overrides on one line, as in the output of Hydra."""
_LINK = re.compile(r"\[([^\[\]\n]{0,200})\]\(https?://[^\s()]{1,500}\)")
_UNCONTINUED = re.compile(r"(?<=[^\s\\])[ \t]*\n(?=[ \t]*--[a-z][\w.\-]*)")
"""Matches a line break before a line of flags if the previous line does not end with the backslash that a shell
requires."""
FEWEST = 3
"""Minimum number of ``key: value`` lines in a block without a language that counts as a document."""


class Block(NamedTuple):
    """A code block: its file suffix, its text, and the number of lines before it."""

    suffix: str
    text: str
    before: int


def blocks(text: str) -> tuple[str, list[Block]]:
    """Return the shell text of a document, with unchanged line numbers, and the blocks in other languages."""
    found: list[Block] = []

    def take(match: re.Match[str]) -> str:
        code = match["text"]
        suffix = _SUFFIXES.get(match.groupdict().get("language", "").lower()) or _suffix(code)
        if suffix == ".sh":
            return match[0]
        found.append(Block(suffix, code, match.string.count("\n", 0, match.start("text"))))
        return "\n" * match[0].count("\n")

    def take_overrides(match: re.Match[str]) -> str:
        found.append(Block(".yaml", match["text"], match.string.count("\n", 0, match.start())))
        return ""

    def take_document(match: re.Match[str]) -> str:
        return take(match) if len(_YAML.findall(match["text"])) >= FEWEST else match[0]

    rest = _SPAN.sub(take, _FENCED.sub(take, text))
    rest = _UNFENCED.sub(take_document, _OVERRIDES.sub(take_overrides, _LINK.sub(r"\1", rest)))
    return _UNCONTINUED.sub(" \\\\\n", rest), found


def _suffix(code: str) -> str:
    """Guess the file suffix of code without a language."""
    if _PYTHON.search(code):
        return ".py"
    if len(_YAML.findall(code)) >= FEWEST:
        return ".yaml"
    try:
        return ".toml" if len(tomllib.loads(code)) >= FEWEST else ".sh"
    except (ValueError, RecursionError):
        return ".sh"
