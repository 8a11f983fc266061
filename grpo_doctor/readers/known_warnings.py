"""Recognises warnings in console logs of any format."""

from __future__ import annotations

import re

WARNINGS = (
    "incompatible with gradient checkpointing",
    "None of the inputs have requires_grad=True",
    "probability tensor contains either",
    "Inconsistent training and inference tokenization",
    "KL divergence is starting to become negative",
    "Gradient checkpointing enabled",
    "gradient checkpointing enabled",
    "梯度检查点已启用",
)
_WARNED = re.compile("|".join(map(re.escape, WARNINGS)))
_SENTENCES = (
    (re.compile(r"KL divergence is starting to become negative: (-?\d[\d.e+-]{0,20})"), "objective/kl"),
    (re.compile(r"The average ratio of batch \((\d[\d.e+-]{0,20})\) exceeds threshold"), "policy/ratio"),
)
"""Warnings of TRL's PPO that contain a metric, with the key of the metric."""
_REFUSED = re.compile(r"WARN: (?:rank 0 )?grad_norm is not finite: (-?(?:inf|nan))\b")
"""verl's warning about a skipped update, printed on every rank."""
LONGEST = 300


def sign(text: str) -> str | None:
    """Return the line as the message of a ``log-warning`` event, or None if it contains no known warning."""
    return text.strip()[:LONGEST] if _WARNED.search(text) else None


def refused(text: str) -> dict[str, str]:
    """Return the gradient norm in verl's warning about a skipped update; an empty dictionary for other lines."""
    found = _REFUSED.search(text)
    return {"actor/grad_norm": found[1]} if found is not None else {}


def metric(text: str) -> dict[str, str]:
    """Return the metric in a warning of TRL's PPO; an empty dictionary for other lines."""
    for sentence, key in _SENTENCES:
        if told := sentence.search(text):
            return {key: told[1]}
    return {}
