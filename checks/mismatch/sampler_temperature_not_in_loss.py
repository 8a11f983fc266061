from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS006",
    kind="defect",
    severity="error",
    confidence="high",
    explains=EXPLAINS,
    invalidates=("importance ratios since step {onset}",),
)
def sampler_temperature_not_in_loss(
    mismatch_causes: Column,
    *,
    least: float = 0.15,
) -> Fires:
    """The loss uses a different temperature from the sampler.

    ## What it sees
    In a token batch, the difference is a linear function of the log-probability, for either side and in each of four
    groups of responses. This is the case if one distribution has two temperatures. The ratio of the temperatures
    follows from the slope.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.

    ## Why it matters
    The ratio differs from 1 for every token before any update, most of all for unlikely tokens. The clip then removes
    the gradient of tokens whose probability has not changed.

    ## Example
    ```text
    mismatch_causes: {"temperature": [0.99, 1.25]}
    rollout_mismatch_kl: 0.01
    ```
    Error at step 1: The temperature of the sampler is 1.25 times that of the loss: this explains 99% of the
    log-probability difference.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    None known.

    ## Remedy
    Divide the logits of the loss by the sampler's temperature, or record the engine's log-probabilities after the
    temperature (vLLM `logprobs_mode='processed_logprobs'`).

    ## Sources
    huggingface/trl#4159; batch `temperature` of benchmarks/mismatch.md.
    """
    share = each(share_of("temperature"), mismatch_causes)
    return fires(
        share > least,
        "The temperature of the sampler is {ratio:.3g} times that of the loss: this explains {share:.0%} of the "
        "log-probability difference.",
        hold=(1, 1),
        share=share,
        ratio=each(effect_of("temperature"), mismatch_causes),
    )
