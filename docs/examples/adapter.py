"""Proves an advantage function: grpo-doctor probe --select ADV adapter.py"""

settings = {"group_size": 8}  # what the trainer declares


def advantages(rewards):
    """Rewards (G, K) of G prompts with K responses each, normalised over the responses of a prompt."""
    centred = rewards - rewards.mean(1, keepdim=True)
    return centred / (rewards.std(1, keepdim=True) + 1e-4)
