"""Lines of any console log that prove something about the run, whatever its format."""

from __future__ import annotations

_WARNINGS = (
    "incompatible with gradient checkpointing",
    "None of the inputs have requires_grad=True",
    "probability tensor contains either",
    "Inconsistent training and inference tokenization",
    "Gradient checkpointing enabled",
    "gradient checkpointing enabled",
    "梯度检查点已启用",
)
LONGEST = 300


def sign(text: str) -> str | None:
    """The line as the message of a ``log-warning`` event, None where it proves nothing."""
    if any(warning in text for warning in _WARNINGS):
        return text.strip()[:LONGEST]
    return None
