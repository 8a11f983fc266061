"""Recognises a launch's kind of training by scores for programs, names, sections and settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ..run import RunType
from .estimators import GROUPED, needs_group
from .frameworks import HAND_WRITTEN
from .launch import OF_RL, Entry, Launch
from .recognition import Clue

if TYPE_CHECKING:
    from .configuration import Configuration

DECISIVE = 100.0
"""Weight of a clue that outweighs any number of weaker clues."""
LEAST = 5.0
"""Minimum score for a kind of training to be recognised."""
ONLY_RL = frozenset(
    "group_size kl_coef kl_reward_coef adv_estimator epsilon epsilon_high use_kl_loss num_iterations rollout_prompts "
    "rollout_responses importance_sampling_level sync_ref_model".split()
)
"""Settings that only reinforcement learning has."""
TRAINING = frozenset(("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps"))
"""Settings that any kind of training has."""
METHODS: Mapping[str, RunType] = {
    **dict.fromkeys(("dpo", "kto", "orpo", "simpo", "cpo", "ipo", "rm", "reward", "reward_model"), "preference"),
    **dict.fromkeys(("sft", "sft_loss", "pt", "supervised", "gkd", "gold", "distill", "distillation"), "supervised"),
}
"""Methods that are not reinforcement learning. Distillation may sample responses, but its group size is 1."""
_STARTED = re.compile(r"(?:^|[\s/])([\w\-]+)\.py\b|\s-m\s+([\w.]+)")
_TUNES = re.compile(r"(?:(?:main|run|train|fsdp|megatron)_)*sft(?:_(?:trainer|train|main))?")
"""Scripts and modules of supervised training, even in a framework for RL."""
_COMMAND = re.compile(r"\s-m\s+[\w.]+\s+(\w+)$")
"""The subcommand of a module, such as ``ppo`` in ``python -m package.quickstart ppo``."""
_PLAIN = re.compile(r"(?:train|main|run|launch|start|trainer|cli|runpy)(?:\.py)?")
"""Programs whose name does not show the kind of training. The file name decides instead."""
_EVALUATES = re.compile(
    r"(?:run_)?(?:eval|evaluate|evaluation|infer|inference|benchmark)(?:_[a-z]+)?|main_(?:generate|generation|eval)"
)
"""Programs that only evaluate, even if they receive a training configuration."""
_OF_IMAGES = re.compile(r"(?i)stable-?diffusion|\bsd3|sdxl|\bflux[.\-_]?1|\bwan2")
"""Names of image generation models; GRPO for such a model does not train a language model."""
_DRAWS = re.compile(r"(?:\w+_)?(?:vq)?vae(?:_\w+)?|unet|guidance_scale|num_inference_steps|sampling_timesteps")
"""Parts of keys that only configurations of image generation models have."""
_SMALL = re.compile(r"(?i)(?:mlp|cnn|resnet)(?:_\w+)?")
"""Names of policies that are not language models."""
_TRAINS = re.compile(r"(?i)train|tune|main|run|launch|learn|start|cli")
"""Words in a command that may indicate training."""
_CONFIGURES = re.compile(r"(?i)(?:^|_)(?:exp|experiment|config|cfg|args|train|trainer|main|run)(?:_|$)")
_OF_A_CRITIC = frozenset("critic_lr critic_learning_rate lr_critic value_lr".split())
_MEASURES = re.compile(
    r"(?i)(?:run_)?(?:eval|evaluate|analy[sz]e|analysis|compare|measure|plot|infer|inference|benchmark)(?:_|-|$)"
)
"""Names of files that inspect a model. A group size in such a file is not the group size of a training run."""
_OF_TEXT = re.compile(r"model_name|model_path|llm|tokenizer|prompt|token|completion|response|vla")
"""Parts of keys that only the training of a language model has."""
_OF_GAMES = frozenset(
    "n_envs num_envs total_timesteps env_id env_name gym_id n_steps clip_range n_epochs policy_kwargs".split()
)
"""Keys of Stable-Baselines3 and CleanRL, whose PPO trains small networks to play games."""
_SUPERVISED = re.compile(r"(?i)(?:^|[^a-z])sft(?:[^a-z]|$)|SFTConfig|^TrainingArguments|fsdp_sft|pretrain\b")
_PREFERENCE = re.compile(
    r"(?i)(?:^|[^a-z])(?:dpo|kto|orpo|simpo|cpo|ipo|rm)(?:[^a-z]|$)|(?:DPO|KTO|ORPO|CPO|(?-i:\bReward))Config|train_rm"
)
_METHOD = re.compile(
    r"(?i)(?:fine_?tun\w*|train\w*|algo\w*|rlhf)_?(?:method|type|name|stage)|algorithm|method|stage|rl|rlhf_type|loss"
)
"""Keys whose values name the method of a document, in any section."""


class Facts:
    """The facts about a launch that the clues use."""

    def __init__(self, launch: Launch, found: Configuration) -> None:
        self.launch, self.found = launch, found
        self.framework = found.framework
        self.script = launch.program.startswith("script")
        self.algorithm = str(found.settings.get("algorithm", "")).lower()
        self.lasts = {e.key.rsplit(".", 1)[-1].lower() for e in launch.entries}
        self.training = TRAINING & found.settings.keys()

    @cached_property
    def started(self) -> list[str]:
        """Return the scripts and modules that the launch starts."""
        return [(word[1] or word[2]) for word in _STARTED.finditer(self.launch.program)]

    @cached_property
    def rl_settings(self) -> frozenset[str]:
        """Return the settings that only reinforcement learning has, except settings that may have another meaning in
        this launch."""
        found = self.found
        said = ONLY_RL.intersection(found.settings)
        if self.script:
            said = said.intersection(found.lines)  # without settings of imported modules
        if self.only_beta and not GROUPED.search(self.launch.program) and "temperature" not in found.settings:
            said = said - {"kl_coef"}  # preference training also has a beta
        if said == {"rollout_prompts"} and found.keys.get("rollout_prompts") == "batch_size":
            said = frozenset()  # any training has a batch size
        return said

    @cached_property
    def only_beta(self) -> bool:
        """Return whether a beta is the only evidence for reinforcement learning."""
        said = ONLY_RL.intersection(self.found.settings)
        return said == {"kl_coef"} and self.found.keys["kl_coef"].rsplit(".", 1)[-1] == "beta"

    @property
    def grouped(self) -> bool:
        """Return whether the launch samples several responses per prompt."""
        return "group_size" in self.rl_settings

    @property
    def only_grouped(self) -> bool:
        """Return whether a group size is the only evidence for reinforcement learning. A group size alone may count
        other answers."""
        return self.rl_settings == {"group_size"}

    def has_section(self, *names: str) -> bool:
        """Return whether a document has a section with one of these names."""
        return any(e.key.split(".", 1)[0] in names for e in self.launch.entries)

    @property
    def plain_title(self) -> bool:
        """Return whether the file name may decide the kind of training, because there is little other evidence for
        reinforcement learning."""
        alone = self.script and self.found.settings.get("group_size", 1) == 1
        alone |= self.launch.program.startswith("TrainingArguments")  # transformers' own class
        little = self.rl_settings <= {"group_size"} or (self.only_beta and not self.launch.program)
        return little and not OF_RL.search(self.launch.title) and (alone or not self.launch.program)

    @cached_property
    def method(self) -> RunType | None:
        """Return the kind of training that a document names; None if the kind is unknown or reinforcement learning."""
        if (self.found.number("group_size") or 0) > 1:
            return None
        if self.algorithm and method_of(self.algorithm) is None:
            return None
        entries = [entry for entry in self.launch.entries if entry.line or not self.launch.program]
        named = [str(e.value).lower() for e in entries if _METHOD.fullmatch(e.key.rsplit(".", 1)[-1])]
        if any(map(OF_RL.search, named)):
            return None
        return next(filter(None, map(method_of, named)), None)

    def called(self, kind: re.Pattern[str]) -> bool:
        """Return whether the program or the configuration class is named after this other kind of training."""
        if kind is _PREFERENCE:
            return bool(kind.search(self.launch.program)) and not OF_RL.search(self.launch.program)
        return any(map(kind.search, self.started)) and not any(map(OF_RL.search, self.started))

    @property
    def named_after_rl(self) -> bool:
        """Return whether a command or file is named after reinforcement learning, and not after another kind of
        training, and has settings of a language model."""
        if self.script:
            return False
        told = [str(entry.value) for entry in self.launch.entries if entry.key == "program"]  # a W&B sweep
        names = [*told, *(name.rsplit(".", 1)[-1] for name in self.started), *_COMMAND.findall(self.launch.program)]
        if all(map(_PLAIN.fullmatch, names)):
            names.append(self.launch.title)
        others = any(_SUPERVISED.search(name) or _PREFERENCE.search(name) for name in names)
        return any(map(OF_RL.search, names)) and not others and self.of_text

    @property
    def of_text(self) -> bool:
        """Return whether any key is specific to language models."""
        return any(_OF_TEXT.search(entry.key) for entry in self.launch.entries)

    @property
    def answers(self) -> bool:
        """Return whether the group size may be a number of answers in a program that does not train."""
        if self.found.keys.get("group_size", "").rsplit(".", 1)[-1].lower() == "k":
            return True
        program = self.launch.program
        return bool(program and not self.script and not OF_RL.search(program) and not _TRAINS.search(program))


def _only_evaluates(entry: Entry) -> bool:
    """Return whether a training program is configured to evaluate only."""
    return (entry.key.endswith("val_only") and entry.value is True) or entry.value == "eval_only"


def _measures_what_another_trains(facts: Facts) -> bool:
    """Return whether the name of a file shows that it inspects a model, and its configuration comes from an imported
    module."""
    launch = facts.launch
    configures = launch.program and not facts.script
    return bool(configures) and not launch.line and _MEASURES.match(launch.title) is not None


def _of_another_model(facts: Facts) -> bool:
    """Return whether the model generates images or plays games, judged by names and keys that only such models have."""
    entries, settings = facts.launch.entries, facts.found.settings
    draws = any(_DRAWS.fullmatch(part) for e in entries for part in e.key.split("."))
    small = any(e.key.endswith("model_name") and _SMALL.fullmatch(str(e.value)) for e in entries)
    plays = small or facts.launch.program.endswith(" gym")
    return plays or (draws and "max_new_tokens" not in settings) or bool(_OF_IMAGES.search(str(settings.get("model"))))


def _games(facts: Facts) -> bool:
    return len(_OF_GAMES & facts.lasts) > 1 and not facts.grouped and not any(map(_OF_TEXT.search, facts.lasts))


def _starts_it(facts: Facts) -> bool:
    """Return whether the launch starts a program of the framework."""
    pairs = facts.framework.can("learns_from_pairs")
    return facts.framework is not HAND_WRITTEN and not pairs and facts.framework.starts(facts.launch.program, 0)


def _critic_of_text(facts: Facts) -> bool:
    return bool(facts.training and _OF_A_CRITIC & facts.lasts and any(map(_OF_TEXT.search, facts.lasts)))


def _builds_rl(facts: Facts) -> bool:
    """Return whether a script contains training settings, and either is named after reinforcement learning or imports
    names for it."""
    of_title = facts.rl_settings and OF_RL.search(facts.launch.title) and _CONFIGURES.search(facts.launch.title)
    stated = bool(facts.training) or bool(facts.found.lines.get("group_size"))
    return facts.script and stated and bool(facts.launch.imports_rl or of_title)


Weighed = tuple[RunType, float, str, Callable[[Facts], object]]


def _by_name(kind: RunType, names: re.Pattern[str]) -> Iterator[Weighed]:
    """Yield the clues from names (of a method, file or program) for a kind of training other than reinforcement
    learning."""
    of_program = "the name of the started program indicates it"
    yield kind, 7 * DECISIVE, "the document names the method", lambda f: f.method == kind
    yield kind, DECISIVE, "the file name indicates it", lambda f: f.plain_title and names.search(f.launch.title)
    yield kind, 20, of_program, lambda f: not f.grouped and f.called(names)
    yield kind, 6, of_program, lambda f: names.search(f.launch.program)


CLUES: tuple[Weighed, ...] = (
    *_by_name("preference", _PREFERENCE),
    *_by_name("supervised", _SUPERVISED),
    (
        "preference",
        10 * DECISIVE,
        "the algorithm is preference training",
        lambda f: method_of(f.algorithm) == "preference" and not {"group_size", "epsilon"} <= f.found.settings.keys(),
    ),
    ("supervised", 9 * DECISIVE, "the algorithm is supervised", lambda f: method_of(f.algorithm) == "supervised"),
    (
        "supervised",
        9 * DECISIVE,
        "the framework defaults to supervised training",
        lambda f: f.framework.can("supervised_unless_said") and not f.algorithm and not f.named_after_rl,
    ),
    (
        "supervised",
        8 * DECISIVE,
        "the started program is supervised training",
        lambda f: f.started and _TUNES.fullmatch(f.started[-1].rsplit(".", 1)[-1]),
    ),
    ("evaluation", 6 * DECISIVE, "an evaluation file that imports its settings", _measures_what_another_trains),
    (
        "none",
        5 * DECISIVE,
        "the section of the trained policy is missing",
        lambda f: (
            f.framework.trained_section and not f.launch.program and not f.has_section(f.framework.trained_section)
        ),
    ),
    (
        "evaluation",
        4 * DECISIVE,
        "the started program only evaluates",
        lambda f: any(_EVALUATES.fullmatch(name.rsplit(".", 1)[-1]) for name in f.started),
    ),
    (
        "evaluation",
        4 * DECISIVE,
        "it is configured to evaluate only",
        lambda f: any(map(_only_evaluates, f.launch.entries)),
    ),
    ("none", 3 * DECISIVE, "the model generates images or plays games", _of_another_model),
    ("rl", 2 * DECISIVE, "the framework's program is started", _starts_it),
    (
        "preference",
        2 * DECISIVE,
        "the framework is for preference training",
        lambda f: f.framework.can("learns_from_pairs"),
    ),
    ("none", DECISIVE, "settings of game environments", _games),
    (
        "none",
        DECISIVE,
        "the file name indicates evaluation",
        lambda f: _MEASURES.match(f.launch.title) and not f.training.intersection(f.found.lines),
    ),
    (
        "evaluation",
        DECISIVE,
        "only a group size, in an evaluation file",
        lambda f: (
            f.only_grouped
            and not f.launch.program
            and not f.training
            and f.has_section("eval", "evals", "num_examples")
        ),
    ),
    (
        "none",
        DECISIVE,
        "only a group size, which may count any answers",
        lambda f: f.only_grouped and not f.training and f.answers,
    ),
    (
        "preference",
        20,
        "a section of preference training",
        lambda f: f.has_section("dpo", "kto", "simpo", "orpo") and not f.grouped and not f.launch.program,
    ),
    (
        "rl",
        10,
        "the algorithm is reinforcement learning",
        lambda f: (
            len(f.found.settings) >= 2
            and any(needs_group(f.found.settings.get(name)) is not None for name in ("algorithm", "loss_type"))
        ),
    ),
    ("rl", 8, "a group", lambda f: f.grouped and len(f.found.settings) >= 2),
    (
        "rl",
        7,
        "reinforcement learning settings",
        lambda f: (
            f.rl_settings - {"group_size"} and len(f.found.settings) >= 2 and not _SUPERVISED.search(f.launch.program)
        ),
    ),
    (
        "rl",
        7,
        "keys that only reinforcement learning uses",
        lambda f: (
            f.framework.can("only_rl") and f.found.settings and not f.has_section("sft", "dpo", "rm", "distillation")
        ),
    ),
    ("rl", 6, "a script for reinforcement learning", _builds_rl),
    ("rl", 5, "the name indicates reinforcement learning", lambda f: f.training and f.named_after_rl),
    ("rl", 6, "a broken script that imports a trainer", lambda f: f.launch.broken and f.launch.imports_rl),
    ("rl", 5, "a critic of a language model", _critic_of_text),
    (
        "supervised",
        5,
        "training settings",
        lambda f: len(f.training) >= 2 and not f.rl_settings and (f.launch.program or f.launch.complete),
    ),
)
"""The clues for each kind of training, with their weights."""


def method_of(word: str) -> RunType | None:
    """Return the kind of training of a method. The name may have the library as a prefix, as in ``trl_dpo``."""
    return METHODS.get(word) or METHODS.get(word.rpartition("_")[2])


def kind_of(launch: Launch, found: Configuration) -> tuple[RunType, list[Clue]]:
    """Return the kind of training with the highest score, or ``none`` if no kind is recognised, and the evidence for
    each kind."""
    facts = Facts(launch, found)
    clues: list[Clue] = []
    scores: dict[RunType, float] = {}
    for kind, weight, words, holds in CLUES:
        if holds(facts):
            clues.append(Clue(kind, weight, words))
            scores[kind] = scores.get(kind, 0.0) + weight
    best = max(scores, key=lambda kind: scores[kind], default=None)
    return (best if best is not None and scores[best] >= LEAST else "none"), clues
