"""What a launch means: its framework, its settings under the names that checks ask for, and what was not understood."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..readers.values import number
from ..run import RunType
from .custom_names import PERHAPS, RATES, few, rank, usual
from .frameworks import END_OF_TURN, FILES_OF_MODELS, FRAMEWORKS, HAND_WRITTEN, Framework, needs_group
from .launch import PER_PROMPT, Entry, Launch, Several, Unresolved
from .training_kind import kind_of
from .unknown_keys import name_unknown

OTHERS = re.compile(
    r"(?i)critic|value_\w+|vf_\w+|reward\w*|ref|reference|val|val_\w+|valid\w*|eval\w*|test\w*|teacher\w*|judge\w*|sft\w*|dpo\w*|optim_args"
    r"|supervised|pretrain_\w+|inference|benchmark\w*|quant\w*|embedding\w*|scheduler|runtime_assertions"
)
"""Parts of a configuration whose settings are not those of the policy's training."""
SWEPT = ("group_size", "learning_rate")
"""Settings of which a sweep's first value is kept; any other that takes several is unknown."""
BY_HYDRA = ("verl", "SkyRL")
"""Frameworks whose documents say no default by what they leave out: hydra puts several together."""
_OF_EPISODES = ("env.rollout.n", "es_manager.train.group_size", "agent.num_chains")
"""Keys of the group in verl-agent, RAGEN and AgentFly, whose agents play several turns."""
_OF_VERL = frozenset(
    "actor_rollout_ref actor rollout ref model data trainer algorithm critic reward_model reward "
    "custom_reward_function ray_init ray_kwargs global_profiler transfer_queue async_training hydra lora".split()
)
"""Top-level sections of verl's documents."""
_ROLLS_OUT = re.compile(
    r"agent|env|rollout|episode|turn|trajector|replica|game|world|simul|search|retriev|tree|generat|harbor|bench"
)
"""Words in the keys of a section that may give verl a rollout of another size than ``data.train_batch_size`` x n."""
_OF_SHELL = re.compile(r"env\.[A-Z_]+")
"""Variables of the shell that a command is started with, which are no section of its settings."""
_OF_ACTIONS = re.compile(r"(?i)(?<![a-z])(?:open|simple)?vla(?![a-z])")
"""Names of models and programs whose tokens are the actions of a robot."""
_MODULE = re.compile(r"\s-m\s+(\w+(?:\.\w+)+)")
_VERLS = ("verl.", "recipe.")
"""Where modules of verl itself stand; another package's takes verl's settings for a trainer of its own, as rLLM's."""
_SWITCH = re.compile(r".+(?=\.enabled?$)")
"""The section that a key switches on or off as a whole."""
_RL_SECTION = re.compile(r"(?i)(?:grpo|ppo|rloo|gspo|dapo|rlvr|rlhf|rl)(?:_?(?:config|training|trainer|args|params))?")
"""Sections of a document whose settings count before those of its other stages."""
_FULL = ("full_finetune", "full_finetuning", "full_ft", "full_tuning", "no_lora", "no_peft", "disable_lora")
"""Switches by which all weights are trained."""
_TRL_ITSELF = re.compile(r"GRPOConfig|GRPOScriptArguments|\btrl grpo|trl[./]scripts")
"""Programs that are TRL's own; a script that is only called like one may hold an old fork."""


@dataclass
class Configuration:
    """The settings of one training as its configuration declares them.

    Attributes:
        settings: name of the checks to value, what is derived from them included.
        assumed: the defaults among them, with the framework's version.
        lines, keys: setting to the line and the key that say it.
        unknown: keys that the framework never had, or has no longer, with what is known of them.
        renames: line, key and today's name of keys that a patch may rename.
        unresolved: keys whose value is an expression that could not be worked out.
        swept: keys that have several values one after the other; the first of them stands in the settings.
        unread: keys that no rule asks for.
        elsewhere: where the settings are that the file leaves to others.
        severed: lines that were read although the shell does not pass them to the command.
        versions: packages whose version is known.
        complete: whether a feature that the settings do not name is off.
    """

    framework: Framework
    run_type: RunType
    settings: dict[str, Any] = field(default_factory=dict)
    assumed: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    unknown: list[tuple[Entry, str]] = field(default_factory=list)
    removed: list[tuple[Entry, str]] = field(default_factory=list)
    renames: list[tuple[int, str, str]] = field(default_factory=list)
    unresolved: dict[str, str] = field(default_factory=dict)
    swept: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    severed: list[int] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def number(self, name: str) -> float | None:
        """A setting as a number; None where it is none, an infinite one, or several one after the other."""
        value = None if name in self.swept else self.settings.get(name)
        figure = number(value) if isinstance(value, int | float) else None
        return figure if figure is not None and math.isfinite(figure) else None

    def stated(self, *names: str) -> bool:
        """Whether the file itself says these settings, no default among them."""
        known = self.settings.keys() - self.assumed.keys() - self.swept.keys()
        return known.issuperset(names)


