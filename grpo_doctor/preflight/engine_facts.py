"""Recognises mixture-of-experts models, quantised weights, enabled features, ratio levels and optimizers by name."""

from __future__ import annotations

import re

from ..series import Column, each, is_any, isnan

_MIXTURE = (
    r"(?i)\d+b-a\d|mixtral|moe\b|olmoe|moonlight|kimi-k2|gpt-oss|glm-4\.[567](?!v?-9b)|llama-4-(?:scout|maverick)"
    r"|deepseek-v[23](?!.*lite-chat-dense)|deepseek-r1(?!-distill)(?:-zero)?(?![\w-]*(?:qwen|llama))"
)
"""Names of mixture-of-experts models."""
_QUANTISED = r"(?i)(?<![a-z])(?:(?:nv|mx)?fp[48]|e[45]m[23]|int[48]|w[48]a\d+|awq|gptq|nf4)(?![a-z])"
"""Words that denote weights of eight bits or fewer."""
_OFF = ("", "none", "null", "no", "false", "off", "0", "disabled", "r0")


def is_mixture(model: object) -> float:
    """Return 1 if a model's name denotes a mixture-of-experts model, and 0 otherwise."""
    return float(isinstance(model, str) and re.search(_MIXTURE, model[-200:]) is not None)


def is_quantised(word: object) -> float:
    """Return 1 if the name of a precision or of a model denotes weights of eight bits or fewer, and 0 otherwise."""
    return float(isinstance(word, str) and re.search(_QUANTISED, word[-200:].replace("_", "-")) is not None)


def is_on(value: object) -> float:
    """Return 1 if a switch, word or number enables a feature, and 0 if it does not or is missing."""
    if isinstance(value, str):
        return float(value.strip().lower() not in _OFF)
    return float(isinstance(value, bool | int | float) and value == value and value != 0)


def sequence_level(level: Column, loss: Column, estimator: Column) -> Column:
    """Return whether the loss clips one ratio per response, as in GSPO, rather than one ratio per token."""
    of_loss = is_any(loss, "gspo", "gspo_token", "gspo-token")
    return is_any(level, "sequence", "sequence_token") | of_loss | is_any(estimator, "gspo", "GSPO")


def uncorrected(correction: Column, by_trainer: Column) -> Column:
    """Return whether importance-sampling correction is off: the settings do not enable it, and the trainer does not
    apply it by default."""
    return ~(each(is_on, correction) > 0) & ~((by_trainer == 1) & isnan(correction))


_OTHER_STEPS = r"(?i)sgd|muon|prodigy|d-?adapt|lion|shampoo|\bsoap|\bsam\b"


def steps_otherwise(optimizer: object) -> float:
    """Return 1 if the optimizer is known by name to take steps that differ from Adam's, and 0 otherwise."""
    return float(isinstance(optimizer, str) and re.search(_OTHER_STEPS, optimizer[:200]) is not None)
