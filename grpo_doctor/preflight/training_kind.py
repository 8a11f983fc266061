"""What kind of training a launch starts: by its program, by its sections, else by settings that only one kind has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..run import RunType
from .frameworks import FILES_OF_MODELS, GROUPED, HAND_WRITTEN, needs_group
from .launch import OF_RL, Entry, Launch

if TYPE_CHECKING:
    from .configuration import Configuration

ONLY_RL = frozenset(
    "group_size kl_coef kl_reward_coef adv_estimator epsilon epsilon_high use_kl_loss num_iterations rollout_prompts "
    "rollout_responses importance_sampling_level sync_ref_model".split()
)
"""Settings that no other kind of training has."""
NOTHING_ELSE = (
    *("verl", "NeMo-RL", "AReaL", "SkyRL", "ROLL", "RLinf", "prime-rl", "EasyR1", "torchforge"),
    *("TRL PPO or RLOO", *FILES_OF_MODELS),
)
"""Frameworks whose documents are recognised by keys that other kinds of training do not have."""
_STARTED = re.compile(r"(?:^|[\s/])([\w\-]+)\.py\b|\s-m\s+([\w.]+)")
_TUNES = re.compile(r"(?:(?:main|run|train|fsdp|megatron)_)*sft(?:_(?:trainer|train|main))?")
"""Scripts and modules of supervised training, whatever else they share with the RL of their framework."""
_COMMAND = re.compile(r"\s-m\s+[\w.]+\s+(\w+)$")
"""What a module is told to do: ``python -m package.quickstart ppo``."""
_PLAIN = re.compile(r"(?:train|main|run|launch|start|trainer|cli|runpy)(?:\.py)?")
"""Programs whose name says nothing of what they train; that of the file says it then."""
_EVALUATES = re.compile(
    r"(?:run_)?(?:eval|evaluate|evaluation|infer|inference|benchmark)(?:_[a-z]+)?|main_(?:generate|generation|eval)"
)
"""Programs that only evaluate, whatever configuration of a training they are given."""
_OF_IMAGES = re.compile(r"(?i)stable-?diffusion|\bsd3|sdxl|\bflux[.\-_]?1|\bwan2")
"""Models that draw, whose GRPO is no training of a language model."""
_DRAWS = re.compile(r"(?:\w+_)?(?:vq)?vae(?:_\w+)?|unet|guidance_scale|num_inference_steps|sampling_timesteps")
"""Parts of keys that only such models have."""
_SMALL = re.compile(r"(?i)(?:mlp|cnn|resnet)(?:_\w+)?")
"""Names of policies that are no language models."""
_TRAINS = re.compile(r"(?i)train|tune|main|run|launch|learn|start|swift|axolotl|cli")
"""What may train, in the words of a command."""
_CONFIGURES = re.compile(r"(?i)(?:^|_)(?:exp|experiment|config|cfg|args|train|trainer|main|run)(?:_|$)")
_OF_A_CRITIC = frozenset("critic_lr critic_learning_rate lr_critic value_lr".split())
_MEASURES = re.compile(
    r"(?i)(?:run_)?(?:eval|evaluate|analy[sz]e|analysis|compare|measure|plot|infer|inference|benchmark)(?:_|-|$)"
)
"""Files that are called after looking at a model; what they say of a group is not about its training."""
_OF_TEXT = re.compile(r"model_name|model_path|llm|tokenizer|prompt|token|completion|response|vla")
"""Keys that only the training of a language model has."""
_OF_GAMES = frozenset(
    "n_envs num_envs total_timesteps env_id env_name gym_id n_steps clip_range n_epochs policy_kwargs".split()
)
"""Keys of Stable-Baselines3 and CleanRL, whose PPO trains small networks to play."""
_SUPERVISED = re.compile(r"(?i)(?:^|[^a-z])sft(?:[^a-z]|$)|SFTConfig|^TrainingArguments|fsdp_sft|pretrain\b")
_OF_PAIRS = ("dpo", "kto", "orpo", "simpo", "cpo", "ipo", "rm")
"""Algorithms that learn from pairs, unless a group and a clip bound say that the name is another's."""
_PREFERENCE = re.compile(r"(?i)(?:^|[^a-z])(?:dpo|kto|orpo|simpo|cpo|ipo|rm)(?:[^a-z]|$)|(?:DPO|KTO|ORPO|Reward)Config")
_METHOD = re.compile(r"(?i)(?:fine_?tun\w*|train\w*|algo\w*|rlhf)_?(?:method|type|name|stage)|algorithm|method|stage")
"""Keys under which a document names its way of training, whatever section they stand in."""
_METHODS: dict[str, RunType] = {
    **dict.fromkeys(_OF_PAIRS, "preference"),
    **dict.fromkeys(("sft", "gkd", "gold", "distill", "distillation"), "supervised"),
}
"""Ways of training that are no reinforcement learning; distillation may sample, and then has a group of one."""


