"""Guesses the meaning of a custom trainer's keys from names that are common in custom trainers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ..readers.settings import declared
from .launch import PER_PROMPT, Entry, Unresolved

NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Lists of names, by meaning. The TOML file describes each list."""
USUAL = {key: name for name, keys in NAMES["settings"].items() for key in keys}
RL_SECTION = re.compile(r"(?i)(?:grpo|ppo|rloo|gspo|dapo|rlvr|rlhf|rl)(?:_?(?:config|training|trainer|args|params))?")
"""Sections of a document whose settings take precedence over the settings of other training stages."""
_OF_RL = re.compile(r"^(?:grpo|rl|ppo|rloo)_")
_OF_POLICY = re.compile(r"(?i)^(?:actor|policy|lm)_|_(?:actor|policy)$")
_PASSES = re.compile(r"(?:ppo|grpo|policy|inner|update)_(?:num_|n_)?(?:epochs?|iters?|iterations)(?:_per_\w{1,20})?")
"""Keys that contain the number of passes of a custom trainer over one rollout."""
_DRAWN = re.compile(r"(?:\w+\.)*(?:sampling|rollout|generation)\.(?:n|k|num_samples|n_samples)")
"""Keys that contain the number of responses per call of the rollout engine."""
_KL = re.compile(r"(?:\w+\.)*(?:kl|kl_loss|kl_penalty)\.(?:coef|coeff|coefficient|beta|weight)")
"""Keys that contain the coefficient of a KL term in a separate section."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MOST = 32
"""Maximum plausible number of responses per prompt for an ambiguous key."""
_NUMBERS = ("group_size", "learning_rate", "kl_coef", "epsilon", "num_iterations")
"""Settings whose values cannot be words."""
_ROLLOUTS = ("n_rollouts", "num_rollouts")
_PROMPTS = re.compile(
    r"(?:num_|n_)?(?:unique_)?(?:prompt|question|problem|group)s_per_"
    r"(?:step|batch|rollout|rollout_batch|update|iter(?:ation)?)|num_unique_prompts_rollout"
)
"""Keys that count prompts. If one of these keys is present, a number of rollouts is per prompt."""
_SHAPES = ((PER_PROMPT, "group_size"), (_PROMPTS, "rollout_prompts"))
PENALTY = 0.5
"""Value below which a custom trainer's ``repetition_penalty`` counts as a reward penalty, not as a sampling penalty."""
HIGHEST = 1.0
"""Value at or above which a number cannot be the learning rate of a language model."""
NUMERICAL = 1e-3
"""Value below which a custom trainer's ``epsilon`` is not a clip bound, but a constant that avoids a division by 0."""


def underscored(name: str) -> str:
    """Insert an underscore before each capitalised word: ``maxSteps`` becomes ``max_Steps``."""
    return _HUMP.sub("_", name)


def rank(key: str, entry: Entry) -> tuple[bool, ...]:
    """Rank the keys of a setting: keys of the file itself come first, then unambiguous names, then keys of the
    policy."""
    last = key.rsplit(".", 1)[-1]
    told = last == "num_generations" or PER_PROMPT.fullmatch(last) is not None  # unambiguous names
    of_rl = _OF_RL.match(key) is not None or _OF_POLICY.search(last) is not None
    elsewhere = "." in entry.key and not any(map(RL_SECTION.fullmatch, entry.key.split(".")[:-1]))
    guessed = underscored(last).lower() in USUAL
    return entry.line == 0, not told, not of_rl, elsewhere, guessed, key.endswith("num_return_sequences")


def few(value: object) -> bool:
    return isinstance(value, int) and 1 < value <= _MOST


def usual(key: str, index: Mapping[str, Entry]) -> str | None:
    """Return the setting that a custom trainer's key most likely sets; None if no setting is likely."""
    if _KL.fullmatch(key):
        return "kl_coef"
    if "." in key:
        return "group_size" if _DRAWN.fullmatch(key) and few(index[key].value) else None
    whole = underscored(key).lower()
    last = _OF_RL.sub("", whole)
    of_a_critic = last in _ROLLOUTS and not index.keys().isdisjoint(NAMES["of_a_critic"])
    if of_a_critic and not any(map(_PROMPTS.fullmatch, index)):
        return None
    shaped = next((name for shape, name in _SHAPES if shape.fullmatch(last)), None)
    repeated = "num_iterations" if _PASSES.fullmatch(whole) else None
    name = "group_size" if key == "G" else shaped or USUAL.get(whole) or declared(whole) or repeated
    name = name or USUAL.get(last) or declared(last)
    value = index[key].value
    if name in _NUMBERS and isinstance(value, str) and not isinstance(value, Unresolved):
        return None  # for example, the name of a group of runs or of a column
    if name == "learning_rate" and isinstance(value, int | float) and value >= HIGHEST:
        return None
    of_one_call = 2 if last == "num_return_sequences" else 1  # a prompt may be repeated before the call
    # a small penalty is subtracted from the reward, while a sampling penalty is about 1
    least = {"epsilon": NUMERICAL, "group_size": of_one_call, "repetition_penalty": PENALTY}.get(name or "", value)
    return None if isinstance(value, int | float) and value < least else name
