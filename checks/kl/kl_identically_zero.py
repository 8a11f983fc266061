from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, best, each, isnan, lowest, row, total, where, words


@check("KL003", kind="defect", severity="warning", vital=True)
def kl_identically_zero(
    kl: Column,
    kl_coef: Column = None,
    grad_norm: Column = None,
    reward_gained: Column = None,
    loss: Column = None,
    *,
    zero: float = 1e-8,
    least_rows: int = 5,
    proving_rows: int = 15,
) -> Fires:
    """The logged KL is constant (0 or another value), so it provides no information.

    ## What it sees
    The check needs five or more recorded KL values, not counting the first. The check fires if every |KL| is below
    1e-8. The check also fires if all values are the same number with more than three decimals and more than one
    significant digit. Runs that declare a KL coefficient of 0 are skipped. Severity is error if the run declares a
    coefficient above 0 and fifteen values are 0. Over fifteen rows, a small KL that is printed as 0 would have become
    visible. Severity is info if the reward has improved. Severity is also info if the KL is 0 without a declared
    coefficient, because trainers without a KL term log 0. Severity stays warning if the loss is also 0 on more than
    fifteen rows. The check ignores rows with a gradient norm of exactly 0, because the policy does not move on these
    rows.

    ## Thresholds
    - `zero`: |KL|, nats per token, below which the KL counts as 0.
    - `least_rows`: minimum number of recorded KL values after the first; all of them must be equal.
    - `proving_rows`: minimum number of recorded KL values after the first for an error; all of them must be 0.

    ## Why it matters
    A policy that has been updated differs from the reference model. If the KL is exactly 0, it compares the policy with
    itself, is multiplied by a small coefficient before printing, or is not computed. A KL of exactly 0 can neither
    constrain the policy nor show drift. If different samples have exactly the same KL, no update reaches the policy, or
    the KL is not computed from the samples.

    ## Example
    ```text
    settings.kl_coef: 0.02
    kl: 0x6
    ```
    Warning at step 6: All 6 logged KL values are 0, so the KL provides no information.

    ```text
    settings.kl_coef: 0.02
    kl: 0 0.001 0.002 0.004 0.005 0.007
    ```
    No finding.

    ## Known false alarms
    On the first steps, the KL is close to 0. With LoRA, the KL is 0 before the first update, because the lora_B
    matrices are zero. If all updates of a run are skipped, the KL stays 0. TRL with `beta=0` logs no KL at all.

    ## Remedy
    Compute the KL token by token against a frozen copy of the initial policy (with LoRA, use `disable_adapter`). Log it
    without the coefficient. Verify the result with the probe KL006.

    ## Sources
    beita6969/colab-grpo's log: 0.005 times a squared difference of mean log-probabilities, logged as 0.0000 in 19 of
    19 blocks.
    """
    seen, nothing = row(kl), total(abs(kl) >= zero) == 0
    alike = nothing | ((lowest(kl) == best(kl)) & (each(_coarse, kl) == 0))
    moved = total(~(grad_norm == 0))
    found = (moved > least_rows) & alike & ~(kl_coef == 0)
    idle = (total(loss == loss) > proving_rows) & (best(abs(loss)) < zero)  # nothing else changes either
    return fires(
        found & ~reward_gained & ~(nothing & isnan(kl_coef) & ~idle),
        "All {seen} logged KL values are {value}{so}.",
        hold=(1, 1),
        info=found,
        error=found & nothing & (kl_coef > 0) & (moved > proving_rows),
        value=words(_value, where(nothing, 0.0, kl)),
        so=where(
            nothing & idle,
            ", and the loss is also 0: no update moves the policy, or the KL is not computed",
            ", so the KL provides no information",
        ),
        seen=seen,
    )


def _coarse(kl: float) -> float:
    """Return whether the KL has at most three decimals or one significant digit, so that rounding may hide a change."""
    return kl in (round(float(kl), 3), float(f"{kl:.0e}"))


def _value(kl: float) -> str:
    return f"exactly {number(kl, 6)}" if kl else "0"
