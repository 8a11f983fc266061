"""Classifies the rows of a log (step, evaluation or sample) and the kind of training by the keys of the rows."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..record import FIELDS, TEXT_FIELDS
from ..run import RunType
from .aliases import OF_TRAINING, STEP_KEYS, UNIT_TESTS, WEAK_STEP_KEYS, Alias, resolve, words
from .values import as_json, loaded

EVAL = frozenset("eval evaluation val valid validation test testing dev".split())
EVALUATED = frozenset("eval_score eval_loss eval_perplexity".split())
"""Fields that evaluation rows may have."""
_WRAPPERS = frozenset("data metrics logs log stats scalars values extra fields payload record".split())
_NAMED = "metric metric_name metricname metric.name tag key variable scalar name".split()
"""Columns of a long table that contain the name of the metric, the most reliable first. ``name`` may be the name of the
run."""
VALUES = frozenset("value Value metric_value metricValue metric.value".split())
"""Columns of a long table that contain the value, as named by MLflow, Aim and Comet."""
SINGLE_PROMPT = frozenset("ground_truth prompt question problem gold target".split())
"""Keys that contain one prompt or its answer, so that the rewards in the row belong to one group."""
SHARES = frozenset(name for name, meaning in FIELDS.items() if meaning.endswith("0 to 1"))
LIMITS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(SHARES, (-1e-6, math.inf)),
    **dict.fromkeys(("entropy_mean", "entropy_min", "entropy_max"), (-math.inf, 16.0)),
    **dict.fromkeys(("learning_rate", "reward_std", "advantage_std", "grad_norm"), (0.0, math.inf)),
    "response_length_mean": (0.0, 1e8),
    "update_applied": (0.0, 1.0),
}
"""Range of the possible values of each field. Shares may be in percent, and ``e**16`` exceeds any vocabulary size.
``update_applied`` must be 0 or 1, because a count of skipped updates does not show whether this update was skipped."""
_OF_PAIRS = frozenset("chosen_reward rejected_reward reward_margin chosen_logp rejected_logp".split())
_COMMON = _OF_PAIRS | frozenset(
    "loss eval_loss grad_norm learning_rate epoch tokens_seen wall_time optimizer_step eval_score success_rate "
    "entropy_mean value_loss eval_perplexity "
    "temperature weight_delta".split()
)
"""Fields of pairs, and fields that supervised training also logs. Neither kind of field is evidence for an RL run."""
_WEIGHTS = {
    **dict.fromkeys(("reward_mean", "reward_margin"), 6.0),
    **dict.fromkeys(("kl", "kl_sequence"), 4.0),
    **dict.fromkeys(("success_rate", "chosen_reward"), 3.0),
    **dict.fromkeys(("loss", "policy_loss"), 2.5),
    **dict.fromkeys(("entropy_mean", "advantage_mean", "advantage_std", "reward_std", "clip_fraction"), 2.0),
    **dict.fromkeys(("grad_norm", "learning_rate", "response_length_mean", "value_loss", "ratio_mean"), 1.0),
}
"""Weight of each field as evidence of training."""
SAYS_ENOUGH = 2.0
"""Minimum evidence in the names of lines at which lines without a counter count as training rows."""
OF_SETTINGS = frozenset("kl_coef entropy_coef groups group_size temperature epoch learning_rate".split())
"""Fields that describe settings, not progress. A number in a text may be mistaken for such a field."""
OF_SWEEPS = frozenset("kl_coef entropy_coef group_size temperature".split())
"""Settings that an evaluation may vary, with one row per value, as in ``beta=0.1 => win rate: 58%``."""
_OF_SCORES = frozenset("success_rate reward_mean eval_score valid_rate response_length_mean".split())
_STATISTICS = frozenset("mean std min max median total sum count".split())


def possible(values: array[float] | np.ndarray, alias: Alias) -> bool:
    """Return whether values are possible for a field. For example, rewards of +1 and -1 may be called ``correct``, and
    a sum of entropies may be called ``entropy``."""
    figures = np.asarray(values, float)
    known = alias.offset + alias.scale * figures[np.isfinite(figures)]
    low, high = LIMITS.get(alias.field, (-math.inf, math.inf))
    if (alias.scale < 0 and alias.field in SHARES) or not len(known):  # the complement of a share in percent
        return True
    return bool(known.min() >= low and np.median(known) <= high)


def flat(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Flatten nested mappings to keys with slashes. Wrappers such as ``data`` are removed from the keys."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        name = (prefix if key == "value" else f"{prefix}/{key}") if prefix else str(key)
        if isinstance(value, Mapping):
            if depth < 8:
                out.update(flat(value, prefix if key in _WRAPPERS else name, depth + 1))
        else:
            out[name] = value
    return out


def melted(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a row of a long table, such as ``{"step": 1, "metric": "reward", "value": 0.5}``, to a row with the
    metric as a key."""
    low = {str(key).lower(): key for key in row}
    value = next((key for key in row if key in VALUES), None)
    if value is None or not any(key in low for key in (*STEP_KEYS, *WEAK_STEP_KEYS)):
        return row
    name = next((row[low[key]] for key in _NAMED if key in low and isinstance(row[low[key]], str)), None)
    if not name:
        return row
    return {**{key: v for key, v in row.items() if str(key).lower() not in _NAMED and key != value}, name: row[value]}