def kind_of(launch: Launch, found: Configuration) -> RunType:
    """The kind of training, as far as the launch and what was read of it tell."""
    algorithm = str(found.settings.get("algorithm", "")).lower()
    if algorithm in _OF_PAIRS and not {"group_size", "epsilon"} <= found.settings.keys():
        return "preference"
    if algorithm in ("sft", "sft_loss", "pt", "supervised", "gkd") or (
        found.framework.name in ("axolotl", "LLaMA-Factory") and not algorithm
    ):
        return "supervised"
    started = [(word[1] or word[2]).rsplit(".", 1)[-1] for word in _STARTED.finditer(launch.program)]
    if started and _TUNES.fullmatch(started[-1]):
        return "supervised"
    if not launch.program and (method := _named_otherwise(launch, found)) is not None:
        return method
    if _measures_what_another_trains(launch):
        return "evaluation"
    trained = found.framework.trained
    if trained and not launch.program and not _has_section(launch, trained):
        return "none"
    if any(map(_EVALUATES.fullmatch, started)) or any(map(_only_evaluates, launch.entries)):
        return "evaluation"
    if _OF_IMAGES.search(str(found.settings.get("model", ""))) or _of_another_model(launch, found):
        return "none"
    if found.framework is not HAND_WRITTEN and found.framework.program and launch.program:
        return "rl" if re.search(found.framework.program, launch.program) else _by_settings(launch, found)
    return _by_settings(launch, found)


def _named_otherwise(launch: Launch, found: Configuration) -> RunType | None:
    """The kind of the way of training that a document names, where it names none of reinforcement learning."""
    if "algorithm" in found.settings or (found.number("group_size") or 0) > 1:
        return None
    named = [str(e.value).lower() for e in launch.entries if _METHOD.fullmatch(e.key.rsplit(".", 1)[-1])]
    if any(map(OF_RL.search, named)):
        return None
    return next((_METHODS[word] for word in named if word in _METHODS), None)


def _measures_what_another_trains(launch: Launch) -> bool:
    """Whether a file is called after looking at a model, and what it configures stands in a module that it imports."""
    configures = launch.program and not launch.program.startswith("script")
    return bool(configures) and not launch.line and _MEASURES.match(launch.title) is not None


def _only_evaluates(entry: Entry) -> bool:
    """Whether a training program is told to evaluate and not to train."""
    return (entry.key.endswith("val_only") and entry.value is True) or entry.value == "eval_only"


def _of_another_model(launch: Launch, found: Configuration) -> bool:
    """Whether what is trained draws, or plays, by the keys that only such models have."""
    draws = any(_DRAWS.fullmatch(part) for e in launch.entries for part in e.key.split("."))
    small = any(e.key.endswith("model_name") and _SMALL.fullmatch(str(e.value)) for e in launch.entries)
    return small or launch.program.endswith(" gym") or (draws and "max_new_tokens" not in found.settings)


