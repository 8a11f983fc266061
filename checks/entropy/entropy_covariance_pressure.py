from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, Trend, baseline, kendall_tau, moving_sum, slope

AHEAD = 50
"""Number of rows covered by the forecast."""


@check("ENT010", severity="info")
def entropy_covariance_pressure(
    logp_advantage_cov: Column,
    entropy_mean: Column,
    reward_trend: Trend = None,
    *,
    rows: int = 20,
    tau: float = 0.4,
) -> Fires:
    """High-probability tokens receive more and more of the advantage, which predicts an entropy collapse.

    ## What it sees
    The check uses the covariance between token log-probability and advantage. The covariance must be positive on 8 of
    the last 10 rows and rise over the last 20 rows (Kendall's tau above 0.4). Entropy must still be above half of its
    first value. The check extrapolates entropy over the next 50 rows from its current slope. Severity is info, or
    warning if the forecast is below a tenth of the first entropy and the reward does not improve. The check fires on 3
    of 5 rows.

    ## Thresholds
    - `rows`: number of rows over which the trend of the covariance and the slope of the entropy are computed.
    - `tau`: Kendall's tau of the covariance above which the covariance counts as rising.

    ## Why it matters
    The change in entropy per update is about -lr x Cov(log p, A). The covariance rises tens of steps before entropy
    falls, so there is still time to act.

    ## Example
    ```text
    logp_advantage_cov: 0.001->0.024x24
    entropy_mean: 1->0.72x24
    ```
    Info at step 20: The covariance of log-probability and advantage is rising (0.024). At the current rate, entropy
    will fall from 0.72 to 0.111 nats within 50 rows.

    ```text
    logp_advantage_cov: 0.01x24
    entropy_mean: 1x24
    ```
    No finding.

    ## Known false alarms
    The covariance is positive for a while in every run that learns, so the severity is usually only info. The forecast
    assumes that entropy falls linearly.

    ## Remedy
    If the reward improves, do not change anything yet. Otherwise, raise the upper clip bound or use an entropy target.

    ## Sources
    arXiv 2505.22617 (entropy change and covariance). The lead time is a heuristic.
    """
    pressing = (moving_sum(logp_advantage_cov > 0, 10) >= 8) & (kendall_tau(logp_advantage_cov, rows) > tau)
    first = baseline(entropy_mean, 1)
    ahead = entropy_mean + AHEAD * slope(entropy_mean, rows)
    early = pressing & (entropy_mean > 0.5 * first)
    return fires(
        early,
        "The covariance of log-probability and advantage is rising ({cov:.3g}). At the current rate, entropy will fall "
        "from {entropy:.3g} to {ahead:.3g} nats within 50 rows.",
        warning=early & (ahead < 0.1 * first) & (~reward_trend.gained | reward_trend.fallen),
        cov=logp_advantage_cov,
        entropy=entropy_mean,
        ahead=ahead,
    )
