from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_doctor import Fires, across, fires

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

OF_RESPONSES = ("advantage_std", "reward_mean", "reward_std", "response_length_mean", "entropy_mean")
"""Metrics of the responses, which never repeat to the last digit in a second run."""


@across("REC003", kind="defect", severity="warning", confidence="medium")
def knob_not_wired(found: Comparison, *, places: int = 3) -> Fires | None:
    """A setting was changed, but the metrics are identical.

    ## What it sees
    Two sides whose declared settings differ in something that training should feel (the seed counts, names, lengths
    and logging do not), and whose metrics are equal to the last printed digit at every shared step. Every metric that
    varies: an error. Only those of the responses (reward, advantages, length, entropy) while others differ: a warning,
    since what was changed has no way to them.

    ## Thresholds
    - `places`: number of number of shared steps at or above which equality is not chance.

    ## Why it matters
    Weeks go into settings that no code reads. Two runs of a stochastic trainer never repeat a reward to four digits; if
    they do, the second is the first one repeated.

    ## Known false alarms
    Figures that are printed with two digits, over few steps. Runs on stored responses: their rewards, and so their
    advantages, come from the data and not from the update. A setting that acts only after the last logged step.

    ## Remedy
    Print the setting where it is used.

    ## Sources
    yunsoft2019/Lever-Plus: advantage deviation 0.0063, 0.0062, 0.0062 before and after a fix of the advantage, and for
    fifty epochs at ten times the learning rate.
    """
    shared = max(found.equal.values(), default=0)
    every = 2 <= found.recorded == len(found.equal)
    told = list(found.equal) if every else [name for name in OF_RESPONSES if found.equal.get(name, 0) >= places]
    changed = "; ".join(f"{c.name} {c.base} → {c.new}" for c in found.acting[:4])
    which = (
        f"All {len(told)} metrics that vary are" if every else f"{', '.join(told)} {'is' if len(told) == 1 else 'are'}"
    )
    return fires(
        bool(found.acting and told) and shared >= places,
        "{which} identical to the last digit at all {places} shared steps, although a setting changed: {changed}. "
        "The setting has no effect, or nothing is trained.",
        error=every,
        confidence="high" if every else None,
        which=which,
        places=shared,
        changed=changed,
    )
