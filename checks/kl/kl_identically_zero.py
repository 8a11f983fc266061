from grpo_doctor import Fires, check, fires
from grpo_doctor.stats import Column, row, total


@check("KL003", severity="warning")
def kl_identically_zero(kl: Column, kl_coef: Column = None, *, zero: float = 1e-8, least: int = 5) -> Fires:
    """The logged KL is zero throughout, so it measures nothing.

    ## What it sees
    Five or more recorded values of the KL after the first, every one below 1e-8 in size, in a run that does not
    declare a KL coefficient of 0. An error where it declares one above 0.

    ## Why it matters
    A policy that has been updated differs from its reference. A KL of exactly zero is computed against the policy
    itself, is printed after multiplication with a small coefficient, or is not computed: it can neither protect the
    policy nor show drift.

    ## Known false alarms
    The first steps; LoRA before its first update (B is zero); runs whose updates are all skipped; TRL with beta=0
    logs no KL at all.

    ## Remedy
    Compute the KL token by token against a frozen copy of the initial policy (`disable_adapter` with LoRA), and log
    it before the coefficient. Probe KL006 proves it.

    ## Sources
    Document 002's log: 0.005 times a squared difference of mean log-probabilities, printed as 0.0000 in 19 of 19
    blocks; catalogue of checks, KL003.
    """
    seen, nonzero = row(kl), total(abs(kl) >= zero)
    found = (seen > least) & (nonzero == 0) & ~(kl_coef == 0)
    return fires(
        found,
        "The logged KL was 0 in all {seen} of its values: it measures nothing and protects nothing.",
        hold=(1, 1),
        error=found & (kl_coef > 0),
        seen=seen,
    )
