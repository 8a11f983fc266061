from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_doctor import Fires, across, check, fires
from grpo_doctor.series import Column, fold

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

WAIT = 20
"""Number of rows within which a raise of the coefficient must take effect."""


@check(
    "ENT005",
    kind="defect",
    severity="warning",
    confidence="medium",
    explains=("ENT004",),
    withholds={"entropy-bonus": "raising the coefficient did not increase entropy; check the term's sign first"},
)
def entropy_dose_response_inverted(entropy_mean: Column, entropy_coef: Column, *, raises: int = 2) -> Fires:
    """The entropy coefficient was raised repeatedly, but entropy did not increase.

    ## What it sees
    A raise is a coefficient that is at least 1.5 times the coefficient at the last raise (or on the first row). A raise
    has no effect if entropy stays below 105% of its value at the raise on each of the next 20 rows. Severity is warning
    after two raises without an effect. A raise with an effect resets the count. `grpo-doctor compare` compares runs
    that differ only in the coefficient.

    ## Thresholds
    - `raises`: minimum number of consecutive raises of the coefficient without an increase in entropy.

    ## Why it matters
    Raising the coefficient is the cheapest test of the sign of the entropy term: with the correct sign, entropy must
    eventually rise. In BoBaCai/grpo-dual, repeated raises had no effect because the sign was flipped.

    ## Example
    ```text
    entropy_coef: 0.2x5 0.5x25 2.5x21
    entropy_mean: 0.3x51
    ```
    Warning at step 51: The entropy coefficient was raised 2 times, to 2.5, but entropy (0.3 nats) never increased.

    ```text
    entropy_coef: 0.2x5 0.5x25 2.5x21
    entropy_mean: 0.3x40 0.4x11
    ```
    No finding.

    ## Known false alarms
    An adaptive coefficient rises in small steps, so the check counts one raise per factor of 1.5. Other settings
    (temperature, clip bounds) may change together with the coefficient and hide its effect.

    ## Remedy
    Verify the sign of the entropy term before the next raise. Remove the bonus until the sign is verified.

    ## Sources
    BoBaCai/grpo-dual: coefficient 0.2 → 0.5 → 2.5 → 6.0 with entropy 0.21-0.47, sign flipped throughout.
    """
    unanswered = fold(_watch, lambda: [None, 0.0, 0, 0.0], entropy_mean, entropy_coef)
    return fires(
        unanswered >= raises,
        "The entropy coefficient was raised {raises} times, to {coef:.3g}, but entropy ({entropy:.3g} nats) never "
        "increased.",
        hold=(1, 1),
        raises=unanswered,
        coef=entropy_coef,
        entropy=entropy_mean,
    )


def _watch(state: list[Any], entropy: float, coef: float) -> tuple[list[Any], float]:
    """Return the new state and the number of raises without effect. The state contains the coefficient of the last
    raise, the entropy at that raise, the rows since (0: no raise pending), and the raises without effect."""
    dose, at, since, unanswered = state
    if dose is None or dose == 0:
        return [coef, at, since, unanswered], unanswered
    if coef >= 1.5 * dose:
        unanswered += since > 0
        return [coef, entropy, 1, unanswered], unanswered
    if since:
        if entropy > 1.05 * at:
            since, unanswered = 0, 0.0
        elif since == WAIT:
            since, unanswered = 0, unanswered + 1
        else:
            since += 1
    return [dose, at, since, unanswered], unanswered


@across("ENT005")
def dose_and_response(found: Comparison, *, factor: float = 1.5) -> Fires | None:
    """## Across runs
    The comparison covers two runs that differ only in the entropy coefficient, by a factor of 1.5 or more. Severity is
    error if the run with the larger coefficient has lower entropy, beyond noise. A bonus with the correct sign raises
    entropy.

    ## Thresholds across runs
    - `factor`: minimum ratio of the larger to the smaller coefficient.
    """
    doses = [arm.settings.get("entropy_coef") for arm in (found.base, found.new)]
    answer = found.difference("entropy_mean")
    if answer is None or not all(isinstance(dose, int | float) for dose in doses):
        return None
    before, after = (float(dose) for dose in doses if dose is not None)
    small, large = sorted((before, after))
    inverted = answer.beyond_noise and (after > before) == (answer.difference < 0)
    return fires(
        inverted and large >= factor * small and large > small and [c.name for c in found.changed] == ["entropy_coef"],
        "Entropy is lower with the larger coefficient: {base:.3g} nats at a coefficient of {before:.3g}, and "
        "{new:.3g} nats at {after:.3g}.",
        error=True,
        before=before,
        after=after,
        base=answer.base,
        new=answer.new,
    )
