"""Tasks with prompts and a verifiable reward: the embedded task, and tasks of the user."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ..config import ConfigError

Dialogue = list[dict[str, str]]
"""The turns of a chat, each of the form ``{"role": ..., "content": ...}``."""


@dataclass(frozen=True)
class Example:
    """One prompt, the data for its reward, and its sub-task."""

    dialogue: Dialogue
    kind: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)


class Score(NamedTuple):
    """The score of one response; ``valid`` and ``success`` are None if the task does not determine them."""

    reward: float
    valid: bool | None = None
    success: bool | None = None
    components: Mapping[str, float] = MappingProxyType({})


class Task(Protocol):
    """A task: its prompts, and the reward of a response.

    Attributes:
        examples: the prompts; the seed determines their order in batches.
        first_words: tokens that may begin a valid response; None if unknown.
        bounds: lowest and highest possible reward; None if unknown.
        fallback: whether a default replaces an invalid response.
    """

    examples: Sequence[Example]
    first_words: frozenset[str] | None
    bounds: tuple[float, float] | None
    fallback: bool

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Score each response; ``finished`` is whether a response ended on its own."""
        ...

    def show(self, text: str) -> str:
        """Return the response in readable form."""
        ...


# -- the embedded task: write a workflow for a kind of problem -------------------------------------------------

PIECES = ("ka", "lo", "mi", "tu")
"""Parts of operator names. An operator is spelled in three parts, so that a model that ignores its previous tokens
cannot write it."""
OPERATORS: dict[str, tuple[str, ...]] = {
    "Custom": ("ka", "lo", "mi"),
    "Programmer": ("lo", "ka", "tu"),
    "Review": ("mi", "tu", "ka"),
    "Revise": ("tu", "mi", "lo"),
    "Test": ("ka", "tu", "lo"),
    "Plan": ("lo", "mi", "ka"),
    "Ensemble": ("mi", "lo", "tu"),
    "Search": ("tu", "ka", "mi"),
}
NAMES: dict[tuple[str, ...], str] = {pieces: name for name, pieces in OPERATORS.items()}
JUDGES = ("Review", "Test")
"""Operators after which the tail ``? OP : done`` is allowed."""
KINDS = ("math", "code", "qa")
LEVELS = ("easy", "medium", "hard")
LONGEST = 5
"""Maximum number of operators in a workflow."""


@dataclass(frozen=True)
class Workflow:
    """A workflow: ``OP (-> OP)* -> done``, or with the tail ``? OP : done`` after a judge. Each operator may occur only
    once."""

    operators: tuple[str, ...]
    otherwise: str | None = None
    """The operator of the tail ``? OP : done``."""

    @property
    def named(self) -> tuple[str, ...]:
        return self.operators + ((self.otherwise,) if self.otherwise else ())

    def words(self) -> list[str]:
        """Return the tokens that spell the workflow."""
        out: list[str] = []
        for operator in self.operators:
            out += ["->"] * bool(out) + list(OPERATORS[operator])
        return out + (["?", *OPERATORS[self.otherwise], ":", "done"] if self.otherwise else ["->", "done"])


TARGETS = {
    ("math", "easy"): Workflow(("Custom",)),
    ("math", "medium"): Workflow(("Programmer", "Review"), "Revise"),
    ("math", "hard"): Workflow(("Plan", "Programmer", "Review"), "Revise"),
    ("code", "easy"): Workflow(("Programmer",)),
    ("code", "medium"): Workflow(("Programmer", "Test"), "Revise"),
    ("code", "hard"): Workflow(("Plan", "Programmer", "Test"), "Revise"),
    ("qa", "easy"): Workflow(("Search",)),
    ("qa", "medium"): Workflow(("Search", "Custom", "Ensemble")),
    ("qa", "hard"): Workflow(("Search", "Custom", "Review"), "Revise"),
}
"""The best workflow for each kind of problem."""

FALLBACK = Workflow(("Custom",))
"""The workflow that replaces an invalid response."""

DISTRACTORS = tuple(f"w{n}" for n in range(24))


def parse(text: str) -> Workflow | None:
    """Return the workflow in a text, or None if the text is invalid."""
    words = text.split()
    operators: list[str] = []
    i = 0
    while True:
        name = NAMES.get(tuple(words[i : i + 3]))
        if name is None:
            return None
        operators.append(name)
        rest = words[i + 3 :]
        if rest == ["->", "done"]:
            return _once(Workflow(tuple(operators)))
        if rest[:1] == ["?"]:
            otherwise = NAMES.get(tuple(rest[1:4]))
            ends = otherwise is not None and rest[4:] == [":", "done"] and operators[-1] in JUDGES
            return _once(Workflow(tuple(operators), otherwise)) if ends else None
        if rest[:1] != ["->"]:
            return None
        i += 4


def _once(workflow: Workflow) -> Workflow | None:
    named = workflow.named
    return workflow if len(set(named)) == len(named) <= LONGEST else None


def grade(workflow: Workflow, target: Workflow) -> Score:
    """Return 1 for the best workflow. Any other valid workflow gets 0.1, plus up to 0.5 for correct operators and 0.15
    for the correct tail."""
    if workflow == target:
        return Score(1.0, True, True, {"operators": 0.5, "tail": 0.15})
    shared = len(set(workflow.named) & set(target.named))
    f1 = 2 * shared / (len(workflow.named) + len(target.named))
    tail = 0.15 * (workflow.otherwise == target.otherwise)
    return Score(0.1 + 0.5 * f1 + tail, True, False, {"operators": 0.5 * f1, "tail": tail})


INVALID = Score(0.0, False, False, {"operators": 0.0, "tail": 0.0})