def understand(launch: Launch) -> Configuration:
    """The configuration that a launch passes."""
    framework = recognise(launch)
    found = Configuration(framework, "none", notes=list(launch.notes), elsewhere=list(launch.elsewhere))
    found.severed = list(launch.severed)
    found.versions = {package: pin.version for package, pin in launch.versions.items()}
    found.complete = launch.complete
    taken = _take(launch, framework, found)
    found.run_type = kind_of(launch, found)
    if found.run_type == "none" and not found.elsewhere:
        found.elsewhere = [f"it starts {named}, which is not beside it" for named in launch.absent]
    name_unknown(launch, found)
    if launch.complete and found.run_type == "rl" and not _only_by_keys(launch, framework, found):
        for name, value in framework.defaults.items():
            # a document is mostly completed by its command, and one of hydra's by the framework's own documents
            elsewhere = not launch.program and (name == "group_size" or framework.name in BY_HYDRA)
            elsewhere |= name == "group_size" and str(found.settings.get("algorithm", "grpo")).lower() == "ppo"
            if name not in found.settings and name not in found.unresolved and not elsewhere:
                found.settings[name] = found.assumed[name] = value
    found.unread = [e.key for e in launch.entries if e.key not in taken and not e.key.startswith(("lora.", "env."))]
    _settle(launch, found)
    return found


def _only_by_keys(launch: Launch, framework: Framework, found: Configuration) -> bool:
    """Whether a program of the author's own takes some of the framework's flags, or a document holds them in
    sections, which the framework does not know."""
    if not launch.program:
        return bool(framework.fields) and all("." in key for key in found.keys.values())
    return bool(framework.fields) and not re.search(framework.program, launch.program)


def recognise(launch: Launch) -> Framework:
    """The framework that a launch is written for: by what it calls, else by its keys."""
    passed = launch.entries[: launch.firm]
    heads = {".".join(e.key.split(".")[:n]) for e in passed for n in (1, 2, 3)}
    started = next((f for f in FRAMEWORKS if f.program and re.search(f.program, launch.program)), None)
    if launch.program.startswith("script") and started is None:
        return HAND_WRITTEN
    lasts = {e.key.rsplit(".", 1)[-1] for e in passed}
    scored = [
        (sum(s in heads or (f.flat and s in lasts) for s in f.signs), f)
        for f in FRAMEWORKS
        if not (launch.program and f.name in FILES_OF_MODELS)
    ]
    best = max((score for score, _ in scored), default=0)
    nested = next((f for score, f in scored if not f.flat and score >= min(2, len(f.signs)) > 0), None)
    if nested is not None and started is not None and started.name == "TRL" and not _TRL_ITSELF.search(launch.program):
        return nested  # a script that is only called like one of TRL's
    strange = started is not None and not started.flat and not any(sign in heads for sign in started.signs)
    own = strange and _own_flags(passed)
    if started is not None and not (strange and best >= 2) and not own:
        return started
    return next((f for score, f in scored if score == best and score >= min(2, len(f.signs)) > 0), HAND_WRITTEN)


def _own_flags(passed: list[Entry]) -> bool:
    """Whether a command passes flags of the author's own, and nothing as a nested framework is told it."""
    index = {entry.key: entry for entry in passed}
    return not any("." in key for key in index) and any(usual(key, index) in SWEPT for key in index)


