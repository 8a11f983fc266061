"""Computes the batch sizes of a run: per rollout, per update and per epoch."""

from __future__ import annotations

import math

from ..advisories.releases import before
from ..run import Table
from .configuration import Configuration

ACCUMULATED = "0.17"
"""First TRL version in which the accumulated batches form one generation batch. In earlier versions, each batch was
one."""
RESPONSES = "0.15"
"""First TRL version whose batch size counts responses. In earlier versions, the batch size counted prompts."""


def work_out(found: Configuration) -> None:
    """Add the derived settings: prompts, responses and updates per rollout, and prompts per update."""
    if found.framework.can("batch_is_per_device") and not _counts_prompts(found):
        _by_devices(found)
    _in_parallel(found)
    _rollout(found)
    _updates(found)
    _tokens(found)
    for name, origins in ORIGINS.items():
        line = next((found.lines[o] for o in origins if o in found.lines), None)
        if name in found.settings and line is not None:
            found.lines.setdefault(name, line)


def _rollout(found: Configuration) -> None:
    """Derive the number of prompts from the number of responses, or the number of responses from the number of prompts,
    using the group size."""
    settings = found.settings
    if found.number("rollout_prompts") == 0:  # unused by an asynchronous trainer
        del settings["rollout_prompts"]
    k, prompts, responses = (found.number(name) for name in ("group_size", "rollout_prompts", "rollout_responses"))
    if found.framework.can("batch_is_of_whole_groups") and responses is not None:
        settings["generation_batch"] = responses
    if prompts is None and responses is not None and k:
        settings["rollout_prompts"] = responses / k
    if responses is None and prompts is not None and k:
        settings["rollout_responses"] = prompts * k


def _updates(found: Configuration) -> None:
    """Derive the number of updates per rollout and of prompts per update from the size of an update in prompts or
    responses."""
    settings, updates = found.settings, found.number("minibatches")
    for unit in ("prompts", "responses"):
        whole, each = found.number(f"rollout_{unit}"), found.number(f"update_{unit}")
        if updates is None and whole and each:
            updates = whole / each
    if updates is None:
        return
    settings["minibatches"] = updates
    settings["updates_per_rollout"] = max(updates, 1) * (found.number("num_iterations") or 1)
    if (prompts := found.number("rollout_prompts")) is not None:
        settings.setdefault("prompts_per_update", prompts / max(updates, 1))


def _tokens(found: Configuration) -> None:
    """Derive the response limit from the total and prompt limits, and the total that the prompt and response limits
    need."""
    limit, prompt, total = (found.number(name) for name in ("max_new_tokens", "max_prompt_tokens", "total_tokens"))
    if limit is None and total is not None and prompt is not None and total > prompt:
        limit = found.settings["max_new_tokens"] = total - prompt
    if limit is not None and prompt is not None:
        found.settings["total_tokens_needed"] = limit + prompt


def _counts_prompts(found: Configuration) -> bool:
    """Return whether the group size comes from a key that the framework does not have. The batch size may then count
    prompts."""
    key, fields = found.keys.get("group_size", ""), found.framework.fields
    return bool(key and fields) and key.rsplit(".", 1)[-1] not in fields


def _in_parallel(found: Configuration) -> None:
    """Derive the number of GPUs per copy of the model, and the number of GPUs that the rollout engines use."""
    sizes = [found.number(f"megatron_{kind}") for kind in ("tensor", "pipeline", "context")]
    if any(sizes) and not any(f"megatron_{kind}" in found.unresolved for kind in ("tensor", "pipeline", "context")):
        found.settings["model_parallel"] = math.prod(size or 1 for size in sizes)
    engines, each = found.number("engines"), found.number("tensor_parallel")
    if engines and "tensor_parallel" not in found.unresolved:
        found.settings["engine_gpus"] = engines * (each or 1)