def unpacked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parse mappings that a row contains as text, as written by ``str(metrics)`` or ``json.dumps(metrics)``."""
    held = {key: v for key, v in row.items() if isinstance(v, str) and v[:1] == "{" and v[-1:] == "}"}
    found = {key: inner for key, v in held.items() if isinstance(inner := _mapping(v), dict) and _tells(key, inner)}
    return {**row, **found} if found else row


def _tells(key: str, inner: Mapping[str, Any]) -> bool:
    """Return whether a mapping below a key contains a metric."""
    return any(resolve(name) or resolve(f"{key}/{name}") for name in inner)


def _mapping(text: str) -> Any:
    """Parse a text that is a JSON or Python mapping."""
    return inner if isinstance(inner := loaded(text), dict) else loaded(as_json(text))


def is_eval(key: str) -> bool:
    """Return whether a key belongs to an evaluation, such as ``eval_reward`` or ``val-core/…``. Keys below ``val/`` may
    describe training batches, and ``valid/`` may mean the share of valid responses.
    """
    low = key.lower()
    if UNIT_TESTS.fullmatch(low):
        return False
    head = low.replace("-", "_").replace("/", "_").split("_", 1)[0]
    if low.startswith(("val/", "valid/")):
        return any(alias.field in EVALUATED for alias in resolve(key))
    return head in EVAL and head != "valid"


def component(key: str) -> str:
    """Return the name of the reward function in a key such as ``rewards/format/mean`` or ``format_reward``; empty for
    other keys."""
    key = key.replace(" / ", "/")
    if key.startswith("val/"):  # validation metrics, or not a reward function
        return ""
    if key.startswith("rewards_") and key.endswith("_mean"):  # a slash is often replaced in the header of a table
        key = f"rewards/{key.removeprefix('rewards_').removesuffix('_mean')}"
    for prefix in ("rewards/", "reward/", "train/rewards/", "train/reward/"):
        if key.startswith(prefix):
            name = key[len(prefix) :].removesuffix("/mean")
            last = name.rpartition("/")[2]
            summed = "rewards/" not in prefix and set(last.split("_")) & _SUMMARIES
            return "" if last in _STATISTICS or name in _NOT_FUNCTIONS or summed else name
    low = _AVERAGE.sub("", key.removesuffix("/mean").rpartition("/")[2])
    for name in (low.removesuffix("_reward"), low.removeprefix("reward_")):
        if name != low and name not in _STATISTICS and not set(name.split("_")) & _NOT_REWARDS:
            return name
    return ""


_AVERAGE = re.compile(r"^(?:mean|avg|average)_|_(?:mean|avg|average)$")
_DECLARING = re.compile(r"(?:^|[/_])(?:spec|config|settings)/")


def declares(key: str) -> bool:
    """Return whether a key is part of a declaration, such as ``reward_spec``, which contains the reward that a dataset
    defines for a task."""
    return "/" in key and _DECLARING.search(key.lower()) is not None


_NOT_FUNCTIONS = frozenset("chosen rejected margins accuracies total_reward total overall".split())
_SUMMARIES = _STATISTICS | {"avg", "pass"}
_NOT_REWARDS = frozenset(
    "mean std min max median time seconds weight scale model lr total best running baseline ema eval val test "
    "norm count workers timeout threshold train avg sum delta gap loss chosen accepted rejected reject margin "
    "timing s ms sec secs duration latency elapsed var variance range quantile percentile frac fraction rate share "
    "ratio pct percent zero nonzero ma moving rolling smoothed cumulative diff change improvement".split()
)
_OF_A_PAIR = re.compile(r"reward|log_?p|logit|score|loss")


_OF_PAIRS_ONLY = re.compile(
    r"(?:^|[^a-z])(?:margins?(?:[^a-z]|$)|(?:(?:logits|logps|rewards)/(?:chosen|rejected)|nll_loss/chosen"
    r"|rewards/accuracies|(?:rewards?|pairwise|pref|preference)_acc(?:urac(?:y|ies))?"
    r"|(?:dpo|orpo|simpo|kto|cpo|pref|preference)_loss)$)"
)
"""Matches keys that only preference training and reward models log, such as ``val_margin`` and ``dpo_loss``. GRPO logs
``rewards/accuracy`` and ``accuracy_reward``."""
_PAIRS_OF_LLAMA_FACTORY = {"percentage", "remaining_time", "total_steps", "accuracy"}
"""LLaMA-Factory's ``trainer_log.jsonl`` logs ``rewards/accuracies`` only as ``accuracy``; see ``LogCallback`` in
hiyouga/LLaMA-Factory, src/llamafactory/train/callbacks.py."""


def is_preference(keys: set[str]) -> bool:
    """Return whether the keys describe pairs of chosen and rejected responses, such as ``rewards_chosen`` and
    ``rejected_logps``."""
    names = {key.lower().replace(" ", "_") for key in keys}
    if any(map(_OF_PAIRS_ONLY.search, names)) or keys >= _PAIRS_OF_LLAMA_FACTORY:
        return True
    paired = [name for name in names if _OF_A_PAIR.search(name)]
    return any("chosen" in low or "accepted" in low for low in paired) and any("reject" in low for low in paired)


_ACTIONS = frozenset("action actions action_str action_type".split())
_ENDS = frozenset("done is_done dones terminated terminal cumulative_reward".split())
_OBSERVED = frozenset("observation observations obs next_observation observation_delta".split())
UPDATED = frozenset("loss policy_loss kl_loss grad_norm learning_rate kl entropy_mean clip_fraction ratio_mean".split())
"""Fields of an update. A training log has at least one of them."""


def says(names: Iterable[str]) -> float:
    """Return how strongly the names indicate a training log."""
    return sum(_WEIGHTS.get(field, 0.0) for field in {alias.field for name in names for alias in resolve(name)[:1]})


_OF_GROUPS = frozenset("advantage_mean advantage_std advantage_min advantage_max group_rewards".split())
"""Fields that compare the responses in a group (to one prompt). Only training makes this comparison."""


def of_an_environment(keys: Iterable[str]) -> bool:
    """Return whether rows are the steps of an environment, with an action, a reward and an end flag, as in
    ``gymnasium`` and OpenEnv."""
    low = {key.lower().split("/", 1)[0] for key in keys}
    return sum(bool(low & part) for part in (_ACTIONS, _ENDS, _OBSERVED)) > 1


_OF_ONE = frozenset(
    "seed task task_id episode_id sample_id example_id trajectory_id policy agent prompt question sample_idx prompt_id "
    "question_id problem_id instance_id completion_id rollout_id code_hash prompt_hash".split()
)
"""Keys that identify the task or the actor of a row."""


def of_samples(keys: Iterable[str]) -> bool:
    """Return whether rows are about individual tasks, as in an evaluation without a counter, or in rollouts."""
    return bool({key.lower() for key in keys} & _OF_ONE)


_OF_TASKS = frozenset("reward success solve solved pass win resolve resolved".split())
"""Words for the success of a policy in a task, unlike the accuracy of a supervised model."""


OF_RL = frozenset("grpo ppo rloo reinforce dapo gspo rlvr rlhf rl".split())
"""Words for RL training in headings."""


def run_type(fields: Iterable[str], keys: Iterable[str], *, counted: bool = False) -> RunType:
    """Return the kind of training that the fields and keys of a log indicate. ``counted`` is whether the rows are
    numbered."""
    keys = set(keys)
    if is_preference(keys):
        return "preference"
    known = set(fields)
    if of_an_environment(keys) and not known & UPDATED:
        return "evaluation"
    if known <= OF_SETTINGS:
        return "none"
    swept = known & OF_SWEEPS and known & _OF_SCORES and known <= OF_SWEEPS | _OF_SCORES
    if not counted and (swept or (of_samples(keys) and not known & (UPDATED | _OF_GROUPS))):
        return "evaluation"
    if known - _COMMON - set(TEXT_FIELDS):
        return "rl"
    if known & _OF_PAIRS:
        return "preference"
    named = [words(key) for key in keys if not is_eval(key)]
    tasks = [found for found in named if found & _OF_TASKS]
    trains = known & UPDATED or (counted and any("train" in found for found in tasks))
    if "success_rate" in known and tasks and trains and "eval_loss" not in known:
        return "rl"
    if "success_rate" in known and keys & OF_RL:
        return "rl"
    if known - {"eval_score", "epoch", "success_rate", "wall_time", "temperature", "optimizer_step"}:
        return "supervised"
    if "eval_score" in known and any(key.startswith(OF_TRAINING) for key in keys):
        return "rl"  # scores from training, exported without the other metrics
    if counted and "success_rate" in known and any({"train", "accuracy"} <= found for found in named):
        return "supervised"
    return "evaluation" if known & {"eval_score", "success_rate"} else "none"