def _by_settings(launch: Launch, found: Configuration) -> RunType:
    said = ONLY_RL.intersection(found.settings)
    if "group_size" not in said and (other := _called_after(launch)) is not None:
        return other
    if launch.program.startswith("script"):
        said = said.intersection(found.lines)  # what only the modules say that it imports is not its own
    of_beta = said == {"kl_coef"} and found.keys["kl_coef"].rsplit(".", 1)[-1] == "beta"
    if of_beta and not launch.program and _PREFERENCE.search(launch.title) and not OF_RL.search(launch.title):
        return "preference"
    if of_beta and not GROUPED.search(launch.program) and "temperature" not in found.settings:
        said = frozenset()  # preference training has a beta too
    if said == {"rollout_prompts"} and found.keys.get("rollout_prompts") == "batch_size":
        said = frozenset()  # which any training has
    training = {"learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps"} & set(found.settings)
    evaluates = not launch.program and not training and _has_section(launch, "eval", "evals", "num_examples")
    if said == {"group_size"} and evaluates:
        return "evaluation"  # of which each example is answered so often
    if said == {"group_size"} and not training and _draws_answers(launch, found):
        return "none"
    alone = launch.program.startswith("script") and found.settings.get("group_size", 1) == 1
    if said <= {"group_size"} and not OF_RL.search(launch.title) and (alone or not launch.program):
        if _SUPERVISED.search(launch.title):
            return "supervised"
        if _PREFERENCE.search(launch.title):
            return "preference"
    lasts = {e.key.rsplit(".", 1)[-1].lower() for e in launch.entries}
    if len(_OF_GAMES & lasts) > 1 and "group_size" not in said and not any(map(_OF_TEXT.search, lasts)):
        return "none"
    if _MEASURES.match(launch.title) and not training.intersection(found.lines):
        return "none"
    said_so = any(needs_group(found.settings.get(name)) is not None for name in ("algorithm", "loss_type"))
    if said_so and len(found.settings) >= 2:
        return "rl"
    if said and len(found.settings) >= 2 and not (_SUPERVISED.search(launch.program) and "group_size" not in said):
        return "rl"
    if found.framework.name in NOTHING_ELSE and found.settings and not _other_sections(launch):
        return "rl"
    if _PREFERENCE.search(launch.program):
        return "preference"
    of_rl = "trlx" in launch.program or (said and OF_RL.search(launch.title) and _CONFIGURES.search(launch.title))
    if of_rl and launch.program.startswith("script") and (training or found.lines.get("group_size")):
        return "rl"
    if training and (_named_after_rl(launch) or (_OF_A_CRITIC & lasts and any(map(_OF_TEXT.search, lasts)))):
        return "rl"
    return "supervised" if _SUPERVISED.search(launch.program) or len(training) >= 2 else "none"


def _called_after(launch: Launch) -> RunType | None:
    """The other kind of training that what is started is called after."""
    if _PREFERENCE.search(launch.program) and not OF_RL.search(launch.program):
        return "preference"
    names = [word[1] or word[2] for word in _STARTED.finditer(launch.program)]
    supervised = any(map(_SUPERVISED.search, names)) and not any(map(OF_RL.search, names))
    return "supervised" if supervised else None


def _draws_answers(launch: Launch, found: Configuration) -> bool:
    """Whether a group may be how many answers a program draws, or a table counts."""
    if found.keys.get("group_size", "").rsplit(".", 1)[-1].lower() == "k":
        return True
    command = launch.program and not launch.program.startswith("script")
    return bool(command and not OF_RL.search(launch.program) and not _TRAINS.search(launch.program))


def _named_after_rl(launch: Launch) -> bool:
    """Whether what a command starts, or the file itself, is called after reinforcement learning and no other kind of
    training, and has settings of a language model."""
    if launch.program.startswith("script"):
        return False
    told = [str(entry.value) for entry in launch.entries if entry.key == "program"]  # of a sweep of W&B
    names = [*told, *((word[1] or word[2]).rsplit(".", 1)[-1] for word in _STARTED.finditer(launch.program))]
    names += _COMMAND.findall(launch.program)
    if all(map(_PLAIN.fullmatch, names)):
        names.append(launch.title)
    others = any(_SUPERVISED.search(name) or _PREFERENCE.search(name) for name in names)
    of_rl = any(OF_RL.search(name) for name in names) and not others
    return of_rl and any(_OF_TEXT.search(entry.key) for entry in launch.entries)


def _other_sections(launch: Launch) -> bool:
    """Whether a document has the section of another kind of training."""
    return _has_section(launch, "sft", "dpo", "rm", "distillation")


def _has_section(launch: Launch, *names: str) -> bool:
    return any(e.key.split(".", 1)[0] in names for e in launch.entries)
