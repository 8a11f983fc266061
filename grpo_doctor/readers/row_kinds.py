"""What a row of a log is, a step, an evaluation or a sample, and what kind of training its keys speak of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..record import FIELDS, TEXT_FIELDS
from ..run import RunType
from .aliases import OF_VERL, PREFERENCE_KEYS, STEP_KEYS, WEAK_STEP_KEYS, resolve, words
from .values import as_json, loaded

EVAL = frozenset("eval evaluation val valid validation test testing dev".split())
EVALUATED = frozenset("eval_score eval_loss eval_perplexity".split())
"""Fields that the rows of an evaluation may hold."""
_WRAPPERS = frozenset("data metrics logs log stats scalars values extra fields payload record".split())
_NAMED = "metric metric_name metricname metric.name tag key variable scalar name".split()
"""Columns of a long table that name the metric, the surest first: ``name`` may be the run's."""
VALUES = frozenset("value Value metric_value metricValue metric.value".split())
"""Its columns of the numbers, as MLflow, Aim and Comet call them."""
SINGLE_PROMPT = frozenset("ground_truth prompt question problem gold target".split())
"""Keys that hold one prompt or its answer: the rewards beside them are one group."""
SHARES = frozenset(name for name, meaning in FIELDS.items() if meaning.endswith("0 to 1"))
LIMITS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(SHARES, (-1e-6, math.inf)),
    **dict.fromkeys(("entropy_mean", "entropy_min", "entropy_max"), (-math.inf, 16.0)),
    **dict.fromkeys(("learning_rate", "reward_std", "advantage_std", "grad_norm"), (0.0, math.inf)),
    "response_length_mean": (0.0, 1e8),
}
"""What values of a field are possible: shares may be printed in percent, and ``e**16`` are more tokens than any
vocabulary has."""
_COMMON = frozenset(
    "loss eval_loss grad_norm learning_rate epoch tokens_seen wall_time optimizer_step eval_score success_rate "
    "entropy_mean value_loss eval_perplexity "
    "temperature weight_delta chosen_reward rejected_reward reward_margin chosen_logp rejected_logp".split()
)
"""Fields that supervised or preference training logs too: they do not make a run RL."""
OF_SETTINGS = frozenset("kl_coef entropy_coef groups group_size temperature epoch learning_rate".split())
"""Fields that say how a run is set, and nothing of how it goes: numbers of a text may be read as these."""
_OF_SWEEPS = frozenset("kl_coef entropy_coef group_size temperature".split())
"""Those of which an evaluation tries several, a row each: ``beta=0.1 => win rate: 58%``."""
_OF_SCORES = frozenset("success_rate reward_mean eval_score valid_rate response_length_mean".split())
_STATISTICS = frozenset("mean std min max median total sum count".split())


