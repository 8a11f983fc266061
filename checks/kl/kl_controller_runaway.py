from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, kendall_tau, previous


@check("KL007", severity="warning", confidence="medium", explains=("KL002",))
def kl_controller_runaway(
    kl_coef: Column, kl: Column, *, rows: int = 20, throughout_tau: float = 0.9, rising: float = 0.4
) -> Fires:
    """The adaptive KL controller keeps raising its coefficient, but the KL keeps rising too.

    ## What it sees
    Over 20 rows, the coefficient must rise almost throughout (Kendall's tau above 0.9) and grow by more than a tenth.
    The check fires on 3 of 5 rows if the KL also rises over the same 20 rows (tau above 0.4).

    ## Thresholds
    - `rows`: number of rows over which the trends of the coefficient and the KL are computed.
    - `throughout_tau`: Kendall's tau of the coefficient above which the coefficient counts as rising throughout.
    - `rising`: Kendall's tau of the KL above which the KL counts as rising.

    ## Why it matters
    The controller no longer controls the KL: beta does not affect the cause of the rise, or the cause grows faster than
    beta. When the KL finally falls, beta is so large that it dominates the objective (KL002).

    ## Example
    ```text
    kl: 0.01->0.22x22
    kl_coef: 0.01->0.22x22
    ```
    Warning at step 20: The KL coefficient has risen to 0.22 over 20 rows, but the KL has also risen, to 0.22.

    ```text
    kl: 0.3->0.09x22
    kl_coef: 0.01->0.22x22
    ```
    No finding.

    ## Known false alarms
    On the first rows of a run, the KL may still be below the controller's target.

    ## Remedy
    Use a fixed or bounded KL coefficient, or lower the learning rate.

    ## Sources
    arXiv 1909.08593 (adaptive KL controller); BoBaCai/grpo-dual; yunsoft2019/Lever-Plus.
    """
    grows = (kendall_tau(kl_coef, rows) > throughout_tau) & (kl_coef > 1.1 * previous(kl_coef, rows - 1))
    return fires(
        grows & (kendall_tau(kl, rows) > rising),
        "The KL coefficient has risen to {beta:.3g} over {rows} rows, but the KL has also risen, to {kl:.3g}.",
        beta=kl_coef,
        kl=kl,
        rows=rows,
    )
