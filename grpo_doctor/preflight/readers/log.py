"""Reads configurations from logs: dumps of mappings and arguments, Megatron tables, and commands after ``+``.

A dump contains every setting of the run, so defaults are not added for absent settings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ...readers.formats.verl_console import Config
from ..launch import Launch, scalar
from .document import flat
from .shell import read_shell

LINES = 20_000
"""Number of lines at the start of a log that are searched for configurations."""
LONGEST = 4_000
"""Maximum number of lines per dump."""
_DUMP = re.compile(r"(?:^|[\s:=])(Namespace|RLHFArguments|\w*(?:GRPO|RLOO|PPO)\w*(?:Config|Args|Arguments))\((.*)$")
_PREFIX = re.compile(r"^(?:\([^()]{1,60}\)\s?|\[[^\[\]]{1,60}\]:?\s?)+")
_FIELD = re.compile(r"^\s*(\w{2,60})=(.*?),?\s*$")
_DOTTED = re.compile(r"^\s*([a-z]\w{1,60}) \.{3,} (\S.{0,300})$")
_ENUMERATION = re.compile(r"<[\w.]{1,80}: ('[^'<>]{0,80}'|\d{1,9})>")
_ECHOED = re.compile(r"^\++ (?=\S)")
COMMANDS = 100
"""Maximum number of echoed commands and argument dumps."""
WIDEST = 100_000
"""Maximum total length, in characters, of the dumps on one line."""
FEWEST = 5
"""Minimum number of settings in a table of arguments."""


def read_log(text: str, path: Path) -> list[Launch]:
    """Return a launch for every configuration that a log contains."""
    lines = [_PREFIX.sub("", line) for line in text.split("\n")[:LINES]]
    echoing = [number for number, line in enumerate(lines) if _ECHOED.match(line)][:COMMANDS]
    last = echoing[-1] + 1 if echoing else 0
    echoed = "\n".join(_ECHOED.sub("", line) if _ECHOED.match(line) else "" for line in lines[:last])
    commands = [launch for launch in read_shell(echoed, path) if launch.program != "script environment"]
    return [*_mappings(lines), *_arguments(lines), *_tables(lines), *commands]


def _mappings(lines: list[str]) -> Iterator[Launch]:
    """Yield a launch for each mapping that spans several lines, as printed by verl, NeMo-RL and EasyR1."""
    reader, start = Config(), 0
    for number, line in enumerate(lines, 1):
        if not reader.open:
            start = number
        mapping = reader.see(line)
        if mapping is not None and any(isinstance(value, dict) for value in mapping.values()):
            yield _launch("", list(flat(mapping)), start)


def _arguments(lines: list[str]) -> Iterator[Launch]:
    """Yield a launch for each ``Namespace(k=8, …)``, and for each ``GRPOConfig(`` with one field per line, as printed
    by transformers."""
    dumps = ((number, found) for number, line in enumerate(lines, 1) if (found := _DUMP.search(line[:WIDEST])))
    left = WIDEST
    for number, found in islice(dumps, COMMANDS):
        left -= len(found[2])
        if left < 0:
            return
        fields = _inline(found[2]) if found[2].strip() else _fields(lines[number : number + LONGEST])
        if fields:
            yield _launch("" if found[1] == "Namespace" else found[1], fields, number)


def _inline(rest: str) -> list[tuple[str, Any]]:
    """Return the literal arguments of a call on one line."""
    body = _ENUMERATION.sub(r"\1", rest.rstrip())
    body = body[: body.rfind(")") + 1] if ")" in body else body + ")"
    try:
        call = ast.parse(f"f({body}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    pairs: list[tuple[str, Any]] = []
    for keyword in call.keywords if isinstance(call, ast.Call) else []:
        try:
            pairs.append((keyword.arg or "", ast.literal_eval(keyword.value)))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    return [(key, value) for name, given in pairs if name for key, value in flat(given, name)]


def _fields(lines: list[str]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for line in lines:
        if line.strip().startswith(")") or _DUMP.search(line[:200]):
            break
        if (found := _FIELD.match(line)) is not None:
            pairs.append((found[1], scalar(_ENUMERATION.sub(r"\1", found[2]).strip("'\""))))
    return pairs


def _tables(lines: list[str]) -> Iterator[Launch]:
    """Yield a launch for the lines ``name ...... value``, as printed by Megatron and by frameworks that use it, such as
    slime."""
    found = [(number, match) for number, line in enumerate(lines, 1) if (match := _DOTTED.match(line)) is not None]
    if len(found) >= FEWEST:
        yield _launch("", [(match[1], scalar(match[2])) for _, match in found], found[0][0])


def _launch(program: str, pairs: list[tuple[str, Any]], line: int) -> Launch:
    launch = Launch(program, line=0, complete=False)
    for key, value in pairs[:9_000]:
        launch.add(key, value, line)
    return launch
