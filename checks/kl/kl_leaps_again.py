from typing import Any

from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, best, leaps, total, where, words


@check("KL008", severity="warning", confidence="medium", explains=("REW009", "REW015"))
def kl_leaps_again(
    kl: Column,
    grad_norm: Column = None,
    reward_gained: Column = None,
    eval_gained: Column = None,
    *,
    absurd: float = 10.0,
    times: float = 10.0,
    rows: int = 20,
    again: int = 3,
    within: int = 100,
) -> Fires:
    """The KL repeatedly spikes to extreme values and recovers.

    ## What it sees
    A spike is a KL above 10 nats per token and above ten times the median of the previous 20 rows. The check fires at
    the third spike within 100 rows. Severity is **warning** even if the reward has improved, because a few tokens
    determine the gradient of each spike. KL001 covers a KL that stays high.

    ## Thresholds
    - `absurd`: KL, nats per token, that a spike must exceed. At a KL of 10, the probabilities of a token under policy
      and reference model differ by a factor of 22,000.
    - `times`: ratio of the KL to the median of the previous rows above which the KL is a spike.
    - `rows`: number of previous rows over which the median is computed.
    - `again`: number of spikes at which the check fires; one spike can occur by chance.
    - `within`: number of rows over which spikes are counted.

    ## Why it matters
    If the loss has a KL term, the gradient of a spike is unbounded. Clipping limits the length of the gradient but not
    its direction. A few tokens determine an update with such a spike. Most affected runs continue with a lower final
    score. Some do not recover.

    ## Example
    ```text
    kl: 0.05x20 60 0.05x16 60 0.05x16 60 0.05x16
    ```
    Warning at step 21: The KL to the reference model has spiked 3 times so far, up to 60 nats/token.

    ```text
    kl: 0.05x20 0.5 0.05x16 0.5 0.05x16 0.5 0.05x16
    ```
    No finding.

    ## Known false alarms
    If the KL is only logged, with a coefficient of 0, its spikes have no effect. They only show that some texts are far
    from the reference model. Seven of 565 public runs have repeated KL spikes, and none of these runs is clearly
    healthy.

    ## Remedy
    Clamp the log-ratio before exp, or use the k2 or k1 estimator. Look for trained tokens that the policy did not
    sample. Skip updates whose gradient norm is far above normal.

    ## Sources
    OpenRLHF/OpenRLHF#931 (random spikes, and better results with fewer spikes); EvolvingLMMs-Lab/open-r1-multimodal#16;
    jiosephlee/efficient-icl, Qwen2.5-7B-Instruct v0: 8,500 at step 129, 14 million at 197, while the reward rises;
    huggingface/trl#3015.
    """
    leap = leaps(kl, rows, times, absurd)
    pushed = best(where(leap, grad_norm, float("nan")))
    return fires(
        leap,
        "The KL to the reference model has spiked {leaps:.0f} times so far, up to {highest:.3g} nats/token{pushed}.",
        hold=(again, within),
        clear=within,
        suffered=~(reward_gained | eval_gained),
        leaps=total(leap),
        highest=best(kl),
        pushed=words(_pushed, pushed),
    )


def _pushed(norm: Any) -> str:
    return f", with a gradient norm of up to {number(norm)}" if norm == norm else ""
