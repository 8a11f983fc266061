"""Resolves the names of a script: values, options, fields, and dictionaries with their items.

The script is not executed. Names are traced to expressions in the script, in modules in the same folder, or in
configurations that the script loads.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from pathlib import Path

from ...limits import spent
from ...readers import ReadError
from ..expression import evaluate, known
from ..launch import Entry, Launch
from .document import read_document
from .modules import as_dict, is_dict, name_of
from .nearby_files import beside, text_of
from .symbols import MAPPINGS, Branch, Change, Symbols

PATIENCE = 500
"""Maximum number of name lookups per setting, because names can refer to each other in a cycle."""
CALLS = 2_000
"""Maximum number of calls that are searched for the value of a parameter."""
SETTINGS = re.compile(r"(?i)(?:\w*_)?(?:config|cfg|args|arguments|conf|hparams|params|flags)")
"""Names of variables that usually contain the settings of a script."""
LONGEST_PATH = 12
"""Maximum number of keys in the path to an item of a configuration."""
VALUES = 50
"""Maximum number of values per name, and of changes per dictionary. The last values and changes are kept."""
LINKS = 10
"""Maximum length of a chain of names that refer to each other."""
DOCUMENTS = 4
"""Maximum number of configurations that are read for a script."""
_LOADS = re.compile(r"yaml|OmegaConf|toml|json\.load|hydra|(?i:load_config)")
_DOCUMENT = re.compile(
    r"(?!.*(?:deepspeed|accelerate|zero\d|tokenizer|dataset|result))[\w./\-]{1,120}\.(?:ya?ml|toml|json)"
)


class Definitions(Symbols):
    """Resolves the names of a script and of modules in the same folder.

    Attributes:
        at: the line of the lookup. Assignments after this line do not count.
        inside: the function that contains the lookup.
        steps: number of names looked up for the current setting.
        deciding: branches whose condition is being evaluated.
    """

    def __init__(self, trees: list[ast.Module], text: str, path: Path | None) -> None:
        super().__init__(trees, text, path)
        self.at = self.steps = 0
        self.inside = ""
        self.deciding: list[Branch] = []
        self._around: dict[int, list[Branch]] = {}

    def instantiated_fields(self) -> list[tuple[str, ast.expr, int]]:
        """Return the fields of classes that the script instantiates, or that it passes to a parser."""
        found: list[tuple[str, ast.expr, int]] = []
        seen: set[str] = set()
        waiting: list[tuple[str, int]] = []
        given: dict[str, set[str | None]] = {}
        for name, call in self.calls:
            if call.lineno:
                given.setdefault(name, set()).update(keyword.arg for keyword in call.keywords)
                named = (n.id for argument in call.args[:10] for n in ast.walk(argument) if isinstance(n, ast.Name))
                waiting += [
                    (word, call.lineno) for word in (name, *named) if word in self.classes or word in self.nested
                ]
        while waiting:
            name, line = waiting.pop(0)
            if name in seen:
                continue
            seen.add(name)
            for key, value, at in self.classes.get(name, []):
                if key not in given.get(name, ()):  # the script passes no value for this field
                    found.append((key, value, at or line))
                waiting += [(n.id, line) for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in self.classes]
            waiting += [(inner, line) for inner in self.nested.get(name, [])]
        return found

    def lookup(self, node: ast.expr) -> ast.expr | None:
        """Return the expression of a name, ``args.name``, ``CONFIG["name"]`` or ``CONFIG.get("name")``."""
        spent()
        self.steps += 1
        if self.steps > PATIENCE:
            return None
        match node:
            case ast.Name(id=name):
                return self._latest(name)
            case ast.Attribute(attr=name):
                option = self.options[name][0] if name in self.options else None
                if option is not None and not _of_the_name(option, name) and not _nothing(option):
                    return option
                if isinstance(node.value, ast.Name) and node.value.id in self.modules:
                    return self._latest(name)
                kept = self._loaded(node, least=2) or agreed(self.fields.get(name, [])) or self._loaded(node)
                return kept or agreed(self._items_named(name)) or option
            case ast.Call(func=ast.Name(id=name), args=[_, *_, value]) if "env" in name.lower():
                return value  # a custom function that reads an environment variable with a default
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))) if owner in self.takers:
                return agreed(self._passed_values(self.takers[owner], name))
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
                return self._item(owner, name) or self._loaded(node)
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(name)), *_]):
                return self._item(owner, name) or self._loaded(node)
        return None

    def _holds_settings(self, name: str) -> bool:
        """Return whether a name was assigned an empty mapping of settings, such as ``ppo = ConfigDict()``."""
        return any(
            isinstance(value, ast.Call) and name_of(value.func) in MAPPINGS for _, value in self.values.get(name, ())
        )

    def _items_named(self, name: str) -> list[ast.expr]:
        return [value for value in self.keyed.get(name, []) if not _of_the_name(value, name)]

    def _loaded(self, node: ast.expr, least: int = 1) -> ast.expr | None:
        """Return the value of ``config["a"]["b"]`` or ``config.a.b`` in a loaded configuration that contains these
        keys."""
        if not self.documents:
            return None
        path = self.path_into(node)
        holder = self._document_of(node)
        for start in range(len(path) - least + 1):
            key = ".".join(path[start:])
            for document, _ in self.documents if holder is None else [(holder, 0)]:
                if key in document:
                    return ast.Constant(value=document[key].value)
        return None

    def path_into(self, node: ast.expr) -> list[str]:
        """Return the keys in ``config["a"].b``. If ``config`` is itself an item of a configuration, its keys come
        first."""
        path: list[str] = []
        for _ in range(LONGEST_PATH):
            match node:
                case (
                    ast.Attribute(value=inner, attr=key)
                    | ast.Subscript(value=inner, slice=ast.Constant(value=str(key)))
                ):
                    path.insert(0, key)
                case ast.Call(func=ast.Attribute(value=inner, attr="get"), args=[ast.Constant(value=str(key)), *_]):
                    path.insert(0, key)
                case ast.Name(id=name) if name in self.values:
                    inner = self.values[name][-1][1]
                case _:
                    break
            node = inner
        return path

    def _document_of(self, node: ast.expr) -> dict[str, Entry] | None:
        """Return the document that a name refers to, if the script assigns an opened file to the name."""
        held: ast.expr | None = node
        for _ in range(LONGEST_PATH):
            match held:
                case ast.Name(id=name) if name in self.opened and self.path is not None:
                    word = evaluate(self.opened[name])
                    at = beside(self.path, word) if isinstance(word, str) else None
                    loaded = self._loads.get(at) if at is not None else None
                    return _by_key(loaded[1]) if loaded and isinstance(loaded[1], Launch) else None
                case ast.Name(id=name) if name in self.values:
                    held = self.values[name][-1][1]
                case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                    held = inner
                case _:
                    return None
        return None

    @cached_property
    def _loads(self) -> dict[Path, tuple[int, Launch | ReadError]]:
        """Return the configurations that the script loads, each with the line that names it and with its content or the
        error."""
        found: dict[Path, tuple[int, Launch | ReadError]] = {}
        for named, line in self._named_documents() if self.path else ():
            assert self.path is not None
            at = beside(self.path, named)
            if at is None or at in found or len(found) == DOCUMENTS or (text := text_of(at)) is None:
                continue
            try:
                found[at] = line, read_document(text, at, said=self.said)[0]
            except ReadError as error:
                found[at] = line, error
        return found

    @cached_property
    def documents(self) -> list[tuple[dict[str, Entry], int]]:
        """Return the entries of each configuration that the script loads, by key, and the line that names the
        configuration."""
        return [(_by_key(read), line) for line, read in self._loads.values() if isinstance(read, Launch)]

    def unread_documents(self) -> list[str]:
        """Return a note with the reason for each configuration that the script loads and that cannot be read."""
        return [f"{at.name} was not read: {e}" for at, (_, e) in self._loads.items() if isinstance(e, ReadError)]

    def _named_documents(self) -> list[tuple[str, int]]:
        """Return the paths of configurations, and the lines that name them. Paths come from files that a module opens,
        from options, from Hydra's arguments, and from other texts."""
        opened = [(evaluate(self.opened[name]), line) for name, line in self.named.items() if name in self.opened]
        named: list[tuple[object, int]] = [*opened]
        if not _LOADS.search(self.text):
            return _documents_among(named)
        named += [(evaluate(value), line) for value, line in self.options.values()]
        for name, call in self.calls:
            given = {k.arg: evaluate(k.value) for k in call.keywords}
            if name in ("main", "initialize", "compose") and isinstance(given.get("config_name"), str):
                folder = given.get("config_path")
                named.append((f"{folder or '.'}/{given['config_name']}".removesuffix(".yaml") + ".yaml", call.lineno))
        named += self._paths
        return _documents_among(named)

    @cached_property
    def _paths(self) -> list[tuple[str, int]]:
        """Return the words of the script that may be paths of documents."""
        own = (node for tree in self.trees if tree.body and tree.body[0].lineno for node in ast.walk(tree))
        texts = ((_path(n), n.lineno) for n in own if isinstance(n, ast.Constant | ast.BinOp))
        return [(word, line) for word, line in texts if line and word and _DOCUMENT.fullmatch(word)]

    def _latest(self, name: str) -> ast.expr | None:
        """Return the last value of a name before the current line or, without such a value, its first value after that
        line.

        A branch that may not run does not change an earlier value. If branches set different values, the value is
        unknown.
        """
        given = self._values_of(name)
        own = next((default for function, default in self.parameters.get(name, []) if function == self.inside), None)
        if own is not None:  # a parameter of the current function hides an outer name
            given = [each for each in given if own.lineno < each[0] < self.at]
        before = [each for each in given if each[0] < self.at]
        sure = [value for _, value, taken in before or given if taken]
        if sure:
            found: ast.expr | None = sure[-1 if before else 0]
        else:
            found = agreed([value for _, value, _ in before or given]) if given else self._passed(name)
        return None if isinstance(found, ast.Name) and found.id == name else found

    def _values_of(self, name: str) -> list[tuple[int, ast.expr, bool | None]]:
        """Return the values assigned to a name, each with its line and whether the assignment certainly runs.
        Assignments that do not run are omitted."""
        given = [(line, value, self.runs_before(line)) for line, value in self.values.get(name, [])[-VALUES:]]
        return [each for each in given if each[2] is not False]

    def runs_before(self, line: int) -> bool | None:
        """Return whether a line runs before the current line: True, False, or None if unknown.

        Options that are not passed have their defaults.
        """
        if line not in self._around:
            self._around[line] = [b for b in self.branches if b.first <= line <= b.last]
        around = [b for b in self._around[line] if not b.first <= self.at <= b.last]
        told = [self._decided(branch) for branch in around]
        return False if False in told else None if None in told else True

    def _decided(self, branch: Branch) -> bool | None:
        """Return whether a branch runs; None if the script alone does not determine this."""
        if branch.test is None or len(self.deciding) == LINKS or branch in self.deciding:
            return None
        asked, self.at = self.at, branch.first
        self.deciding.append(branch)
        told, value = known(branch.test, self.lookup)
        self.deciding.pop()
        self.at = asked
        return bool(value) == branch.wanted if told else None

    def _passed(self, name: str) -> ast.expr | None:
        """Return the value that the script passes for a parameter if all calls agree; otherwise, the default of the
        parameter."""
        passed = self._passed_values({function for function, _ in self.parameters.get(name, [])}, name)
        return agreed([v for v in passed if not (isinstance(v, ast.Name) and v.id == name)]) or agreed(
            [value for _, value in self.parameters.get(name, [])]
        )

    def _passed_values(self, functions: set[str], name: str) -> list[ast.expr]:
        """Return the values that the script's calls of these functions pass under a name."""
        calls = (call for function in functions for call in self._calls_of.get(function, ()))
        return [keyword.value for call in calls for keyword in call.keywords if keyword.arg == name]

    @cached_property
    def _calls_of(self) -> dict[str, list[ast.Call]]:
        """Return the calls of each function."""
        found: dict[str, list[ast.Call]] = {}
        for name, call in self.calls[:CALLS]:
            found.setdefault(name, []).append(call)
        return found

    def _item(self, owner: ast.expr, name: str) -> ast.expr | None:
        puts = (c for c in self.changes_of(owner) if c.key == name and not c.least and self.runs_before(c.line))
        put = next((c.value for c in puts if not _mentions(c.value, owner)), None)
        if put is not None:
            return put
        held, depth = owner, 0
        while isinstance(held, ast.Name | ast.Subscript | ast.Attribute) and depth < 10:
            step = self.lookup(held)
            if step is None or step is held:
                return None
            held, depth = step, depth + 1
        if isinstance(held, ast.Call) and is_dict(held):
            held = as_dict(held)
        if not isinstance(held, ast.Dict):
            return None
        keys = [k.value if isinstance(k, ast.Constant) else None for k in held.keys]
        return held.values[keys.index(name)] if name in keys else None

    def spread(self, node: ast.expr) -> ast.Dict | None:
        """Return the dictionary in ``**node``. For a name, return the last dictionary that is assigned before the
        current line."""
        for _ in range(LINKS):
            match node:
                case ast.Dict():
                    return node
                case ast.Call() if is_dict(node):
                    return as_dict(node)
                case ast.Call() if len(returned := self.returned.get(name_of(node.func), [])) == 1:
                    node = returned[0]
                case ast.DictComp(
                    value=ast.Name(), generators=[ast.comprehension(iter=ast.Call(func=ast.Attribute(whole, "items")))]
                ):
                    node = whole  # the condition selects which of these items the trainer receives
                case ast.Name(id=name) if self.inside in self.takers.get(name, ()):
                    return self._passed_on(self.inside)
                case ast.Name(id=name):
                    made = self._made(name)
                    if made is None:
                        return None
                    node = made[1]
                case ast.Subscript() if (held := self.lookup(node)) is not None:
                    node = held
                case _:
                    return None
        return None

    def _made(self, name: str) -> tuple[int, ast.expr] | None:
        """Return the line and the value of the last assignment to a name before the current line. Assignments of
        dictionaries take precedence over other assignments."""
        given = [(line, value) for line, value, _ in self._values_of(name) if line < self.at]
        plain = [(line, value) for line, value in given if isinstance(value, ast.Dict) or is_dict(value)]
        return (plain or given)[-1] if given else None

    def changes_of(self, node: ast.expr) -> list[Change]:
        """Return the changes of a named dictionary before the current line, the last change first."""
        found: list[Change] = []
        for _ in range(LINKS):
            if not isinstance(node, ast.Name):
                break
            made = self._made(node.id)
            for change in reversed(self.changes.get(node.id, [])[-VALUES:]):
                since = made is None or change.line > made[0]
                if change.inside == self.inside:
                    since = since and change.line < self.at
                elif change.inside:
                    continue
                if since and self.runs_before(change.line) is not False:
                    found.append(change)
            if made is None:
                break
            node = made[1]
        return found

    def _passed_on(self, function: str) -> ast.Dict | None:
        """Return the keyword arguments with which the script calls one of its functions, if there is a single call."""
        calls = [call for call in self._calls_of.get(function, ()) if call.keywords]
        if len(calls) != 1:
            return None
        self.at, self.inside = calls[0].lineno, self.within.get(calls[0], "")
        own = {name for name, given in self.parameters.items() if any(function == owner for owner, _ in given)}
        own.update(self.ordered.get(function, ()))
        return as_dict(calls[0], apart=own)


