from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, where


@check("KL005", severity="info", confidence="high")
def kl_estimator_mismatch(
    known: Column = any_of("settings.kl_estimator", "settings.kl_penalty"),
    estimator: Column = any_of("settings.kl_estimator", optional=True),
    penalty: Column = any_of("settings.kl_penalty", "settings.kl_estimator", optional=True),
    in_loss: Column = any_of("settings.use_kl_loss", optional=True),
    in_reward: Column = any_of("settings.use_kl_in_reward", optional=True),
    kl_coef: Column = None,
) -> Fires:
    """The KL estimator does not fit its use in the loss or the reward.

    ## What it sees
    The check uses only declared settings. Severity is **warning** for k1 in the loss (`use_kl_loss` with `k1` or verl's
    `kl`), and **info** for k3 in the reward (`low_var_kl`, `k3`). The check is skipped if the coefficient is 0.

    ## Why it matters
    The value of k1 is unbiased, but its gradient as a loss has mean zero. The term adds noise and does not pull the
    policy back. As a loss, k3 has the gradient of a different divergence. In the reward, k3 is biased. Only k1 in the
    reward, or k2 in the loss, has the gradient of the reverse KL.

    ## Example
    ```text
    settings.kl_estimator: k1
    settings.use_kl_loss: true
    ```
    Warning: The KL term in the loss uses the k1 estimator, whose gradient has mean zero: it adds noise but no pull
    towards the reference model.

    ```text
    settings.kl_estimator: k3
    settings.use_kl_loss: true
    ```
    No finding.

    ## Known false alarms
    Models have been trained successfully with every common placement. The choice of estimator matters once the KL term
    must keep the policy close to the reference model.

    ## Remedy
    Use k1 in the reward or k2 in the loss.

    ## Sources
    arXiv 2506.09477 and 2512.21852; verl `kl_penalty_forward`; TRL `use_bias_correction_kl`; arXiv 2402.03300 eq. 4.
    """
    on = ~(kl_coef == 0)
    loss = on & (in_loss == 1) & is_any(estimator, "k1", "kl")
    rewarded = (in_reward == 1) | ((in_loss == 0) & ~(in_reward == in_reward))
    reward = on & rewarded & is_any(penalty, "k3", "low_var_kl")
    return fires(
        loss | reward,
        "{what}",
        warning=loss,
        hold=(1, 1),
        what=where(
            loss,
            "The KL term in the loss uses the k1 estimator, whose gradient has mean zero: it adds noise but no pull "
            "towards the reference model.",
            "The KL term in the reward uses the k3 estimator, which is biased there.",
        ),
    )