def flat(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Nested mappings as slash keys; wrappers such as ``data`` leave no trace."""
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
    """A row of a long table, ``{"step": 1, "metric": "reward", "value": 0.5}``, with the metric as its key."""
    low = {str(key).lower(): key for key in row}
    value = next((key for key in row if key in VALUES), None)
    if value is None or not any(key in low for key in (*STEP_KEYS, *WEAK_STEP_KEYS)):
        return row
    name = next((row[low[key]] for key in _NAMED if key in low and isinstance(row[low[key]], str)), None)
    if not name:
        return row
    return {**{key: v for key, v in row.items() if str(key).lower() not in _NAMED and key != value}, name: row[value]}


def unpacked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with the mappings that its texts hold, as ``str(metrics)`` and ``json.dumps(metrics)`` write them."""
    held = {key: v for key, v in row.items() if isinstance(v, str) and v[:1] == "{" and v[-1:] == "}"}
    found = {key: inner for key, v in held.items() if isinstance(inner := _mapping(v), dict) and _tells(key, inner)}
    return {**row, **found} if found else row


def _tells(key: str, inner: Mapping[str, Any]) -> bool:
    """Whether a mapping below a key holds a metric."""
    return any(resolve(name) or resolve(f"{key}/{name}") for name in inner)


def _mapping(text: str) -> Any:
    """The value of a text that is a mapping of JSON or of Python."""
    return inner if isinstance(inner := loaded(text), dict) else loaded(as_json(text))


def is_eval(key: str) -> bool:
    """Whether a key names an evaluation: ``eval_reward``, ``val-core/…``.

    Under ``val/`` there may be batches of training too, and under ``valid/`` the share of valid responses.
    """
    low = key.lower()
    head = low.replace("-", "_").replace("/", "_").split("_", 1)[0]
    if low.startswith(("val/", "valid/")):
        return any(alias.field in EVALUATED for alias in resolve(key))
    return head in EVAL and head != "valid"


def component(key: str) -> str:
    """The name of a reward function in a key such as ``rewards/format/mean`` or ``format_reward``; else empty."""
    key = key.replace(" / ", "/")
    if key.startswith("val/"):  # of a validation, or of no function at all
        return ""
    for prefix in ("rewards/", "reward/", "train/rewards/", "train/reward/"):
        if key.startswith(prefix):
            name = key[len(prefix) :].removesuffix("/mean")
            last = name.rpartition("/")[2]
            summed = "rewards/" not in prefix and set(last.split("_")) & _SUMMARIES
            measured = not {"metric", "metrics"}.isdisjoint(last.split("_"))  # a function of weight 0, for the log
            return "" if last in _STATISTICS or name in _NOT_FUNCTIONS or summed or measured else name
    low = key.removesuffix("/mean").rpartition("/")[2].removesuffix("_mean")
    for name in (low.removesuffix("_reward"), low.removeprefix("reward_")):
        if name != low and name not in _STATISTICS and not set(name.split("_")) & _NOT_REWARDS:
            return name
    return ""


_DECLARING = re.compile(r"(?:^|[/_])(?:spec|config|settings)/")


def declares(key: str) -> bool:
    """Whether a key stands under what was set, such as ``reward_spec``: what a task of a data set promises to pay."""
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


_PAIRS_OF_LLAMA_FACTORY = {"percentage", "remaining_time", "total_steps", "accuracy"}
"""In its ``trainer_log.jsonl``, ``accuracy`` is ``rewards/accuracies`` and stands nowhere else; see ``LogCallback``
in hiyouga/LLaMA-Factory, src/llamafactory/train/callbacks.py."""


def _is_preference(keys: set[str]) -> bool:
    """Whether the keys speak of pairs, the chosen and the rejected: ``rewards_chosen`` and ``rejected_logps``."""
    if PREFERENCE_KEYS & keys or keys >= _PAIRS_OF_LLAMA_FACTORY:
        return True
    paired = [low for key in keys if _OF_A_PAIR.search(low := key.lower())]
    return any("chosen" in low or "accepted" in low for low in paired) and any("reject" in low for low in paired)


_ACTIONS = frozenset("action actions action_str action_type".split())
_ENDS = frozenset("done is_done dones terminated terminal cumulative_reward".split())
_OBSERVED = frozenset("observation observations obs next_observation observation_delta".split())
UPDATED = frozenset("loss policy_loss kl_loss grad_norm learning_rate kl entropy_mean clip_fraction ratio_mean".split())
"""Fields of which a log of training has one at least: they are of an update."""


_OF_GROUPS = frozenset("advantage_mean advantage_std advantage_min advantage_max group_rewards".split())
"""Fields of groups of responses to one prompt, which only training draws and weighs against one another."""


def of_an_environment(keys: Iterable[str]) -> bool:
    """Whether rows tell the steps of an environment, as ``gymnasium`` and OpenEnv return them: action, reward, done."""
    low = {key.lower() for key in keys}
    return sum(bool(low & part) for part in (_ACTIONS, _ENDS, _OBSERVED)) > 1


_OF_ONE = frozenset(
    "seed task task_id episode_id sample_id example_id trajectory_id policy agent prompt question sample_idx prompt_id "
    "question_id problem_id instance_id completion_id rollout_id code_hash prompt_hash".split()
)
"""Keys that tell which task a row is of, or who acted in it."""


def of_samples(keys: Iterable[str]) -> bool:
    """Whether rows are tasks, one by one: what an evaluation writes where nothing counts them, or rollouts."""
    return bool({key.lower() for key in keys} & _OF_ONE)


_FROM_TO = (("start", "end"), ("initial", "final"), ("first", "last"), ("before", "after"))


def of_whole_runs(keys: Iterable[str]) -> bool:
    """Whether rows sum up whole runs, by a metric at the beginning and at the end: ``reward_start, reward_end``."""
    parts = [frozenset(re.split(r"[\W_]+", key.lower())) for key in keys]
    stems = {(part - {word}, word) for part in parts for pair in _FROM_TO for word in pair if word in part}
    return any(
        (stem, end) in stems and bool(resolve(" ".join(sorted(stem))))
        for stem, word in stems
        for start, end in _FROM_TO
        if word == start
    )


_OF_TASKS = frozenset("reward success solve solved pass win resolve resolved".split())
"""Words for what a policy earns or does with a task; a supervised model is right, and has an accuracy."""


OF_RL = frozenset("grpo ppo rloo reinforce dapo gspo rlvr rlhf rl".split())
"""What headlines call the steps of a training that rewards."""


def run_type(fields: Iterable[str], keys: Iterable[str], *, counted: bool = False) -> RunType:
    """What kind of training the fields and keys of a log speak of; ``counted``: whether anything numbers its rows."""
    keys = set(keys)
    if _is_preference(keys):
        return "preference"
    known = set(fields)
    if of_an_environment(keys) and not known & UPDATED:
        return "evaluation"
    if known <= OF_SETTINGS or (not counted and of_whole_runs(keys)):
        return "none"
    if not counted and known & _OF_SWEEPS and known & _OF_SCORES and known <= _OF_SWEEPS | _OF_SCORES:
        return "evaluation"
    if of_samples(keys) and not counted and not known & (UPDATED | _OF_GROUPS):
        return "evaluation"
    if known - _COMMON - set(TEXT_FIELDS):
        return "rl"
    tasks = [found for key in keys if not is_eval(key) and (found := words(key)) & _OF_TASKS]
    trains = known & UPDATED or (counted and any("train" in found for found in tasks))
    if "success_rate" in known and tasks and trains:
        return "rl"
    if "success_rate" in known and keys & OF_RL:
        return "rl"
    if known - {"eval_score", "epoch", "success_rate", "wall_time", "temperature", "optimizer_step"}:
        return "supervised"
    if "eval_score" in known and any(key.startswith(OF_VERL) for key in keys):
        return "rl"  # the scores of a training as it goes on, exported without the rest
    return "evaluation" if known & {"eval_score", "success_rate"} else "none"
