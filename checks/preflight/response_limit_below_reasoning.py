import re

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, each, where

_REASONS = re.compile(r"(?i)r1-distill|deepseek-r1|\bqwq|thinking|openthinker|(?:^|/)s1[.\-]")

_HYBRID = re.compile(
    r"(?i)(?:^|/)qwen3-[\d.]{1,5}b(?:-a[\d.]{1,4}b)?(?:-(?:fp8|awq|gptq|unsloth|bnb|int\d|\dbit)[\w\-]*)?$"
)


def reasons(model: object) -> float:
    """Whether a model's name says that it reasons at length."""
    return float(isinstance(model, str) and _REASONS.search(model[-200:]) is not None)


def may_reason(model: object) -> float:
    """Whether a model's name is that of one whose template lets it think unless it is told not to."""
    return float(isinstance(model, str) and _HYBRID.search(model[-200:]) is not None)


@check("CFG026", severity="warning", confidence="medium")
def response_limit_below_reasoning(
    limit: Column = any_of("settings.max_new_tokens", "settings.max_new_tokens_at_most"),
    model: Column = any_of("settings.model", optional=True),
    framework: Column = any_of("settings.framework", optional=True),
    *,
    least_tokens: int = 1024,
    few_tokens: int = 16,
    fewest_tokens: int = 8,
) -> Fires:
    """The response limit is too short for what the model writes.

    ## What it sees
    A limit below 1024 tokens, or the default of TRL (at most 512), with a model whose name says that it was trained to
    think at length (R1-Distill, QwQ, Thinking-2507, OpenThinker, s1). **info** with one that thinks unless its template
    is told otherwise (the first Qwen3, neither Base nor Instruct). In a configuration, with any model, fewer than 16
    tokens: info, 8 or fewer: warning.

    ## Thresholds
    - `least_tokens`: tokens of the response limit below which reasoning is cut.
    - `few_tokens`: tokens below which hardly any answer fits.
    - `fewest_tokens`: tokens up to which most answers are cut before the EOS token.

    ## Why it matters
    The answer comes after the reasoning; nearly every response is cut before it, earns nothing, and the groups tie.

    ## Known false alarms
    Tasks with one word to answer. Models that were since taught to be brief; tasks whose prompt closes the thinking
    part (`enable_thinking=False`).

    ## Remedy
    4096 tokens or more, or a model that does not think aloud: a Base or Instruct one, or `enable_thinking=False` in the
    arguments of the chat template.

    ## Sources
    modelscope/ms-swift#4950 (clipped ratio 1.0); huggingface/trl PR 5759; thinking-machines-lab/tinker-cookbook#180
    (Qwen3-8B at 512 tokens: no answer in its format).
    """
    short = limit < least_tokens
    hybrid = short & (each(may_reason, model) > 0)
    few = (limit > 0) & (limit < few_tokens) & (framework == framework)
    return fires(
        (short & (each(reasons, model) > 0)) | (few & (limit <= fewest_tokens)),
        "A limit of {limit:.0f} tokens {what}.",
        hold=(1, 1),
        info=hybrid | few,
        limit=limit,
        what=where(
            few,
            "leaves no room for an answer and its EOS token",
            where(
                hybrid,
                "cuts a model that reasons before it answers, as this one does unless its chat template is told not to",
                "cuts a model that reasons before it answers",
            ),
        ),
    )
