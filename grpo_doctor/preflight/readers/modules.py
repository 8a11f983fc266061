"""Parses Python into syntax trees, skipping statements that do not parse, and finds imported modules in the same
folder."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Container, Iterator
from functools import lru_cache
from pathlib import Path

from ...readers import ReadError
from .nearby_files import around, beside, text_of

TOKENS = 60_000
"""Maximum number of tokens per script, which limits the time spent on parsing."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
BROKEN = 3
"""Maximum number of statements that do not parse. A text with more of these statements does not count as Python."""
SIBLINGS = 8
"""Maximum number of imported modules in the same folder that are read."""
LENGTH = 100_000
"""Total length of the imported modules, in characters, above which no further module is read."""
IMPORTS = 500
"""Maximum number of imported names that are searched for in the folder of a script."""


def parsed(text: str) -> tuple[ast.Module, list[int]]:
    """Return the syntax tree of a text, and the lines of statements that were omitted because their syntax is too new
    or invalid.

    Raises `ReadError` if the text has more than `TOKENS` tokens.
    """
    if len(text) > TOKENS and len(_TOKEN.findall(text)) > TOKENS:
        raise ReadError(f"more than {TOKENS} Python tokens, so not a configuration")
    lines = text.split("\n")
    if next((line for line in lines if line.strip() and line.lstrip()[0] != "#"), "")[:1] in (" ", "\t"):
        tree, left_out = parsed(f"if True:\n{text}")  # the text is an excerpt of a function
        return ast.increment_lineno(tree, -1), [line - 1 for line in left_out]
    left_out = []
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse("\n".join(lines)), left_out
        except SyntaxError as error:
            line = error.lineno or 0
            if not 0 < line <= len(lines) or len(left_out) == BROKEN or not lines[line - 1].strip():
                raise
            if (older := _older_f_string(lines[line - 1])) != lines[line - 1]:
                lines[line - 1] = older
                continue
            left_out.append(line)
            first = next((n for n in range(line - 1, -1, -1) if _begins(lines[n])), 0)
            last = next((n for n in range(line, len(lines)) if _begins(lines[n])), len(lines))
            lines[first:last] = [""] * (last - first)


_F_STRING = re.compile(r"""\b[rR]?[fF](["'])""")
_WITHIN = {quote: re.compile(rf"""(\{{[^{{}}{quote}]{{0,200}}){quote}([^{{}}"']{{0,200}}){quote}""") for quote in "\"'"}
"""Match a string that is nested in an f-string and uses the same quote character."""


def _older_f_string(line: str) -> str:
    """Return a line in which strings nested in an f-string use the other quote character, because Python before 3.12
    rejects nested quotes of the same kind."""
    opened = _F_STRING.search(line)
    if opened is None:
        return line
    other = "'" if opened[1] == '"' else '"'
    while (older := _WITHIN[opened[1]].sub(rf"\1{other}\2{other}", line)) != line:
        line = older
    return line


_CANNOT = ("was never closed", "expected an indented block", "unexpected indent", "unindent", "unmatched")
"""Python's error messages for a script that no version can run. Newer syntax causes other messages."""


