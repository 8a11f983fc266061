"""Converts Dockerfiles to shell scripts: RUN instructions become commands, and settings become variables."""

from __future__ import annotations

import json
import re
import shlex

NAMES = re.compile(r"(?i)(?:docker|container)file(?:\..*)?|.*\.(?:docker|container)file")
"""Names of Dockerfiles."""
_INSTRUCTION = re.compile(r"\s*(RUN|CMD|ENTRYPOINT|ENV|ARG)\s+(.*)", re.IGNORECASE | re.DOTALL)
_PAIR = re.compile(r"(\w+)\s+([^=]*)")


def dockerfile(text: str) -> str:
    """Return a shell script with the commands and variables of a Dockerfile on the same lines."""
    lines: list[str] = []
    entry: tuple[int, list[str]] | None = None
    for line, length in _instructions(text):
        said, words, known = "", None, _INSTRUCTION.fullmatch(line)
        if known is not None and known[1].upper() in ("ENV", "ARG"):
            pair = _PAIR.fullmatch(known[2].strip())
            said = f"{pair[1]}={shlex.quote(pair[2])}" if pair else known[2]
        elif known is not None:
            words = _array(known[2])
            said = known[2] if words is None else shlex.join(words)
        if words is not None and known is not None and known[1].upper() == "CMD" and entry is not None:
            lines[entry[0]], said = shlex.join([*entry[1], *words]), ""  # arguments of the entry point
        if words is not None and known is not None and known[1].upper() == "ENTRYPOINT":
            entry = (len(lines), words)
        lines += [said, *[""] * (length - 1 - said.count("\n"))]
    return "\n".join(lines)


def _instructions(text: str) -> list[tuple[str, int]]:
    """Return the instructions, each with its number of lines."""
    found: list[tuple[str, int]] = []
    held: list[str] = []
    for line in text.split("\n"):
        held.append(line)
        if not line.rstrip().endswith("\\"):
            found.append(("\n".join(held), len(held)))
            held = []
    return [*found, ("\n".join(held), len(held))] if held else found


def _array(said: str) -> list[str] | None:
    """Return the words of a list such as ``["python", "train.py"]``, or None if the text is not such a list."""
    try:
        words = json.loads(said.replace("\\\n", " ")) if said.lstrip()[:1] == "[" else None
    except ValueError:
        return None
    return [str(word) for word in words] if isinstance(words, list) and words else None