def _take(launch: Launch, framework: Framework, found: Configuration) -> set[str]:
    """Reads the settings off the entries; returns the keys that said one."""
    index = _suffixes(launch, framework.flat)
    names: dict[str, list[str]] = {name: list(keys) for name, keys in framework.names.items()}
    if framework is HAND_WRITTEN:
        for key in sorted(index, key=lambda key: (index[key].line == 0, key in launch.vague, rank(key, index[key]))):
            if (name := usual(key, index)) is not None:
                names.setdefault(name, []).append(key)
    for name in SWEPT if framework is not HAND_WRITTEN and framework.flat else ():
        if not any(key in index for key in names.get(name, [name])):  # a program of the author's own
            own = [key for key in index if usual(key, index) == name]
            names.setdefault(name, []).extend(sorted(own, key=lambda key: rank(key, index[key])))
    if framework is HAND_WRITTEN and not names.get("group_size") and ("kl_coef" in names or "epsilon" in names):
        names["group_size"] = [key for key in PERHAPS if key in index and few(index[key].value)]
    if framework is HAND_WRITTEN:
        names.setdefault("learning_rate", []).extend(RATES)
    taken: set[str] = set()
    for name, keys in names.items():
        for key in keys:
            entry = index.get(key)
            if entry is None:
                continue
            taken.add(entry.key)
            _hold(name, entry, found)
    return taken


def _hold(name: str, entry: Entry, found: Configuration) -> None:
    """Keeps what an entry says of a setting, unless one before it said it."""
    if name in found.settings or entry.value is None:
        return
    swept = isinstance(entry.value, Several) and name in SWEPT
    if isinstance(entry.value, Unresolved) and not swept:
        found.unresolved.setdefault(name, f"{entry.key} = {entry.value}")
        return
    found.unresolved.pop(name, None)
    if swept:
        found.swept[name] = f"{entry.key} = {entry.value}"
    found.settings[name], found.keys[name] = entry.value.values[0] if swept else entry.value, entry.key
    if entry.line:
        found.lines[name] = entry.line


def _suffixes(launch: Launch, flat: bool) -> Mapping[str, Entry]:
    """Every key by which an entry can be asked for: its own, and its ends; those of other roles only by their own."""
    index: dict[str, Entry] = {}
    for entry in launch.entries:
        if entry.key not in index or index[entry.key].value is None:
            index[entry.key] = entry
    off = {section[0] for key, e in index.items() if e.value is False and (section := _SWITCH.match(key))}
    for key in [key for key in index if off and not _SWITCH.match(key) and off & _sections(key)]:
        del index[key]
    for entry in sorted(index.values(), key=lambda entry: not any(map(_RL_SECTION.fullmatch, entry.key.split(".")))):
        parts = entry.key.split(".")
        other = any(OTHERS.fullmatch(part) for part in parts[:-1])
        for start in range(1, len(parts)):
            if len(parts) - start >= 2 or (flat and not other):
                end = ".".join(parts[start:])
                if end not in index or _says_more(entry, index[end]):
                    index[end] = entry
    return index


def _sections(key: str) -> set[str]:
    """The sections in which a key stands."""
    return {key[:at] for at, sign in enumerate(key) if sign == "."}


def _says_more(entry: Entry, than: Entry) -> bool:
    """Whether a nested key takes the place of an option without a default, of one that was not worked out, or of what
    only another file says."""
    if isinstance(entry.value, Unresolved) or entry.value is None:
        return than.value is None
    return than.value is None or isinstance(than.value, Unresolved) or (entry.line > 0 and than.line == 0)


