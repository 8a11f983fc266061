import numpy as np

from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column


@check(
    "GEN004",
    severity="warning",
    confidence="medium",
    explains=("RAT004", "RAT003", "RAT005", "DIV004", "REW009", "STL001", "LEN002", "LEN003"),
    rivals=(
        Rival(
            "a temperature that is applied twice, or on one side only",
            "then the ratio of scores to logits is a constant",
            "the probe GEN006: scores divided by raw logits",
        ),
        Rival(
            "a penalty over the prompt",
            "records cannot tell its scope: a penalty over the response shows the same mismatch",
            "the probe TOK006: one response after two prompts",
        ),
        Rival(
            "a minimum length",
            "forced positions have a log-probability near -15",
            "eos_suppressed_rate (LEN004)",
        ),
        Rival("a clip of the logits", "the top-1 probability is pinned", "SHP004"),
    ),
    remedies=(
        remedy(
            "sample-from-the-policy",
            "Sample from the distribution that the loss knows",
            by_hand="generate(do_sample=True, temperature=T, top_p=1.0, top_k=0, repetition_penalty=1.0, "
            "min_new_tokens=0); "
            "logp = (logits / T).log_softmax(-1)",
            trl="temperature=1.0, top_p=1.0, top_k=0, min_p=None, repetition_penalty=1.0; with vLLM "
            "logprobs_mode='processed_logprobs'",
            verl="actor_rollout_ref.rollout: temperature=1.0 top_p=1.0 top_k=-1",
            openrlhf="--rollout.temperature 1.0 --rollout.top_p 1.0",
            evidence="mismatch of a penalty 0.02-0.03 and of a temperature applied twice 0.33 → below 1e-8",
            source="throw-away engine; trl#4159, trl#4772, trl#6789, trl PR#3029",
        ),
    ),
    invalidates=("importance ratios since step {onset}",),
)
def sampling_filters_not_in_logprob(
    rollout_mismatch_kl: Column,
    rollout_mismatch_raw_kl: Column,
    top_p: Column = None,
    top_k: Column = None,
    temperature: Column = None,
    *,
    differ: float = 1e-3,
    bad: float = 1e-2,
    agree: float = 1e-4,
) -> Fires:
    """Tokens are drawn through filters that the loss does not know.

    ## What it sees
    The generator's raw logits agree with the trainer (k3 below 1e-4) and its final scores do not: above 1e-3 a
    warning, above 1e-2 an error, on 3 of 5 rows. Between raw logits and scores stand only processors and temperature:
    top-p, top-k, min-p, penalties, a minimum length, a clip, T.

    ## Why it matters
    The loss takes log-probabilities of another distribution than the one that drew. A token forced by a mask has a
    log-probability near -15 under the policy, and the gradient follows it.

    ## Known false alarms
    A small penalty did no harm by itself (0.65 and 0.62 against 0.63): hence a note unless the run suffers. top-p of
    0.99 gives about 1e-3.

    ## Remedy
    Neutral sampling parameters, and the same temperature in sampling and loss; or the processed log-probabilities.

    ## Sources
    Throw-away engine (mismatch table); TRL documentation (temperature in the log-probs, processed_logprobs); grpo-dual
    (T 0.75, top-k 50, top-p 0.9, three penalties, loss on raw logits).
    """
    filters = (np.abs(rollout_mismatch_raw_kl) <= agree) & (rollout_mismatch_kl > differ)
    return fires(
        filters,
        "Raw logits agree, final scores differ by {scores:.3g} nats per token: processors or temperature of the "
        "sampler "
        "are not in the loss.",
        error=filters & (rollout_mismatch_kl > bad),
        scores=rollout_mismatch_kl,
        raw=rollout_mismatch_raw_kl,
        top_p=top_p,
        top_k=top_k,
        temperature=temperature,
    )
