"""Recognises the framework that wrote a log."""

from __future__ import annotations

import re

from ..run import Run

FRAMEWORKS = {"trl": "TRL", "verl": "verl", "openrlhf": "OpenRLHF", "by-hand": "custom trainer"}
"""Display names of the frameworks in remedies."""
_WRITERS = {
    "trainer-state": "trl",
    "completions": "trl",
    "aflow-console": "by-hand",
    "dual-console": "by-hand",
    "key-value-console": "by-hand",
    "records": "by-hand",
    "adapter": "by-hand",
}
"""Formats that only one framework, or custom trainers, write."""
_OWN_KEYS = {
    "trl": re.compile(
        r"(?:.*/)?(?:completions/(?:mean|min|max)_length|completions/clipped_ratio|train/completion_length"
        r"|rewards/\w+_func|profiling/Time taken: \w+Trainer\.\w+|objective/(?:non_score_reward|scores|rlhf_reward)"
        r"|ppo/mean_non_score_reward)"
    ),
    "verl": re.compile(
        r"(?:.*/)?(?:actor/pg_(?:loss|clipfrac)|critic/(?:rewards|score|advantages|returns)/(?:mean|min|max)"
        r"|response_length/clip_ratio|global_seqlen/mean)"
    ),
    "openrlhf": re.compile(r"(?:.*/)?train/(?:actor_lr|critic_lr|policy_clip_ratio|tis_clip_ratio)"),
    "slime": re.compile(r"(?:.*/)?(?:train/(?:lr-pg_\d|train_rollout_logprob_abs_diff)|rollout/raw_reward)"),
}
"""Metric names that identify a framework in any file: TRL's trainers of GRPO, RLOO and PPO, verl's
``compute_data_metrics``, and the loggers of OpenRLHF and slime."""


def framework(run: Run) -> str | None:
    """Return the framework that wrote a log, as named in remedies, by its keys, else by its format; None if unknown."""
    keys = [*run.mapping, *run.unread]
    if own := next((name for name, own in _OWN_KEYS.items() if any(map(own.fullmatch, keys))), None):
        return own
    said = f"{run.format} {run.settings.get('framework', '')}".lower()
    return next((name for name in FRAMEWORKS if re.search(rf"\b{name}\b", said)), _WRITERS.get(run.format))