def _settle(launch: Launch, found: Configuration) -> None:
    """What follows from several keys: adapter, processes, counts of rewards, whether a group is needed."""
    settings = found.settings
    _end_of_turn(found)
    _by_key(launch, found)
    _adapter(launch, found)
    _worked_out_twice(launch, found)
    if (world := _processes(launch, found)) is not None:
        settings["world_size"] = world
    targets = settings.pop("adapter_targets", None)
    torn = [word for word in targets if str(word).endswith(",")] if isinstance(targets, list) else []
    if torn:
        settings["torn_targets"], found.lines["torn_targets"] = " ".join(torn), found.lines.get("adapter_targets", 0)
    for name in ("reward_functions", "reward_weights"):
        value = settings.pop(name, None)
        if isinstance(value, list):
            settings[f"{name}_count"] = len(value)
            found.lines.setdefault(f"{name}_count", found.lines.get(name, 0))
    if found.run_type == "rl" and found.framework.name not in FILES_OF_MODELS:
        settings["framework"] = found.framework.name
        settings["by_command"] = bool(launch.program)
        if found.framework.name == "TRL" and launch.program and not _TRL_ITSELF.search(launch.program):
            settings["own_program"] = True
        if _OF_ACTIONS.search(f"{launch.program} {settings.get('model', '')}"):
            settings["of_actions"] = True
        if found.framework.rollouts_apart:
            settings.setdefault("rollout_engine", "the framework's own")
        estimator = settings.get("adv_estimator")
        grouped = needs_group(estimator)
        if estimator is None and "adv_estimator" not in found.unresolved:
            trl = found.framework.name in ("TRL", "Unsloth", "ms-swift", "axolotl")
            algorithm = str(settings.get("algorithm", "grpo")).lower()
            grouped = True if trl and algorithm in ("grpo", "gspo", "dapo") else None
        if found.framework.name == "OpenRLHF" and "agent" in settings:
            grouped = None
        if "own_group" in settings:
            grouped = None  # whose rollouts may make groups of other responses
        if "teacher" in settings or (grouped is None and any(e.key.startswith("critic.") for e in launch.entries)):
            grouped = False
        if settings.pop("older_micro", None) is not None:
            settings["older_verl"] = True
        if grouped is not None:
            settings["group_baseline"] = grouped
    if "use_kl_loss" in found.assumed and found.stated("kl_coef"):
        settings["kl_loss_by_default"] = True
    for name, value in list(settings.items()):
        if isinstance(value, list):
            del settings[name]


def _end_of_turn(found: Configuration) -> None:
    """The token with which a chat template closes a turn, where it never writes the tokenizer's EOS."""
    template, eos = found.settings.pop("chat_template", None), found.settings.get("eos_token")
    if not isinstance(template, str) or not isinstance(eos, str) or eos in template or "eos_token" in template:
        return
    ends = set(END_OF_TURN.findall(template))
    if len(ends) == 1:
        found.settings["turn_ends_with"] = ends.pop()
        found.lines["turn_ends_with"] = found.lines.get("chat_template", 1)


def _worked_out_twice(launch: Launch, found: Configuration) -> None:
    """What TRL filled in itself: its live arguments, and a document that logged them, hold both of a pair."""
    batch, steps = found.number("generation_batch_size"), found.number("steps_per_generation")
    device = found.number("per_device_train_batch_size")
    written = launch.program and launch.line
    if batch and steps and device and not written and batch % (device * steps) == 0:
        del found.settings["steps_per_generation"]


def _by_key(launch: Launch, found: Configuration) -> None:
    """What a setting means where its key is that of one fork, or of one of several backends."""
    settings = found.settings
    if found.keys.get("group_size", "").endswith("n_agent") and "update_prompts" in settings:
        settings["update_responses"] = settings.pop("update_prompts")  # Search-R1 repeats the prompts before it splits
    script = found.framework is HAND_WRITTEN and launch.program.startswith("script")
    if script and settings.get("group_size") == 1 and "group_size" not in found.lines:
        found.unresolved["group_size"] = f"{found.keys['group_size']} = 1 in a module beside it"
        del settings["group_size"]
    own = _of_a_fork(launch) if found.framework.name == "verl" else ""
    of_episodes = found.keys.get("group_size") in _OF_EPISODES
    if own or of_episodes:
        # agents of its own may roll out, and a row of the batch is a turn, of which nobody knows how many
        settings["own_rollout"] = True
        for name in ("update_prompts", "micro_responses"):
            settings.pop(name, None)
    if own and settings.get("group_size") == 1 and not of_episodes:
        settings["own_group"] = True
        theirs = (e for e in launch.entries if e.key.split(".", 1)[0] in own.split(", "))
        said = next((e for e in theirs if _tells_the_group(e)), None)
        if said is not None:
            settings["group_size"] = said.value
            found.keys["group_size"], found.lines["group_size"] = said.key, said.line
            found.assumed.pop("group_size", None)
        elif found.assumed.pop("group_size", None) is not None:
            found.unresolved["group_size"] = f"n = 1 beside the fork's own {own}"
            del settings["group_size"]
    if found.keys.get("group_size", "").startswith("train_env_manager") and "rollout_prompts" in settings:
        settings["rollout_responses"] = settings.pop("rollout_prompts")  # ROLL's agentic pipeline counts trajectories
    low, apart = settings.pop("epsilon_low_apart", None), settings.pop("clip_apart", None)
    if apart is True and low is not None:
        settings["epsilon"] = low
    elif found.framework.name == "ROLL":
        settings.pop("epsilon_high", None)  # both bounds are those of pg_clip
    if settings.pop("without_kl", None) is True:
        settings["use_kl_loss"] = settings["use_kl_in_reward"] = False
    elif found.framework.name in ("EasyR1", "OpenRLHF") and settings.get("use_kl_loss") is False:
        settings["use_kl_in_reward"] = True  # there the KL is in the reward where it is not in the loss
    if settings.pop("by_sequence", None) is True:
        settings["importance_sampling_level"] = "sequence"  # NeMo-RL's switch of GSPO
    megatron = settings.pop("by_megatron", None)
    for name, there in (("learning_rate", "megatron_rate"), ("use_peft", "megatron_peft")):
        value = settings.pop(there, None)
        if megatron is True and value is not None:
            settings[name], found.keys[name] = value, found.keys[there]
            found.lines[name] = found.lines.get(there, 1)


