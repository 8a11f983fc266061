from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, total, where


@check("CFG003", severity="info")
def kl_coefficient_out_of_range(
    beta: Column = any_of("kl_coef", "settings.beta"),
    framework: Column = any_of("settings.framework", optional=True),
    value_loss: Column = None,
    kl_sequence: Column = None,
    *,
    info_above: float = 0.05,
    warning_above: float = 0.1,
    in_reward_above: float = 0.2,
) -> Fires:
    """The KL coefficient is negative, or larger than in any published recipe.

    ## What it sees
    Severity is **warning** for a beta below 0 or above 0.1, and **info** above 0.05. The limits of 0.05 and 0.1 apply
    to a token-mean KL in the loss. If the log records a critic loss or a KL summed over the response, the check assumes
    a PPO penalty in the reward. For a PPO penalty in the reward, severity is **info** if the coefficient is above 0.2.

    ## Thresholds
    - `info_above`: coefficient of a KL in the loss above which the severity is info.
    - `warning_above`: coefficient of a KL in the loss above which the severity is warning.
    - `in_reward_above`: coefficient of a KL in the reward above which the severity is info.

    ## Why it matters
    The coefficient (beta) sets how strongly each update pulls the policy back to the reference model. R1 used 0.001,
    DeepSeekMath used 0.04, and TRL's default is 0. At a beta of 10, the built-in engine stops learning (`grpo-doctor
    lab --fault kl-dominates`).

    ## Example
    ```python
    GRPOConfig(num_generations=8, beta=5.0)
    ```
    Warning: The KL coefficient is 5, but published recipes use 0.001 to 0.04.

    ```python
    GRPOConfig(num_generations=8, beta=0.04)
    ```
    No finding.

    ## Known false alarms
    A KL in the reward (PPO) has a different scale. In PPO, coefficients of 0.05 to 0.2 are usual, and TRL's default was
    0.2. A PPO run that records neither a critic loss nor a summed KL cannot be recognised as PPO. KL002 uses the
    gradient to judge whether the KL term really dominates. In a custom training script, `beta` may mean something else,
    so severity is **info**.

    ## Remedy
    Set beta to a value from 0.001 to 0.04. If the KL term still contributes more than 30% of the gradient norm, divide
    beta by three and repeat.

    ## Sources
    arXiv 2402.03300; TRL documentation of `beta`; `grpo-doctor run --set beta=1` and `beta=10`.
    """
    of_ppo = (total(value_loss == value_loss) + total(kl_sequence == kl_sequence)) > 0
    return fires(
        (beta > where(of_ppo, in_reward_above, info_above)) | (beta < 0),
        "The KL coefficient is {beta:.3g}, {why}.",
        hold=(1, 1),
        warning=(((beta > warning_above) & ~of_ppo) | (beta < 0)) & ~is_any(framework, "hand-written trainer"),
        why=where(
            beta < 0,
            "which rewards distance from the reference model",
            "but published recipes use 0.001 to 0.04",
        ),
        beta=beta,
    )
