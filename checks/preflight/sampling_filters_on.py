from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, is_any, words

WHOLE = 50_000
"""A top_k of this size has no effect; some frameworks use it to mean "off"."""


def filters(*values: float) -> str:
    """List the active filters with their values."""
    names = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    neutral = ((1.0,), (0.0, -1.0), (0.0,), (1.0,), (0.0,), (0.0,))
    on = [f"{n} {number(v, 6)}" for n, v, off in zip(names, values, neutral, strict=True) if v == v and v not in off]
    on = [word for word in on if not (word.startswith("top_k") and values[1] >= WHOLE)]
    return ", ".join(on)


@check("CFG005", severity="info")
def sampling_filters_on(
    known: Column = any_of(
        "top_p",
        "top_k",
        "settings.min_p",
        "settings.repetition_penalty",
        "settings.presence_penalty",
        "settings.frequency_penalty",
    ),
    top_p: Column = None,
    top_k: Column = None,
    min_p: Column = any_of("settings.min_p", optional=True),
    repetition: Column = any_of("settings.repetition_penalty", optional=True),
    presence: Column = any_of("settings.presence_penalty", optional=True),
    frequency: Column = any_of("settings.frequency_penalty", optional=True),
    rollout_mismatch_kl: Column = None,
    framework: Column = any_of("settings.framework", optional=True),
    *,
    agree: float = 1e-3,
) -> Fires:
    """Rollouts use sampling filters or penalties that the loss does not apply.

    ## What it sees
    Severity is **info** for top_p below 1, top_k above 0 and below 50,000, or min_p above 0. Severity is **warning**
    for a repetition, presence or frequency penalty that is not neutral. In a custom training script, whose `generate`
    call may have another purpose, severity is **info**. The check does not fire if the recorded KL between engine and
    trainer is below 0.001.

    ## Thresholds
    - `agree`: KL between trainer and engine, in nats per token, below which the check does not fire. The KL is
      estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability difference.

    ## Why it matters
    The loss uses log-probabilities of the full softmax. Tokens that are sampled with a filter or a penalty come from a
    different distribution, so the gradient is biased. If a penalty also counts prompt tokens, the probability of the
    same answer depends on the prompt.

    ## Example
    ```python
    GRPOConfig(num_generations=8, repetition_penalty=1.3)
    ```
    Warning: Rollouts are sampled with repetition_penalty 1.3, which a standard loss does not apply to its
    log-probabilities.

    ```python
    GRPOConfig(num_generations=8, repetition_penalty=1.0)
    ```
    No finding.

    ## Known false alarms
    Some trainers apply the same processors in the loss (vLLM `processed_logprobs`). If the recorded mismatch is small,
    the check does not fire. A top_p of 0.95 removes few tokens and trains well in practice.

    ## Remedy
    Set top_p to 1.0, top_k to 0 (-1 in vLLM), min_p to 0, and every penalty to its neutral value. Alternatively, use
    importance weights.

    ## Sources
    TRL `logprobs_mode`; huggingface/trl#6789; grpo-dual (T 0.75, top_k 50, top_p 0.9, penalties 1.3, 0.7 and 0.3 with
    a loss on raw logits).
    """
    cut = (top_p < 1) | ((top_k > 0) & (top_k < WHOLE)) | (min_p > 0)
    penalty = (repetition != 1) & (repetition == repetition) | (presence != 0) & (presence == presence)
    penalty = penalty | (frequency != 0) & (frequency == frequency)
    unknown = ~(rollout_mismatch_kl < agree)
    return fires(
        (cut | penalty) & unknown,
        "Rollouts are sampled with {on}, which a standard loss does not apply to its log-probabilities.",
        hold=(1, 1),
        warning=penalty & unknown & ~is_any(framework, "hand-written trainer"),
        on=words(filters, top_p, top_k, min_p, repetition, presence, frequency),
    )
