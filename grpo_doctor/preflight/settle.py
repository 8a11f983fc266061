"""Derives facts from several settings of a configuration: adapter, processes, fork, and whether the advantages need
groups."""

from __future__ import annotations

import re

from .configuration import Configuration
from .estimators import needs_group
from .frameworks import HAND_WRITTEN, Forks, When
from .launch import Launch

END_OF_TURN = re.compile(r"<\|(?:im_end|eot_id|end|eot|END_OF_TURN_TOKEN|turn_end)\|>|<end_of_turn>|<turn\|>")
"""Tokens that end a turn in chat templates."""
_FULL = ("full_finetune", "full_finetuning", "full_ft", "full_tuning", "no_lora", "no_peft", "disable_lora")
"""Switches that enable full fine-tuning."""
_ADAPTER = re.compile(r"(?i)lora|peft|adapter")
_ROLLS_OUT = re.compile(
    r"agent|env|rollout|episode|turn|trajector|replica|game|world|simul|search|retriev|tree|generat|harbor|bench"
)
"""Words in the names of sections that may change the rollout size in a fork."""
_OF_SHELL = re.compile(r"env\.[A-Z_]+")
"""Keys of environment variables of a command, which do not form a section of settings."""
_OF_ACTIONS = re.compile(r"(?i)(?<![a-z])(?:open|simple)?vla(?![a-z])")
"""Matches names of models and programs whose tokens are robot actions."""
_MODULE = re.compile(r"\s-m\s+(\w+(?:\.\w+)+)")


def settle(launch: Launch, found: Configuration) -> None:
    """Derive facts from several keys: adapter, processes, number of rewards, and whether the advantages need groups."""
    settings = found.settings
    _end_of_turn(found)
    _of_module(launch, found)
    _of_fork(launch, found)
    _apply_rules(found)
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
    if found.run_type == "rl" and not found.framework.can("beside_the_weights"):
        _of_the_run(launch, found)
    if found.run_type == "preference":
        _of_preference(launch, found)
    if "kl_coef" in found.assumed and settings.get("use_kl_loss") is False:
        del settings["kl_coef"], found.assumed["kl_coef"]  # a default of a term that is off
    if "use_kl_loss" in found.assumed and found.stated("kl_coef"):
        settings["kl_loss_by_default"] = True
    for name, value in list(settings.items()):
        if isinstance(value, list):
            del settings[name]


def _of_the_run(launch: Launch, found: Configuration) -> None:
    """Derive facts about the whole run: its framework, how it is started, and whether its baseline is computed from a
    group of responses."""
    settings = found.settings
    settings["framework"] = found.framework.name
    settings["by_command"] = bool(launch.program)
    of_class = found.framework.flat and bool(found.framework.fields)
    if of_class and launch.program and not found.framework.starts(launch.program):
        settings["own_program"] = True
    if _OF_ACTIONS.search(f"{launch.program} {settings.get('model', '')}"):
        settings["of_actions"] = True
    if found.framework.can("rollout_engine_apart"):
        settings.setdefault("rollout_engine", "the framework's own")
    if (grouped := _group_baseline(launch, found)) is not None:
        settings["group_baseline"] = grouped


_METHOD = re.compile(r"(?i)(?<![a-z])(simpo|orpo|kto|cpo|ipo|dpo|reward|rm)(?:(?![a-z])|(?=config|trainer))")
"""Matches names of preference training methods in the name of a program, class or file."""


def _of_preference(launch: Launch, found: Configuration) -> None:
    """Store the method, the beta and the loss of preference training under separate names, because beta and loss have
    other meanings in RL."""
    settings = found.settings
    settings["framework"] = found.framework.name
    told = (str(settings.get("algorithm", "")), launch.program, *(e.key for e in launch.entries), launch.title)
    method = next((named[1].lower() for text in told if (named := _METHOD.search(text))), "")
    if method:
        settings["algorithm"] = "rm" if method == "reward" else method
    for name, there in (("dpo_beta", "kl_coef"), ("preference_loss", "loss_type")):
        of_pairs = there == "loss_type" or "beta" in found.keys.get("kl_coef", "")
        if name not in settings and there in settings and of_pairs:
            _move(found, there, name)
            del settings[there]


def _group_baseline(launch: Launch, found: Configuration) -> bool | None:
    """Return whether the baseline is computed from a group of responses; None if unknown."""
    settings = found.settings
    if "teacher" in settings:
        return False
    grouped = needs_group(settings.get("adv_estimator"))
    if "adv_estimator" not in settings and "adv_estimator" not in found.unresolved:
        algorithm = str(settings.get("algorithm", "grpo")).lower()
        unless_said = found.framework.can("grouped_unless_said")
        grouped = True if unless_said and algorithm in ("grpo", "gspo", "dapo") else None
    if "own_group" in settings:
        return None  # the fork may form groups in another way
    critic = any(e.key.startswith("critic.") for e in launch.entries)
    return False if grouped is None and critic else grouped


def _end_of_turn(found: Configuration) -> None:
    """Store the token with which a chat template ends a turn, if the template never writes the tokenizer's EOS
    token."""
    template, eos = found.settings.pop("chat_template", None), found.settings.get("eos_token")
    if not isinstance(template, str) or not isinstance(eos, str) or eos in template or "eos_token" in template:
        return
    ends = set(END_OF_TURN.findall(template))
    if len(ends) == 1:
        found.settings["turn_ends_with"] = ends.pop()
        found.lines["turn_ends_with"] = found.lines.get("chat_template", 1)


