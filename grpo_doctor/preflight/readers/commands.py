"""Finds the commands that a Python script starts, as in ``subprocess.run([...])`` or ``os.system("...")``, without
running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ..expression import known
from ..frameworks import launchers
from ..launch import Command
from .definitions import CALLS, Definitions
from .modules import name_of

STARTS = frozenset(
    "system run call check_call check_output Popen popen getoutput create_subprocess_shell "
    "create_subprocess_exec".split()
)
"""Functions of the standard library that start a command."""
PROGRAMS = ("python", "torchrun", "accelerate", "deepspeed", "uv", "bash", "ray")
"""Programs with which a list of words must begin to count as a command that starts training."""
MANY = 50
"""Maximum number of commands per script."""
FLAGS = 4
"""Minimum number of flags in a text that counts as the arguments of a command."""
TEXTS = 10
"""Maximum number of texts per script that are evaluated to find the arguments of commands."""
DEPTH = 20
"""Maximum number of names and calls that are followed from an expression in a text to its value."""
WORDS = 500
"""Maximum number of words per command."""


def commands_of(script: Definitions) -> list[Command]:
    """Return the commands of a script, excluding imported modules."""
    return [command for _, command in zip(range(MANY), _commands(script), strict=False)]


def _commands(script: Definitions) -> Iterator[Command]:
    for words in script.lists:
        if words.lineno and len(said := _words(words, script)) > 2 and _starts(said):
            yield Command(said, words.lineno)
    yield from _flags_in_text(script)
    starting = (call for name, call in script.calls if name in STARTS and call.args and call.lineno)
    for call in islice(starting, MANY):
        script.at = call.lineno
        text = _text(call.args[0], script)
        if text is not None and text[:1] != "$":
            yield Command(text, call.lineno - 1)


def _flags_in_text(script: Definitions) -> Iterator[Command]:
    """Yield commands whose flags are passed to a function as one text, as in slime's scripts."""
    given = [(name, call, v) for name, call in script.calls if call.lineno for v in (*call.args, *_values(call))]
    begun = ((name, call, v) for name, call, v in given[:CALLS] if isinstance(v, _PUT_TOGETHER) and _flag(v, script))
    for name, call, value in islice(begun, TEXTS):
        script.at = call.lineno
        text = _text(value, script)
        if text is not None and text.count("--") >= FLAGS:
            yield Command(f"{name} {text}", call.lineno - 1)


_PUT_TOGETHER = (ast.Name, ast.JoinedStr, ast.BinOp)


def _values(call: ast.Call) -> Iterator[ast.expr]:
    return (keyword.value for keyword in call.keywords)


def _flag(node: ast.expr | None, script: Definitions) -> bool:
    """Return whether a text begins with a flag."""
    for _ in range(DEPTH):
        match node:
            case ast.Constant(value=str(word)):
                return word.lstrip().startswith("--")
            case ast.JoinedStr(values=[first, *_]) | ast.BinOp(op=ast.Add(), left=first):
                node = first
            case ast.FormattedValue(value=inner):
                node = inner
            case ast.Name():
                script.steps = 0
                node = script.lookup(node)
            case ast.Call():
                node = _returned(node, script)
            case _:
                return False
    return False


def _returned(call: ast.Call, script: Definitions) -> ast.expr | None:
    """Return the expression that a called function of the script returns, if the function has a single return
    statement."""
    returned = script.returned.get(name_of(call.func), [])
    return returned[0] if len(returned) == 1 else None


def of_magics(texts: Sequence[tuple[str, int]], script: Definitions) -> list[Command]:
    """Return the commands after ``!`` in IPython, with ``{name}`` and ``$name`` replaced by the script's variables."""

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


def _text(node: ast.expr, script: Definitions, depth: int = 0) -> str | None:
    """Return an expression as a word of a command. Unknown parts become variables."""
    if depth == DEPTH:
        return None
    if not depth:
        script.steps = 0  # the limit on lookups applies to the whole text
    match node:
        case ast.JoinedStr(values=parts):
            inner = (part.value if isinstance(part, ast.FormattedValue) else part for part in parts)
            return "".join(_text(part, script, depth + 1) or "$unknown" for part in inner)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            sides = [_text(side, script, depth + 1) for side in (left, right)]
            return None if sides == [None, None] else "".join(side or "$unknown" for side in sides)
    told, value = known(node, script.lookup)
    if told and isinstance(value, bool | int | float | str):
        return str(value)
    if isinstance(node, ast.Call) and name_of(node.func) == "str" and node.args:
        return _text(node.args[0], script, depth + 1)
    if isinstance(node, ast.Name) and isinstance(held := script.lookup(node), ast.JoinedStr | ast.BinOp):
        return _text(held, script, depth + 1)
    if isinstance(node, ast.Call) and isinstance(held := _returned(node, script), ast.JoinedStr | ast.BinOp):
        return _text(held, script, depth + 1)
    return "python" if isinstance(node, ast.Attribute) and node.attr == "executable" else None


def _starts(words: list[str]) -> bool:
    first = words[0].rsplit("/", 1)[-1]
    return first.startswith(PROGRAMS) or first in launchers() or any(word.endswith(".py") for word in words[:2])