def _tells_the_group(entry: Entry) -> bool:
    return isinstance(entry.value, int) and PER_PROMPT.fullmatch(entry.key.rsplit(".", 1)[-1]) is not None


def _of_a_fork(launch: Launch) -> str:
    """The module of another package that a command starts, or the top-level sections that it passes, that verl does
    not have, and that speak of a rollout; one of a judge, a logger or the data leaves verl's arithmetic as it is."""
    modules = _MODULE.findall(launch.program)  # of which the last is the trainer, those before start it
    if modules and not modules[-1].startswith(_VERLS):
        return str(modules[-1])
    said = (entry.key for entry in launch.entries if entry.line and "." in entry.key and _ROLLS_OUT.search(entry.key))
    own = {key.split(".", 1)[0] for key in said if not _OF_SHELL.fullmatch(key)} - _OF_VERL
    return ", ".join(sorted(own)[:3]) if launch.program else ""


def _adapter(launch: Launch, found: Configuration) -> None:
    settings = found.settings
    tuner = settings.pop("tuner", None)
    if found.framework.name == "ms-swift" and tuner is None and "tuner" not in found.unresolved:
        tuner = "lora"
    peft = settings.get("use_peft")
    rank = found.number("lora_r")
    absent = any(e.key == "lora.absent" for e in launch.entries)
    if any(e.key in _FULL and e.value is True and e.line for e in launch.entries):
        settings["use_peft"] = False
    elif isinstance(tuner, str):
        settings["use_peft"] = tuner.lower() in ("lora", "qlora", "adalora", "dora")
    elif isinstance(peft, bool):
        pass
    elif rank is not None:
        settings["use_peft"] = rank > 0
    elif absent:
        settings["use_peft"] = False
    elif isinstance(peft, str):
        del settings["use_peft"]
    if settings.get("use_peft") is False:
        settings.pop("lora_r", None)
        settings.pop("lora_dropout", None)


def _processes(launch: Launch, found: Configuration) -> int | None:
    """How many processes train: as said, or one where a script is started alone."""
    settings = found.settings
    devices = settings.pop("devices", None)
    stated, nodes = found.number("processes"), found.number("nodes") or 1
    if not launch.program and found.framework.fields and found.keys.get("processes") == "num_processes":
        stated = None  # a document of the trainer does not start its processes
    settings.pop("processes", None)
    if (world := found.number("world_size")) is not None and "world_size" not in found.assumed:
        return int(world)
    if stated is not None and "nodes" not in found.unresolved:
        together = found.keys.get("processes") == "num_processes"
        return int(stated if together else stated * nodes)
    if {"processes", "nodes", "devices_per_node"} & found.unresolved.keys():
        settings.pop("world_size", None)
        return None
    if (per_node := found.number("devices_per_node")) is not None:
        return int(per_node * nodes)
    if found.framework.name == "Unsloth":
        several = isinstance(devices, str) and "," in devices
        if several:
            settings.pop("world_size", None)
        return None if several else 1
    return None