def _mentions(node: ast.expr, owner: ast.expr) -> bool:
    """Return whether an expression refers to the name that it is assigned to, as in ``config["lr"] =
    float(config["lr"])``."""
    return any(isinstance(n, ast.Name) and isinstance(owner, ast.Name) and n.id == owner.id for n in ast.walk(node))


def _documents_among(named: list[tuple[object, int]]) -> list[tuple[str, int]]:
    return [(word, line) for word, line in named if isinstance(word, str) and _DOCUMENT.fullmatch(word)][:PATIENCE]


def _by_key(document: Launch) -> dict[str, Entry]:
    """Return the entries of a document by key. If a key occurs more than once, the first entry counts."""
    return {entry.key: entry for entry in reversed(document.entries)}


def _path(node: ast.Constant | ast.BinOp) -> str:
    """Return the path in a word, or the literal path at the end of ``ROOT / "configs" / "grpo.yaml"``."""
    match node:
        case ast.Constant(value=str(word)):
            return word
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(word))):
            before = _path(left) if isinstance(left, ast.Constant | ast.BinOp) else ""
            return f"{before}/{word}" if before else word
    return ""


def _of_the_name(value: ast.expr, name: str) -> bool:
    """Return whether an expression is only a reference to another value of the same name."""
    return name_of(value) == name or (
        isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and value.slice.value == name
    )


def _nothing(value: ast.expr) -> bool:
    """Return whether the default of an option is None."""
    return isinstance(value, ast.Constant) and value.value is None


def agreed(found: list[ast.expr]) -> ast.expr | None:
    """Return the expression if all expressions in the list (at most the first 20) are equal, and None otherwise."""
    return found[0] if len(found) == 1 or len({ast.dump(f) for f in found[:20]}) == 1 else None
