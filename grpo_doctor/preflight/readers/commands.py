"""The commands that a Python script starts: ``subprocess.run([...])``, ``os.system("...")``. None of them is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ..entry import Command
from ..expression import known
from .definitions import Definitions
from .modules import name_of

STARTS = frozenset(
    "system run call check_call check_output Popen popen getoutput create_subprocess_shell "
    "create_subprocess_exec".split()
)
"""Functions of the standard library that start a command."""
PROGRAMS = ("python", "torchrun", "accelerate", "deepspeed", "uv", "trl", "swift", "bash", "ray", "axolotl")
"""What a list of words begins with that starts a training."""
MANY = 50
"""Commands of one script at most."""
WORDS = 500
"""Words of one command at most."""


def commands_of(script: Definitions) -> list[Command]:
    """The commands of a script, those of the modules beside it left out."""
    return [command for _, command in zip(range(MANY), _commands(script), strict=False)]


def _commands(script: Definitions) -> Iterator[Command]:
    for words in script.lists:
        if words.lineno and len(said := _words(words, script)) > 2 and _starts(said):
            yield Command(said, words.lineno)
    for name, call in script.calls:
        if name in STARTS and call.args and call.lineno:
            script.at, script.steps = call.lineno, 0
            text = _text(call.args[0], script)
            if text is not None and text[:1] != "$":
                yield Command(text, call.lineno - 1)


def of_magics(texts: Sequence[tuple[str, int]], script: Definitions) -> list[Command]:
    """Commands behind ``!`` of IPython, which fills in ``{name}`` and ``$name`` from the script's variables."""

    def filled(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in script.values:
            return f"${name}"
        script.at, script.steps = 1 << 30, 0
        return _text(ast.Name(id=name), script) or f"${name}"

    return [Command(re.sub(r"\{(\w+)\}|\$(\w+)", filled, text), before) for text, before in texts[:MANY]]


def _words(node: ast.List, script: Definitions) -> list[str]:
    script.at = node.lineno
    return [_text(item, script) or f"${name_of(item) or 'unknown'}" for item in node.elts[:WORDS]]


def _text(node: ast.expr, script: Definitions) -> str | None:
    """The word that an expression comes to; what cannot be told in it stands there as a variable."""
    script.steps = 0
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
        return "".join(_text(part, script) or "$unknown" for part in parts)
    told, value = known(node, script.lookup)
    if told and isinstance(value, bool | int | float | str):
        return str(value)
    if isinstance(node, ast.Call) and name_of(node.func) == "str" and node.args:
        return _text(node.args[0], script)
    if isinstance(node, ast.Name) and isinstance(held := script.lookup(node), ast.JoinedStr):
        return _text(held, script)
    return "python" if isinstance(node, ast.Attribute) and node.attr == "executable" else None


def _starts(words: list[str]) -> bool:
    first = words[0].rsplit("/", 1)[-1]
    return first.startswith(PROGRAMS) or any(word.endswith(".py") for word in words[:2])