def cannot_run(text: str) -> tuple[int, str] | None:
    """Return the line at which every Python version rejects a script, and the error message."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        newer = error.msg.startswith("f-string")  # before 3.12: nested quotes of the same kind
        refused = not newer and any(words in error.msg for words in _CANNOT)
        return (error.lineno or 1, error.msg) if refused else None
    except (ValueError, RecursionError, MemoryError):
        return None
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given: set[str] = set()
        for keyword in call.keywords:
            if keyword.arg in given:
                return keyword.lineno, f"keyword argument repeated: {keyword.arg}"
            given |= {keyword.arg} if keyword.arg else set()
    return None


def siblings(trees: list[ast.Module], path: Path) -> list[ast.Module]:
    """Return the imported modules in the same folder, and the modules that they import in turn. All line numbers are
    set to 0."""
    found: dict[Path, ast.Module] = {}
    waiting = [(path, tree) for tree in trees]
    looked_for = length = 0
    here = around(path)
    while waiting:
        origin, tree = waiting.pop(0)
        for node in statements(tree):
            for module in _imported(node):
                looked_for += 1
                if looked_for > IMPORTS:
                    break
                named = module.replace(".", "/")
                if not {top := named.split("/", 1)[0], f"{top}.py"} & here:
                    continue
                at = beside(origin, named, (".py",)) or beside(origin, f"src/{named}", (".py",))
                text = text_of(at) if at and at != path and at not in found and len(found) < SIBLINGS else None
                if at is None or text is None or length > LENGTH:
                    continue
                length += len(text)
                try:
                    found[at] = _elsewhere(text)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue  # the affected settings are reported as unresolved
                waiting.append((at, found[at]))
    return list(found.values())


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement of a tree, including nested statements, but excluding expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            held = getattr(node, part, None)
            waiting += reversed(held) if isinstance(held, list) else []


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.ImportFrom(module=str(module), names=names):
            return [module, *(f"{module}.{alias.name}" for alias in names)]
        case ast.ImportFrom(names=names):
            return [alias.name for alias in names]
        case ast.Import(names=names):
            return [alias.name for alias in names]
    return []


def _begins(line: str) -> bool:
    """Return whether a module-level statement begins on a line."""
    return bool(line) and (line[0].isalpha() or line[0] in "_@") and not line.startswith(("else", "elif", "except"))


def plain(text: str) -> str:
    """Return the text with IPython magics replaced by empty statements of the same indentation."""
    if not re.search(r"^[ \t]*[!%]", text, re.MULTILINE) or _is_python(text):
        return text
    return "\n".join(bare for _, bare, _ in _magic(text))


def magics(text: str) -> list[tuple[str, int]]:
    """Return the commands that IPython runs after ``!`` and ``%run``, each with the number of lines before it."""
    if not re.search(r"^[ \t]*(?:!|%run)", text, re.MULTILINE) or _is_python(text):
        return []
    found: list[tuple[str, int]] = []
    for number, (line, _, begins) in enumerate(_magic(text)):
        command = re.match(r"\s*(?:!|%run\s)(.*)", line) if begins else None
        if command is not None:
            found.append((command[1] if "!" in line[: command.start(1)] else f"python {command[1]}", number))
        elif begins is None and found:
            found[-1] = (f"{found[-1][0]}\n{line}", found[-1][1])
    return found


def _magic(text: str) -> Iterator[tuple[str, str, bool | None]]:
    """Yield each line, the line without IPython syntax, and whether IPython syntax begins on the line (None if it
    continues)."""
    going = False
    for line in text.split("\n"):
        bare = line.lstrip()
        begins = not going and bare.startswith(("!", "%"))
        yield line, line[: len(line) - len(bare)] + "pass" if begins or going else line, None if going else begins
        going = (begins or going) and bare.rstrip().endswith("\\")


def _is_python(text: str) -> bool:
    """Return whether a text is valid Python without changes, because a line that begins with ``%`` may continue an
    expression."""
    try:
        return not parsed(text)[1]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def walk(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield every statement, call, dictionary and list in source order, with the name of the enclosing class, function
    or variable."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, _MEANT):
            yield node, inside
            match node:
                case ast.ClassDef(name=name):
                    inside = f"class {name}"
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    inside = name
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() | ast.Call() as held)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() | ast.Call() as held)
                ) if isinstance(held, ast.Dict) or is_dict(held):
                    inside = name
        stack += [(part, inside) for part in reversed(list(ast.iter_child_nodes(node)))]


_MEANT = (ast.stmt, ast.Call, ast.Dict, ast.List)


def name_of(function: ast.expr) -> str:
    """Return the last part of a name, such as ``Config`` for ``module.Config``; empty if the expression has no name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def is_dict(node: ast.expr) -> bool:
    """Return whether an expression is a call of ``dict``."""
    return isinstance(node, ast.Call) and name_of(node.func) == "dict"


def as_dict(call: ast.Call, apart: Container[str] = ()) -> ast.Dict:
    """Return the call ``dict(given, a=1, **more)`` as the dictionary ``{**given, "a": 1, **more}``.

    The names in ``apart`` are left out.
    """
    keywords = [k for k in call.keywords if k.arg is None or k.arg not in apart]
    given = call.args[:1] if is_dict(call) else []
    keys: list[ast.expr | None] = [ast.Constant(value=k.arg) if k.arg else None for k in keywords]
    return ast.Dict(keys=[*[None for _ in given], *keys], values=[*given, *(k.value for k in keywords)])


@lru_cache(maxsize=2 * SIBLINGS)
def _elsewhere(text: str) -> ast.Module:
    """Return the syntax tree of an imported module, with all line numbers set to 0. The tree is cached, because several
    scripts may import the module."""
    tree = parsed(text)[0]
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = 0
    return tree
