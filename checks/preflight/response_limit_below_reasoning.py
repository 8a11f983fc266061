import re

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, each, where

_REASONS = re.compile(r"(?i)r1-distill|deepseek-r1|\bqwq|thinking|openthinker|(?:^|/)s1[.\-]")

_HYBRID = re.compile(
    r"(?i)(?:^|/)qwen3-[\d.]{1,5}b(?:-a[\d.]{1,4}b)?(?:-(?:fp8|awq|gptq|unsloth|bnb|int\d|\dbit)[\w\-]*)?$"
)


def reasons(model: object) -> float:
    """Return 1 for names of models that always reason at length."""
    return float(isinstance(model, str) and _REASONS.search(model[-200:]) is not None)


def may_reason(model: object) -> float:
    """Return 1 for names of models whose chat template enables reasoning by default."""
    return float(isinstance(model, str) and _HYBRID.search(model[-200:]) is not None)


@check("CFG026", severity="warning", confidence="medium")
def response_limit_below_reasoning(
    limit: Column = any_of("settings.max_new_tokens", "settings.max_new_tokens_at_most"),
    model: Column = any_of("settings.model", optional=True),
    framework: Column = any_of("settings.framework", optional=True),
    thinking: Column = any_of("settings.enable_thinking", optional=True),
    *,
    least_tokens: int = 1024,
    few_tokens: int = 16,
    fewest_tokens: int = 8,
) -> Fires:
    """The response limit is too short for this model.

    ## What it sees
    The check covers models whose names indicate long reasoning (R1-Distill, QwQ, Thinking-2507, OpenThinker, s1). The
    check fires if the limit is below 1024 tokens or is TRL's default (at most 512). Severity is info for a model that
    reasons by default and whose chat template can turn reasoning off (the first Qwen3 models, except Base and Instruct
    models). Severity is also info for a configuration that sets `enable_thinking=True`. For a configuration with any
    other model, severity is info below 16 tokens and warning at 8 tokens or fewer.

    ## Thresholds
    - `least_tokens`: response limit, in tokens, below which the check fires for a model that reasons.
    - `few_tokens`: response limit, in tokens, below which almost no answer fits.
    - `fewest_tokens`: response limit, in tokens, up to which most answers are truncated before the EOS token.

    ## Why it matters
    The answer comes after the reasoning, so almost every response is truncated before the answer. Truncated responses
    get no reward, so groups have zero variance.

    ## Example
    ```python
    GRPOTrainer(model="deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", args=GRPOConfig(max_completion_length=512))
    ```
    Warning: The response limit (512 tokens) is too short for a model that reasons before it answers.

    ```python
    GRPOTrainer(model="deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", args=GRPOConfig(max_completion_length=8192))
    ```
    No finding.

    ## Known false alarms
    Tasks with one-word answers need few tokens. A model may have been trained further to give brief answers. The
    prompt, not the configuration, may turn reasoning off.

    ## Remedy
    Set the response limit to 4096 tokens or more. Alternatively, use a model without reasoning: a Base or Instruct
    model, or `enable_thinking=False` in the chat template arguments.

    ## Sources
    modelscope/ms-swift#4950 (clipped ratio 1.0); huggingface/trl PR 5759; thinking-machines-lab/tinker-cookbook#180
    (Qwen3-8B at 512 tokens: no answer in its format).
    """
    short = limit < least_tokens
    hybrid = short & (((each(may_reason, model) > 0) & ~(thinking == 0)) | (thinking == 1))
    few = (limit > 0) & (limit < few_tokens) & (framework == framework)
    return fires(
        (short & (each(reasons, model) > 0)) | (few & (limit <= fewest_tokens)),
        "The response limit ({limit:.0f} tokens) {what}.",
        info=hybrid | few,
        limit=limit,
        what=where(
            few,
            "leaves no room for an answer and its EOS token",
            where(
                hybrid & ~(thinking == 1),
                "is too short for a model that reasons before it answers (the default of its chat template)",
                "is too short for a model that reasons before it answers",
            ),
        ),
    )