ORIGINS = {
    "model_parallel": ("megatron_tensor", "megatron_pipeline", "megatron_context"),
    "engine_gpus": ("engines", "tensor_parallel"),
    "prompts_per_update_and_gpu": ("per_device_train_batch_size", "group_size"),
    "generation_batch": ("per_device_train_batch_size", "generation_batch_size", "rollout_responses", "group_size"),
    "batch_a_process": ("per_device_train_batch_size", "group_size"),
    "eval_batch": ("per_device_eval_batch_size", "group_size"),
    "rollout_prompts": ("per_device_train_batch_size", "group_size"),
    "rollout_responses": ("per_device_train_batch_size", "rollout_prompts"),
    "minibatches": ("update_prompts", "update_responses", "gradient_accumulation_steps"),
    "updates_per_rollout": ("num_iterations", "update_prompts", "update_responses", "rollout_prompts"),
    "prompts_per_update": ("update_prompts", "update_responses", "rollout_prompts", "per_device_train_batch_size"),
    "total_tokens_needed": ("max_new_tokens", "max_prompt_tokens", "total_tokens"),
    "max_new_tokens": ("total_tokens",),
    "group_baseline": ("group_size",),
}
"""For each derived setting, the settings from which it is computed. Reports show the line of the first of these that is
set."""


def origin_key(found: Configuration, name: str) -> str:
    """Return the key of a setting, or the first key from which the setting is computed."""
    return next((found.keys[o] for o in (name, *ORIGINS.get(name, ())) if o in found.keys), name)


def _by_devices(found: Configuration) -> None:
    """Compute the batch for TRL: a generation batch has (per device x processes x steps per generation) responses."""
    settings, world = found.settings, found.number("world_size")
    accumulated = found.number("gradient_accumulation_steps")
    if accumulated is None:
        if "gradient_accumulation_steps" in found.unresolved or not found.stated("per_device_train_batch_size"):
            return
        accumulated = 1.0
    version = str(settings.get("trl_version", ""))
    early = before(version, ACCUMULATED)
    per_generation = 1.0 if early else found.number("steps_per_generation") or accumulated
    if "steps_per_generation" in found.unresolved or "generation_batch_size" in found.unresolved:
        return
    if (each := found.number("per_device_eval_batch_size")) is not None and world:
        settings["eval_batch"] = each * world
    k, rounded = found.number("group_size"), found.framework.can("batch_rounded_to_groups")
    device = _responses_per_device(found, version, (world or math.nan) * accumulated)
    together = device * world if device and world else None
    batch = None if early else found.number("generation_batch_size")  # a fork's key in early versions
    if device is not None and (together or batch is None):
        settings["minibatches"] = (batch / together if batch and together else per_generation) / accumulated
    if together:
        batch = batch or together * per_generation
    elif device and not rounded:
        if batch is None:
            settings["batch_a_process"] = device * per_generation
        if k:
            settings["prompts_per_update_and_gpu"] = device * accumulated / k
    if batch is None or not k or (rounded and batch % k):
        return  # the trainer rounds the batch up to a multiple of the group size
    settings["rollout_responses"] = settings["generation_batch"] = batch
    settings["rollout_prompts"] = batch / k
    if together:
        settings["prompts_per_update"] = together * accumulated / k  # may span several rollouts


def _responses_per_device(found: Configuration, version: str, passes: float) -> float | None:
    """Return the number of responses per device and forward pass. ``passes`` is the number of forward passes per
    update, summed over all devices.

    Early versions of TRL count prompts. If the batch cannot be divided into groups, Unsloth replaces it with one group.
    """
    device, k = found.number("per_device_train_batch_size"), found.number("group_size")
    if device is None or k is None:
        return device
    if before(version, RESPONSES):
        return device * k
    apart = found.framework.can("batch_rounded_to_groups") and not found.stated("steps_per_generation")
    return k if apart and device * passes % k > 0 else device


