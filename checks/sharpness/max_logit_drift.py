from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, kendall_tau


@check("SHP002", severity="warning")
def max_logit_drift(logit_max: Column, *, above: float = 8.0, rows: int = 10, tau: float = 0.4) -> Fires:
    """The largest logit keeps growing from its starting level.

    ## What it sees
    The check fires if, on 3 of 5 rows, the mean largest logit is more than 8 above the median of the first 5 rows. In
    addition, the mean largest logit must rise over the last 10 rows (Kendall's tau above 0.4). There is no absolute
    limit: a healthy SmolLM2 has values of 25 to 27, and a healthy tiny model has values of 7 to 9.

    ## Thresholds
    - `above`: increase in the mean largest logit over its baseline above which the check fires.
    - `rows`: number of rows over which the trend is computed.
    - `tau`: value of Kendall's tau above which the largest logit counts as rising.

    ## Why it matters
    Growing logits precede saturation, overflow in half precision, and a mismatch between rollout engine and trainer.

    ## Example
    ```text
    logit_max: 20x5 20.5 21..27 28.1x4
    ```
    Warning at step 14: The largest logit grew from 20 to 28.1.

    ```text
    logit_max: 20x17
    ```
    No finding.

    ## Known false alarms
    Logits are defined only up to a constant, so a common shift does no harm. The logits of a model with a final softcap
    cannot drift beyond the cap. Healthy tiny runs drift by about 2.3 in 100 steps.

    ## Remedy
    First check the logit gap and the top-1 probability. Then lower the learning rate, or keep entropy at a target.

    ## Sources
    BoBaCai/grpo-dual (20 to 25 if healthy, and 30 or more if broken, for one model); healthy runs of grpo-doctor's
    training engine.
    """
    first = baseline(logit_max, 5)
    return fires(
        (logit_max > first + above) & (kendall_tau(logit_max, rows) > tau),
        "The largest logit grew from {first:.3g} to {now:.3g}.",
        first=first,
        now=logit_max,
    )