def _worked_out_twice(launch: Launch, found: Configuration) -> None:
    """Drop the steps per generation if the trainer computed them. Only one of batch size and steps per generation may
    be set, but live arguments, and documents with logged arguments, contain both."""
    batch, steps = found.number("generation_batch_size"), found.number("steps_per_generation")
    device = found.number("per_device_train_batch_size")
    written = launch.program and launch.line
    if batch and steps and device and not written and batch % (device * steps) == 0:
        del found.settings["steps_per_generation"]


def _apply_rules(found: Configuration) -> None:
    """Apply the rules of the framework file, and drop intermediate settings."""
    for rule in found.framework.when:
        if not _holds(rule, found):
            continue
        found.settings |= rule.set
        for name, there in rule.take.items():
            if there in found.settings:
                _move(found, there, name)
        for there, name in rule.rename.items():
            if there in found.settings:
                _move(found, there, name)
                found.settings.pop(there)
        for name in rule.drop:
            found.settings.pop(name, None)
    for name in [name for name in found.settings if name.startswith("_")]:
        del found.settings[name]


def _holds(rule: When, found: Configuration) -> bool:
    """Return whether the condition of a rule is true. An unresolved value satisfies only ``is_not``."""
    value = found.settings.get(rule.setting)
    if rule.differs is not None:
        return bool(value != rule.differs)
    if rule.key:
        return value is not None and found.keys.get(rule.setting, "").endswith(rule.key)
    return value is not None if rule.equals is None else bool(value == rule.equals)


def _move(found: Configuration, there: str, name: str) -> None:
    """Copy the value, key and line of the setting ``there`` to ``name``."""
    found.settings[name] = found.settings[there]
    for table in (found.keys, found.lines):
        if there in table:
            table[name] = table[there]  # type: ignore[assignment]


def _of_module(launch: Launch, found: Configuration) -> None:
    """Ignore a group size of 1 that is set only in a module next to the script."""
    settings = found.settings
    script = found.framework is HAND_WRITTEN and launch.program.startswith("script")
    if script and settings.get("group_size") == 1 and "group_size" not in found.lines:
        found.unresolved["group_size"] = f"{found.keys['group_size']} = 1 in a module next to it"
        del settings["group_size"]


def _of_fork(launch: Launch, found: Configuration) -> None:
    """Remove settings that are unknown in a fork with its own rollout code. In a fork, a row of the batch may be a
    turn, and the number of turns is unknown."""
    settings, forks = found.settings, found.framework.forks
    own = _fork(launch, forks) if forks.sections else ""
    of_episodes = found.keys.get("group_size") in forks.episodes
    if own or of_episodes:
        settings["own_rollout"] = True
        for name in ("update_prompts", "micro_responses"):
            settings.pop(name, None)
    if own and settings.get("group_size") == 1 and not of_episodes:
        settings["own_group"] = True
        if found.assumed.pop("group_size", None) is not None:
            found.unresolved["group_size"] = f"n = 1 in addition to the fork's own {own}"
            del settings["group_size"]


def _fork(launch: Launch, forks: Forks) -> str:
    """Return the module of another package that a command starts, or top-level sections about rollouts that the
    framework does not have. Other sections, for example for a judge or a logger, do not affect the batch arithmetic."""
    modules = _MODULE.findall(launch.program)  # the last program is the trainer; earlier programs start it
    if modules and not modules[-1].startswith(forks.modules):
        return str(modules[-1])
    said = (entry.key for entry in launch.entries if entry.line and "." in entry.key and _ROLLS_OUT.search(entry.key))
    own = {key.split(".", 1)[0] for key in said if not _OF_SHELL.fullmatch(key)} - set(forks.sections)
    return ", ".join(sorted(own)[:3]) if launch.program else ""


def _adapter(launch: Launch, found: Configuration) -> None:
    settings = found.settings
    tuner = settings.pop("tuner", None)
    if found.framework.can("adapter_unless_said") and tuner is None and "tuner" not in found.unresolved:
        tuner = "lora"
    peft = settings.get("use_peft")
    rank = found.number("lora_r")
    absent = any(e.key == "lora.absent" for e in launch.entries)
    named = any(_ADAPTER.search(e.key) for e in launch.entries if e.value not in (None, False, 0))
    if any(e.key in _FULL and e.value is True and e.line for e in launch.entries):
        settings["use_peft"] = False
    elif isinstance(tuner, str):
        settings["use_peft"] = tuner.lower() in ("lora", "qlora", "adalora", "dora")
    elif isinstance(peft, bool):
        pass
    elif rank is not None:
        settings["use_peft"] = rank > 0
    elif absent or (found.framework.can("full_unless_said") and launch.complete and not launch.notes and not named):
        settings["use_peft"] = False
    if settings.get("use_peft") is False:
        settings.pop("lora_r", None)
        settings.pop("lora_dropout", None)


def _processes(launch: Launch, found: Configuration) -> int | None:
    """Return the configured number of training processes, or one if a script is started directly; None if the number is
    unknown."""
    settings = found.settings
    devices = settings.pop("devices", None)
    stated, nodes = found.number("processes"), found.number("nodes") or 1
    if not launch.program and found.framework.fields and found.keys.get("processes") == "num_processes":
        stated = None  # a configuration document does not start processes
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
    if found.framework.can("one_process_unless_said") or settings.get("one_process_unless_said"):
        several = isinstance(devices, str) and "," in devices
        if several:
            settings.pop("world_size", None)
        return None if several else 1
    return None
