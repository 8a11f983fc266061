"""Lists the advantage estimators that use, and those that do not use, the other responses to a prompt as their
baseline."""

from __future__ import annotations

import re

GROUPED = re.compile(
    r"(?<![a-z])(?:dr_?grpo|grpo|t?rloo|gigpo|gdpo|group|gspo|dapo|cispo|gpg|opo\b|max_?rl|reinforce_plus_plus_baseline"
    r"|reinforce_baseline|reinpp_baseline)",
    re.IGNORECASE,
)
UNGROUPED = re.compile(
    r"(?:token_|step_|agentic_|embodied_)?(?:gae|remax|reinforce|reinforce_plus_plus|reinforce\+\+|reinpp|raft|ppo"
    r"|opd|opsd|rae|raw|sac)",
    re.IGNORECASE,
)


def needs_group(estimator: object) -> bool | None:
    """Return whether an advantage estimator uses the other responses to a prompt as its baseline, or None if
    unknown."""
    if not isinstance(estimator, str):
        return None
    word = estimator.rsplit(".", 1)[-1].lower()
    if UNGROUPED.fullmatch(word):
        return False
    return True if GROUPED.search(word) else None
