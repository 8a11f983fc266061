"""Tests an advantage function: grpo-doctor probe --select ADV adapter.py"""

settings = {"group_size": 8}  # the settings that the trainer declares


def advantages(rewards):
    """Return the rewards (G, K) of G prompts with K responses each, normalised over the responses to each prompt."""
    centred = rewards - rewards.mean(1, keepdim=True)
    return centred / (rewards.std(1, keepdim=True) + 1e-4)
