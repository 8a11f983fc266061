"""Reads Python scripts as syntax trees: finds the calls that configure a trainer, and evaluates their arguments. No
code is imported or executed.

For example, ``GRPOConfig(num_generations=args.k)`` is followed to the default of ``--k``. Arguments may also be
constants, fields of a dataclass, or items of a dictionary. If a script does not call a configuration class, its
constants, dictionaries and options are the settings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...readers import ReadError
from ..custom_names import NAMES, underscored
from ..expression import evaluate, known
from ..frameworks import frameworks, modules
from ..launch import OF_RL, PER_PROMPT, Command, Entry, Launch, Several, Unresolved, scalar
from .commands import commands_of, of_magics
from .definitions import LINKS, SETTINGS, Definitions, agreed
from .modules import cannot_run, magics, name_of, parsed, plain, siblings, statements
from .symbols import CONFIGURES, ELSEWHERE, OWN, Change
from .trainer_code import code_of

SUPERVISED = re.compile(r"(?:SFT|DPO|KTO|ORPO|Reward|CPO|GKD)Config$|^(?:Seq2Seq)?TrainingArguments$")
"""Names of classes that configure another kind of training."""
_GENERATES = re.compile(r"(?:CausalLM|LanguageModel|ImageTextToText|ConditionalGeneration)\.from_pretrained$")
"""Names of methods that load a model for text generation."""
MANY = 20
"""Maximum number of configurations per script."""
_TRAINS = re.compile(r"(?i)(?:^|_)(?:train|main|run|fit|learn)(?:er|ing)?(?:_|$)|(?:^|_)(?:grpo|ppo|rloo)$")
"""Names of functions whose parameters configure a whole training run, not one step."""
_LOOPS = (ast.GeneratorExp, ast.ListComp)
_MENTIONED = r"""\b(?:(?<!["']){0}\b|(?<=["']){0}\b(?!/))"""
"""Matches the name of a library, but not the owner of a model on the hub, as in ``"unsloth/Qwen3-4B"``."""
_HELD_OUT = re.compile(r"(?i)(?:^|_)(?:val|valid|validation|test|eval|dev)(?:_|$)")
"""Words in the names of held-out examples."""
DEEPEST = 20
"""Maximum nesting of a dictionary that contains the settings of a document."""
BESIDE, ALONE = NAMES["calls_beside"], NAMES["calls_alone"]
TELLING = frozenset(NAMES["telling"])
GREEDY = "temperature"
"""Name of a setting that is 0 only for evaluation."""
_NAMES = "grpo|ppo|reinforce|rloo|dapo|gspo"
_ALGORITHM = re.compile(_NAMES, re.IGNORECASE)
_LEARNER = re.compile(
    rf"(?i)({_NAMES})(?:\+\+|plusplus)?(?:trainer|learner|agent|algorithm)$|((?-i:PPO|GRPO|RLOO|REINFORCE))$"
)
"""Names of trainer classes that contain the name of the algorithm."""
_OF_LANGUAGE = re.compile(r"(?i)transformers|tokenizer|language.model|\bllm")
"""Words that occur only in scripts that train a language model, not in scripts that train a small network to play
games."""
DOCUMENTS_OF = ("config", "cfg", "config_path", "config_file", "config_name")
"""Options of a script that contain the path of its settings file."""


def read_python(text: str, path: Path | None = None) -> tuple[list[Launch], list[Command]]:
    """Return a launch for every configuration that a script creates, and the commands that the script starts, which the
    caller must read. Names are resolved in imported modules as well.

    Raises `ReadError`.
    """
    launches, commands = read_modules([(plain(text), 0)], path, magics(text))
    broken = cannot_run(plain(text))
    for launch in launches:
        launch.broken = broken
    return launches, commands


def read_modules(
    sources: list[tuple[str, int]], path: Path | None = None, texts: Sequence[tuple[str, int]] = ()
) -> tuple[list[Launch], list[Command]]:
    """Return the launches and commands of one script, given its pieces with the number of lines before each piece. A
    piece that does not parse is reported in a note.

    ``texts`` contains the commands that follow ``!``.
    """
    script, notes = _script(sources, path)
    if len(script.configuring) > MANY:
        notes.append(f"{len(script.configuring) - MANY} more configurations were not read")
    launches = [script.launch(call) for call in script.configuring[:MANY]] or [script.loose()]
    notes += script.unread_documents()
    code = code_of([node for tree in script.trees for node in statements(tree)], script.calls)
    launches += script.embedded_documents()
    for launch in launches:
        launch.entries += code
    for launch in launches:
        launch.notes += notes
        launch.complete &= not notes
        launch.elsewhere += [] if script.configuring else script.left_to_others()
    return launches, commands_of(script) + of_magics(texts, script)


def started(text: str, path: Path, given: Mapping[str, Any]) -> Launch:
    """Return the settings of a script that is started with options: its first configuration or, if it has none, the
    defaults of its options.

    Raises `ReadError`.
    """
    script, notes = _script_at(text, path)
    given = {script.also.get(key, key): value for key, value in given.items()}
    script = script.with_options({k: v for k, v in given.items() if isinstance(v, bool | int | float | str)})
    if script.configuring:
        launch = script.launch(script.configuring[0])
    elif any(CONFIGURES.search(name) and script.origins[name] != OWN for name in script.origins):
        launch = Launch(script.imports)  # a parser creates the framework's configuration
        for name, (value, line) in script.options.items():
            script.add(launch, name, value, line)
    else:
        launch = script.loose()
        launch.program, launch.firm = script.imports, 0
    unread = script.unread_documents()
    launch.also = {also: name for also, name in script.also.items() if also != name}
    launch.notes += notes + unread
    launch.complete &= not unread
    launch.elsewhere += [] if script.configuring else script.left_to_others()
    return launch


@lru_cache(maxsize=4)
def _script_at(text: str, path: Path) -> tuple[_Script, list[str]]:
    """Parse a script in the same folder. The result is cached, because several commands in one file may start the
    script."""
    return _script([(plain(text), 0)], path)


def _script(sources: list[tuple[str, int]], path: Path | None) -> tuple[_Script, list[str]]:
    """Join the pieces into one script. Return the script, and notes on pieces that do not parse."""
    trees, notes = [], []
    for text, before in sources:
        try:
            tree, left_out = parsed(text)
        except ReadError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            where = f"line {error.lineno + before}" if isinstance(error, SyntaxError) and error.lineno else "it"
            notes.append(f"{where} is not Python and was not read")
            continue
        trees.append(ast.increment_lineno(tree, before) if before else tree)
        notes += [f"line {line + before} is not Python and was not read" for line in left_out]
    if notes and not any(tree.body for tree in trees):
        raise ReadError(f"not Python: {notes[0]}")
    if path is not None:
        trees += siblings(trees, path)
    return _Script(trees, "\n".join(text for text, _ in sources), path), notes


class _Script(Definitions):
    """The definitions of a script, and the calls that configure its training."""

    def __init__(self, trees: list[ast.Module], text: str, path: Path | None) -> None:
        super().__init__(trees, text, path)
        supervised = [call for call in self._configuring(SUPERVISED) if self._library(call)]
        self.configuring = self._configuring(CONFIGURES) or supervised
        self.beside = [(BESIDE[name], call) for name, call in self.calls if name in BESIDE][:MANY]

    def _configuring(self, names: re.Pattern[str]) -> list[ast.Call]:
        """Return the calls of functions with these names. Calls in imported modules are used only if the script itself
        has no such call."""
        found = [call for name, call in self.calls if names.search(name) and call.keywords]
        return [call for call in found if call.lineno] or found

    def with_options(self, values: Mapping[str, Any]) -> _Script:
        """Return a copy of the script with values for some of its options."""
        started = copy(self)
        started.said = dict(values)
        for read in ("documents", "_loads"):
            started.__dict__.pop(read, None)  # values that depend on the options
        told = {name: (ast.Constant(value=value), 0) for name, value in values.items() if name in self.options}
        started.options = {**self.options, **told}
        return started

    def left_to_others(self) -> list[str]:
        """Return descriptions of the sources from which the script reads its settings: command-line arguments or a
        document."""
        found: list[str] = []
        for name, call in self.calls:
            if name in NAMES["parsers"] and call.lineno:
                classes = {n.id for n in ast.walk(call) if isinstance(n, ast.Name) and CONFIGURES.search(n.id)}
                named = " and ".join(sorted(classes))
                found += [f"line {call.lineno} fills {named} from command-line arguments"] if named else []
        for name, line in self.asked.items():
            if name in DOCUMENTS_OF and line and OF_RL.search(self.text) and not self.documents:
                found.append(f"they are in the file given by --{name} (line {line})")
        return found

    def embedded_documents(self) -> list[Launch]:
        """Return a launch for each dictionary with the content of a verl document, as in scripts for Agent
        Lightning."""
        found: list[Launch] = []
        for _, node in self.dicts:
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            line = node.values[0].lineno if "actor_rollout_ref" in keys and len(found) < MANY else 0
            if line:
                found.append(Launch("", line=line, complete=False))
                self._nested(found[-1], "", node)
        return found

    def _nested(self, launch: Launch, path: str, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str) or path.count(".") == DEEPEST:
                continue
            if isinstance(value, ast.Dict):
                self._nested(launch, f"{path}{key.value}.", value)
            else:
                self.add(launch, f"{path}{key.value}", value, value.lineno)

    def launch(self, call: ast.Call) -> Launch:
        """Return the settings of one configuration, and of the adapter, model and trainer that the script creates."""
        self.at, self.inside = call.lineno, self.within.get(call, "")
        name = name_of(call.func)
        known_as = name if self._library(call) else "script"
        launch = Launch(f"{known_as} {self.imports}", line=call.lineno)
        set_later = [each for each in self.attributes if each[0] in self._names_of(call)]
        for _, attribute, value, line in (each for each in set_later if self.runs_before(each[3])):
            self.add(launch, attribute, value, line)
        self._keywords(launch, "", call)
        for _, attribute, value, line in (each for each in set_later if self.runs_before(each[3]) is None):
            self.add(launch, attribute, value, line)
        for field, value, line in self.classes.get(name, []):
            self.add(launch, field, value, line)
        for prefix, beside in self.beside:
            self._keywords(launch, f"{prefix}.", beside)
            if prefix == "model" and beside.args and _GENERATES.search(ast.unparse(beside.func)[:200]):
                self.add(launch, "model.pretrained_model_name_or_path", beside.args[0], beside.lineno)
        named = f"{self.text} {' '.join((*self.origins, *self.origins.values(), *self.fields))}".lower()
        if known_as != "script" and "lora" not in named and "peft" not in named:  # custom classes may have other fields
            launch.add("lora.absent", True, 0)
        elif any(_loads_adapter(call) for _, call in self.calls):
            launch.add("lora.loaded", True, 0)
        if known_as == "script":
            if (learned := _ALGORITHM.search(name)) is not None:
                launch.add("algorithm", learned[0].lower(), call.lineno)
            launch.entries += self.loose().entries
        elif not call.lineno:  # an imported module creates the configuration from values of the script
            launch.entries += [Entry(entry.key, entry.value, 0) for entry in self.loose().entries]
        return launch

    def _library(self, call: ast.Call) -> bool:
        """Return whether a class comes from a trainer library. A class without an import is assumed to come from a
        library."""
        giver = call.func.value if isinstance(call.func, ast.Attribute) else None
        come_as = giver.id if isinstance(giver, ast.Name) and giver.id in self.origins else name_of(call.func)
        origin = self.origins.get(come_as, "").split(".")[0]
        return not origin or origin in modules() or origin == "transformers"

    @cached_property
    def imports(self) -> str:
        """Return the names of the trainer libraries in the script's text."""
        named = [name for name in sorted(modules()) if re.search(_MENTIONED.format(name), self.text)]
        names = [name for name in named if not any(f.starts(name) for f in frameworks())]  # without names of launchers
        if not names and {"gym", "gymnasium"} & self.modules and not _OF_LANGUAGE.search(self.text):
            names.append("gym")
        return " ".join(names)

    @property
    def imports_rl(self) -> bool:
        """Return whether the script imports a framework's names for reinforcement learning."""
        named = (f"{name} {origin}" for name, origin in self.origins.items() if origin.split(".")[0] in modules())
        return any(map(OF_RL.search, named))

    def _names_of(self, call: ast.Call) -> set[str]:
        return {name for name, given in self.values.items() for _, value in given if value is call}

    def _keywords(self, launch: Launch, prefix: str, call: ast.Call) -> None:
        self.inside = self.within.get(call, self.inside)
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.add(launch, prefix + keyword.arg, keyword.value, keyword.value.lineno)
            else:
                self._passes(launch, prefix, keyword.value, call.lineno)

    def _passes(self, launch: Launch, prefix: str, node: ast.expr, line: int, depth: int = 0) -> None:
        """Add the items of ``**node`` to a launch. If a key occurs more than once, the last item takes precedence.
        Items in a branch that may not run come last."""
        changes = self.changes_of(node) if depth < 5 else []
        sure = [change for change in changes if self.runs_before(change.line) and not change.least]
        for change in sure:
            self._put(launch, prefix, change, depth)
        spread = self.spread(node) if depth < 5 else None
        if spread is not None:
            self._items(launch, prefix, spread, depth)
        elif not self._section(launch, prefix, node) and not prefix:
            launch.complete = False
            if depth or not self._telling(launch):
                launch.notes.append(f"line {line}: arguments passed through ** were not read")
        for change in changes:
            if change not in sure:
                self._put(launch, prefix, change, depth)

    def _put(self, launch: Launch, prefix: str, change: Change, depth: int) -> None:
        if change.key is not None:
            self.add(launch, prefix + change.key, change.value, change.line)
        else:
            self._passes(launch, prefix, change.value, change.line, depth + 1)

    def _section(self, launch: Launch, prefix: str, node: ast.expr) -> bool:
        """Add the section of a loaded configuration that is passed as ``**config["part"]``. Return whether the section
        was found."""
        path = self.path_into(node)
        for start in range(len(path) + 1):
            part = "".join(f"{key}." for key in path[start:])
            for document, _ in self.documents:
                held = [entry for key, entry in document.items() if key.startswith(part)]
                if held and (part or isinstance(node, ast.Name)):
                    for entry in held:
                        launch.add(prefix + entry.key[len(part) :], entry.value, node.lineno)
                    return True
        return False

    def _items(self, launch: Launch, prefix: str, spread: ast.Dict, depth: int) -> None:
        """Add the items of a dictionary to a launch. If a key occurs more than once, the last item takes precedence, as
        in ``{**defaults, "k": 8}``."""
        for key, value in reversed(list(zip(spread.keys, spread.values, strict=True))):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.add(launch, prefix + key.value, value, value.lineno)
            elif key is None:
                self._passes(launch, prefix, value, value.lineno, depth + 1)

    def _telling(self, launch: Launch) -> bool:
        """Read the script's only dictionary whose keys are settings, in place of a ``**`` argument that cannot be read.
        Return whether the script has exactly one such dictionary."""
        held = [d for _, d in self.dicts if TELLING & {k.value for k in d.keys if isinstance(k, ast.Constant)}]
        if len(held) != 1:
            return False
        for key, value in zip(held[0].keys, held[0].values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.add(launch, key.value, value, value.lineno)
        return True

    def add(self, launch: Launch, key: str, node: ast.expr, line: int) -> None:
        """Add a setting. The value of a setting is `Unresolved` if its expression cannot be evaluated."""
        self.steps = 0
        told, value = known(node, self.lookup)
        if isinstance(node, ast.Dict) and key.count(".") < DEEPEST:
            self._nested(launch, f"{key}.", node)
        if isinstance(value, str) and isinstance(figure := scalar(value), int | float):
            value = figure  # argument parsers convert default strings
        launch.add(key, value if told else self._several(node) or Unresolved(ast.unparse(node)[:200]), line)

    def _several(self, node: ast.expr) -> Several | None:
        """Return the numbers that a loop variable takes; None if the expression is not such a variable."""
        held = node
        for _ in range(LINKS):
            match held:
                case ast.Name(id=name) if name in self.loops:
                    values = evaluate(self.loops[name], self.lookup)
                case ast.Name() | ast.Attribute() | ast.Subscript() if (step := self.lookup(held)) is not None:
                    held = step
                    continue
                case _:
                    return None
            plain = isinstance(values, list) and len(values) > 1 and all(type(one) in (int, float) for one in values)
            return Several(values) if plain else None
        return None

    def loose(self) -> Launch:
        """Return the settings of a script without a configuration: its options, constants, fields, dictionaries and
        calls.

        A temperature of 0 is omitted, because greedy generation is used to evaluate or score, not to generate rollouts.
        """
        launch = Launch(f"script {self.imports}", complete=False, imports_rl=self.imports_rl)
        self.at = 1 << 30
        self._declared_by_name(launch)
        self._dictionaries(launch)
        self._calls(launch)
        for name, value, line in self.instantiated_fields():
            self.add(launch, name.lower(), value, line)
        self._parameters_of_functions(launch)
        for document, line in self.documents:
            if line in self.named.values():
                continue  # loaded by an imported module for its callers
            for word, entry in document.items():
                launch.add(word, entry.value, line)
        launch.entries = [e for e in launch.entries if e.value != 0 or not e.key.endswith(GREEDY)]
        # the script's own settings come first, followed by imported settings; in both groups, unresolved settings come
        # last
        launch.entries.sort(key=lambda entry: (entry.line == 0, isinstance(entry.value, Unresolved)))
        return launch

    def _declared_by_name(self, launch: Launch) -> None:
        """Add command-line options, fields, constants, and attributes of settings objects."""
        for name, (value, line) in self.options.items():
            if not ELSEWHERE.search(name):
                self.add(launch, name, value, line)
        of_rl = [fields for owner, fields in self.classes.items() if CONFIGURES.search(owner) or OF_RL.search(owner)]
        for name, value, line in (*chain.from_iterable(of_rl), *self.members):
            if not isinstance(value, ast.Dict):  # imported by name: counts as the script's own
                self.add(launch, name if len(name) == 1 else name.lower(), value, line or self.named.get(name, 0))
        for owner, attribute, value, line in self.attributes:
            if ELSEWHERE.search(owner):
                continue
            if SETTINGS.fullmatch(owner):
                self.add(launch, attribute, value, line)
            elif self._holds_settings(owner):
                self.add(launch, f"{owner}.{attribute}", value, line)

    def _dictionaries(self, launch: Launch) -> None:
        for inside, node in self.dicts:
            for key, item in zip(node.keys, node.values, strict=True):
                plain = isinstance(key, ast.Constant) and isinstance(key.value, str)
                if plain and not isinstance(item, ast.Dict) and not ELSEWHERE.search(inside):
                    assert isinstance(key, ast.Constant)
                    self.add(launch, str(key.value), item, item.lineno)

    def _calls(self, launch: Launch) -> None:
        """Add the number of responses per prompt that generation calls request, and the arguments of training calls."""
        held_out = self._held_out()
        groups = (_times(call) for name, call in self.calls if name in NAMES["group_calls"] and call not in held_out)
        for turns in islice(filter(None, groups), MANY):
            self.add(launch, "rollouts_per_group", turns, turns.lineno)
        for name, call in self.calls:
            if name in ALONE or _sets_training(name, call):
                of_class = name not in ALONE and name[:1].isupper()
                self._keywords(launch, "" if of_class else f"{ALONE.get(name, 'call')}.", call)
            elif call.args and call.lineno and name in self.ordered:
                for parameter, value in zip(self.ordered[name], call.args, strict=False):
                    if (parameter in TELLING or PER_PROMPT.fullmatch(parameter)) and known(value, self.lookup)[0]:
                        self.add(launch, f"call.{parameter}", value, call.lineno)
            elif (learner := _LEARNER.match(name)) is not None and call.lineno and not ELSEWHERE.search(name):
                if learner[2] and "transformers" not in self.text:
                    continue  # the call belongs to a games library
                launch.add("algorithm", (learner[1] or learner[2]).lower(), call.lineno)
                self._keywords(launch, "", call)

    def _parameters_of_functions(self, launch: Launch) -> None:
        """Add the parameters of functions: first of training functions, then of constructors, then of other functions.
        The value of a parameter is the value that the script passes or, if it passes none, the default. The parameters
        of other functions are marked as vague."""
        said = {entry.key for entry in launch.entries}
        for function, name, value, line in sorted(self.defaults, key=lambda default: _rank(default[0])):
            key = name.lower()
            if _rank(function) == 2 and key not in said:
                launch.vague.add(key)
            said.add(key)
            passed = agreed(self._passed_values({function}, name)) if _rank(function) == 0 else None
            self.add(launch, key, passed or value, passed.lineno if passed else line)

    def _held_out(self) -> set[ast.AST]:
        """Return the calls in loops over held-out examples, as in ``(TrajectoryGroup(…) for puzzle in
        val_puzzles)``."""
        loops = (node for tree in self.trees for node in ast.walk(tree) if isinstance(node, _LOOPS))
        apart = (node for node in loops if _HELD_OUT.search(name_of(node.generators[0].iter)))
        return {inner for node in islice(apart, MANY) for inner in ast.walk(node.elt)}


def _loads_adapter(call: ast.Call) -> bool:
    """Return whether a call loads a saved adapter, as in ``PeftModel.from_pretrained(base, "out/sft")``."""
    match call.func:
        case ast.Attribute(value=owner, attr="from_pretrained"):
            return "Peft" in name_of(owner)
    return False


def _rank(function: str) -> int:
    """Return a rank for how likely a parameter of this function is a training setting; 0 is the most likely."""
    return 0 if _TRAINS.search(function) else 1 if function == "__init__" else 2


def _sets_training(name: str, call: ast.Call) -> bool:
    """Return whether a call has an argument that can only be a setting: a group size, or the learning rate of a
    settings class."""
    given = [keyword.arg or "" for keyword in call.keywords]
    configures = SETTINGS.fullmatch(underscored(name)) and not SUPERVISED.search(name) and not ELSEWHERE.search(name)
    return bool(configures and "learning_rate" in given) or any(k in TELLING or PER_PROMPT.fullmatch(k) for k in given)


def _times(call: ast.Call) -> ast.expr | None:
    """Return the number of rollouts per group, which is 8 in ``TrajectoryGroup(rollout(s) for _ in range(8))``; None if
    the call does not contain it."""
    match call.args:
        case [
            ast.GeneratorExp(generators=[ast.comprehension(iter=turns)])
            | ast.ListComp(generators=[ast.comprehension(iter=turns)]),
            *_,
        ] if isinstance(turns, ast.Call) and name_of(turns.func) == "range" and len(turns.args) == 1:
            return turns.args[0]
    return None
