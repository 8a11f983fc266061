from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, row, total


@check("KL010", kind="outcome", severity="warning", confidence="medium", explains=("LEN003", "REW001", "STL001"))
def kl_beyond_text(kl: Column, step: Column, *, beyond: float = 100.0) -> Fires:
    """The KL to the reference model on the newest row is above 100 nats/token, which is impossible for real text.

    ## What it sees
    Severity is **warning** if the KL is above 100 nats per token on the newest row but on no earlier row. The next row
    clears the finding. KL001 covers a KL that stays high, KL008 covers repeated spikes, and KL006 covers the first row
    of a log.

    ## Thresholds
    - `beyond`: KL, nats per token, above which the check fires. At a KL of 100, the reference model assigns each token
      about e^-100 times the probability that the policy assigns.

    ## Why it matters
    Many runs end at a row with an extreme KL. Often only the last row of a log or the summary of a tracker is
    available. One such row is sufficient evidence, because a policy so far from the reference no longer generates text.

    ## Example
    ```log
    {"step": 180, "reward": 0.1, "kl": 412.8}
    ```
    Warning: The KL to the reference model is 413 nats/token, which is impossible for real text.

    ```log
    {"step": 180, "reward": 0.1, "kl": 0.2}
    ```
    No finding.

    ## Known false alarms
    The k3 estimate of the KL, the mean of exp(x) - 1 - x, may have a single spike on the newest row. The logged KL may
    be summed over the response.

    ## Remedy
    Roll back to a checkpoint from before the drift. Check the learning rate, and the gradient norm on earlier rows.

    ## Sources
    huggingface/open-r1#257 (ends at hundreds of nats and a reward of 0).
    """
    begun = (row(kl) > 1) | (baseline(step, 1) > 1)
    return fires(
        begun & (kl > beyond) & (total(kl > beyond) == 1),
        "The KL to the reference model is {kl:.3g} nats/token, which is impossible for real text.",
        hold=(1, 1),
        clear=1,
        kl=kl,
    )