class WorkflowTask:
    """The embedded task: write a workflow for a kind of problem. The reward is graded, and a default replaces invalid
    answers."""

    first_words: frozenset[str] | None = frozenset(pieces[0] for pieces in OPERATORS.values())
    bounds: tuple[float, float] | None = (0.0, 1.0)
    fallback = True

    def __init__(self, count: int = 512) -> None:
        rng = random.Random(0)
        self.examples: Sequence[Example] = [make_example(rng) for _ in range(count)]

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        scores = []
        for example, text, whole in zip(examples, texts, finished, strict=True):
            workflow = parse(text) if whole else None  # truncated text is invalid even if it can be parsed
            target = TARGETS[example.columns["kind"], example.columns["level"]]
            scores.append(INVALID if workflow is None else grade(workflow, target))
        return scores

    def graded(self) -> list[tuple[Example, str, str, str]]:
        """Return an example of each kind and level, with the text of its best workflow and with a correct and a wrong
        response.

        The wrong response is a valid workflow without any operator of the best workflow.
        """
        found = []
        for example in {tuple(e.columns.values()): e for e in self.examples}.values():
            target = TARGETS[example.columns["kind"], example.columns["level"]]
            other = next(name for name in OPERATORS if name not in target.named)
            right, wrong = (" ".join(workflow.words()) for workflow in (target, Workflow((other,))))
            found.append((example, right, right, wrong))
        return found

    def show(self, text: str) -> str:
        """Return a workflow with named operators: ``Programmer -> Test ? Revise : done``."""
        words, out = text.split(), []
        while words:
            name = NAMES.get(tuple(words[:3]))
            out.append(name or words[0])
            words = words[3 if name else 1 :]
        return " ".join(out)


def make_example(rng: random.Random) -> Example:
    """Return a prompt that contains the kind and the level of a problem among 0 to 12 distracting words."""
    kind, level = rng.choice(KINDS), rng.choice(LEVELS)
    words = [kind, level, *(rng.choice(DISTRACTORS) for _ in range(rng.randint(0, 12)))]
    rng.shuffle(words)
    dialogue = [
        {"role": "system", "content": "spell " + " ".join(PIECES)},
        {"role": "user", "content": " ".join(words)},
    ]
    return Example(dialogue, kind, {"kind": kind, "level": level})


def demonstration(rng: random.Random, target: Workflow, *, hint: float, bias: float, corrupted: float) -> list[str]:
    """Return the words of a warm-up response, which is usually valid, weakly biased towards the target, and sometimes
    corrupted.

    ``hint`` is the probability of the target, and ``bias`` is the weight of the target's operators. ``corrupted`` is
    the probability that a random word replaces one word.
    """
    words = (target if rng.random() < hint else _random_workflow(rng, target, bias)).words()
    if rng.random() < corrupted:
        words[rng.randrange(len(words))] = rng.choice((*PIECES, "->", "?", ":", "done"))
    return words


def _random_workflow(rng: random.Random, target: Workflow, bias: float) -> Workflow:
    drawn: list[str] = []
    for _ in range(rng.randint(1, LONGEST)):
        left = [name for name in OPERATORS if name not in drawn]
        drawn += rng.choices(left, [bias if name in target.named else 1.0 for name in left])
    judge = next((i for i, name in enumerate(drawn[:-1]) if name in JUDGES), None)
    if judge is not None and rng.random() < 0.6:
        return Workflow(tuple(drawn[: judge + 1]), drawn[judge + 1])
    return Workflow(tuple(drawn))


# -- tasks of the user -----------------------------------------------------------------------------------------


class RewardTask:
    """Prompts from a JSONL file and a reward function in TRL's form: ``f(prompts, completions, **columns)``.

    The reward function returns one number per response, or a `Score` if it knows which responses are valid.
    """

    first_words: frozenset[str] | None = None
    bounds: tuple[float, float] | None = None
    fallback = False

    def __init__(self, examples: Sequence[Example], reward: Callable[..., Sequence[Any]]) -> None:
        self.examples = examples
        self.reward = reward

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        names = examples[0].columns
        columns = {name: [example.columns.get(name) for example in examples] for name in names}
        prompts = [example.dialogue for example in examples]
        given = self.reward(prompts=prompts, completions=list(texts), **columns)
        return [value if isinstance(value, Score) else Score(float(value)) for value in given]

    def show(self, text: str) -> str:
        return text


def load_task(name: str, reward: str | None) -> Task:
    """Load the embedded task, a task from ``module:function``, or a JSONL file of prompts. Raises `ConfigError`."""
    if name == "embedded":
        return WorkflowTask()
    if name == "tools":
        from .tools import ToolTask

        return ToolTask()
    if Path(name).suffix in (".jsonl", ".json"):
        if reward is None:
            raise ConfigError(f"--task {name}: prompts need a reward: --set reward=module:function")
        return RewardTask(_prompts(Path(name)), _imported(reward, "reward"))
    task: Task = _imported(name, "--task")()
    return task


def _prompts(path: Path) -> list[Example]:
    examples = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            prompt = row.pop("prompt")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigError(f'{path}:{number}: expected one JSON object per line with the key "prompt"') from None
        dialogue = prompt if isinstance(prompt, list) else [{"role": "user", "content": str(prompt)}]
        examples.append(Example(dialogue, row.get("task"), row))
    if not examples:
        raise ConfigError(f"{path}: contains no prompt")
    return examples


def _imported(name: str, what: str) -> Any:
    """Import the object ``module:name``, including from modules in the working folder."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ConfigError(f"{what} {name}: expected module:function or a .jsonl file")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{what} {name}: {error}") from None
