from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, words

WHOLE = 50_000
"""A top_k of this size keeps every token that counts: some frameworks write "off" so."""


def filters(*values: float) -> str:
    """The filters that are on, with their values."""
    names = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    neutral = ((1.0,), (0.0, -1.0), (0.0,), (1.0,), (0.0,), (0.0,))
    on = [f"{n} {v:g}" for n, v, off in zip(names, values, neutral, strict=True) if v == v and v not in off]
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
    """Rollouts are sampled through filters or penalties that the loss does not know.

    ## What it sees
    top_p below 1, top_k above 0 (and below 50,000), min_p above 0: info. A repetition, presence or frequency penalty
    that is not neutral: warning (info in a script by hand, whose `generate` may serve something else). Silent where
    the recorded mismatch of generator and trainer is below 1e-3.

    ## Thresholds
    - `agree`: k3 of trainer against generator, nats per token, below which filters do no harm.

    ## Why it matters
    The loss takes log-probabilities of the full softmax. Tokens that were drawn under a mask or a penalty come from
    another distribution, so the gradient is biased; a penalty that counts the prompt even makes the same answer cheap
    for one question and dear for the next.

    ## Known false alarms
    Trainers that put the same processors into the loss (vLLM `processed_logprobs`); then the recorded mismatch is
    small and this is silent. A top_p of 0.95 cuts little and trains well in practice.

    ## Remedy
    top_p 1.0, top_k 0 (vLLM -1), min_p 0, penalties neutral; or importance weights.

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
        "Rollouts are sampled with {on}, which the log-probabilities of a plain loss do not contain.",
        hold=(1, 1),
        warning=penalty & unknown & ~is_any(framework, "hand-written trainer"),
        on=words(filters, top_p, top_k, min_p, repetition, presence, frequency),
    )