DECISIVE = {
    "model": "model",
    "algorithm": "algorithm",
    "adv_estimator": "advantage estimator",
    "group_size": "responses per prompt",
    "learning_rate": "learning rate",
    "use_peft": "adapter",
    "kl_coef": "KL coefficient",
    "dpo_beta": "beta",
    "temperature": "temperature",
    "max_new_tokens": "response limit",
    "rollout_prompts": "prompts per rollout",
    "per_device_train_batch_size": "batch per device",
    "num_iterations": "passes per rollout",
    "world_size": "GPUs",
}
"""The most important settings, in the order in which they are shown."""


def decisive(found: Configuration) -> Table:
    """Return a table of the most important settings, with the place at which each setting was read."""
    rows = [
        [words, _plain(found.settings[name]) if name in found.settings else "?", _origin(found, name)]
        for name, words in DECISIVE.items()
        if name in found.settings or name in found.unresolved
    ]
    return Table(title="Settings read", head=["setting", "value", "where"], rows=rows)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)[:60]


def table(found: Configuration) -> Table:
    """Return a table of the known parts of the batch arithmetic."""
    number = found.number
    k, prompts, steps = number("group_size"), number("rollout_prompts"), number("max_steps")
    responses, updates = number("rollout_responses"), number("updates_per_rollout")
    tokens, most, per_update = number("total_tokens_needed"), number("max_new_tokens"), number("prompts_per_update")
    positive = steps if steps and steps > 0 else None
    rows = [
        ["responses per prompt", _printed(k), ""],
        ["prompts per rollout", _printed(prompts), _whole(prompts)],
        ["responses per rollout", _printed(responses), ""],
        ["updates per rollout", _printed(updates), _off_policy(updates, number("async_level"))],
        ["prompts per update", _printed(per_update), _whole(per_update)],
        ["tokens per rollout, at most", _printed(responses * (tokens or most) if responses and most else None),
         "prompt and response limit x responses" if tokens else "response limit x responses"],
        ["steps in total", _printed(positive), ""],
        ["prompts in total", _printed(positive * prompts if positive and prompts else None), ""],
        ["steps per epoch", f"dataset size / {prompts:g}" if prompts else "?", ""],
    ]  # fmt: skip
    return Table(title="Batch arithmetic", head=["what", "value", "note"], rows=[r for r in rows if r[1] != "?"])


def to_declare(found: Configuration) -> list[str]:
    """Return the settings that are missing for the batch arithmetic, in the form that ``--set`` accepts."""
    settings = found.settings
    per_device = found.framework.can("batch_is_per_device")
    wanted = [
        ("group_size", "group_size" not in settings),
        ("world_size", per_device and "world_size" not in settings and "generation_batch" not in settings),
        ("rollout_prompts", not per_device and "rollout_prompts" not in settings),
        ("learning_rate", "learning_rate" not in settings),
        ("max_new_tokens", "max_new_tokens" not in settings),
        ("use_peft", "use_peft" not in settings),
    ]
    return [f"{name}=…" for name, is_unknown in wanted if is_unknown]


def _printed(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value % 1 == 0 else f"{value:,.2f}"


def _whole(prompts: float | None) -> str:
    """Return a note if a number of prompts is not a whole number, or an empty string."""
    return "not a whole number: the batch is not divisible by the responses per prompt" if (prompts or 0) % 1 else ""


def _origin(found: Configuration, name: str) -> str:
    """Return the origin of a setting: its key and line, the framework's default, or the values of a sweep."""
    if name in found.assumed:
        return f"default of {found.framework.label}"
    if name in found.swept:
        return found.swept[name]
    if name not in found.settings:
        return f"not resolved: {found.unresolved[name][:80]}"
    key, line = found.keys.get(name, ""), found.lines.get(name)
    if not key:
        return "computed"
    return f"{key}, line {line}" if line else key


def _off_policy(updates: float | None, level: float | None) -> str:
    """Return a note on what makes updates off-policy: several updates per rollout, or an asynchronous rollout
    engine."""
    words = []
    if updates is not None and updates > 1:
        words.append("the first is on-policy, the others are off-policy")
    if level:
        words.append(f"asynchronous: up to {level:g} versions stale")
    return "; ".join(words)
