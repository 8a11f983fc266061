from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_doctor import Fires, across, fires

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

OF_RESPONSES = ("advantage_std", "reward_mean", "reward_std", "response_length_mean", "entropy_mean")
"""Metrics of the responses, which never agree to the last digit in two independent runs."""


@across("REC003", kind="defect", severity="warning", confidence="medium")
def knob_not_wired(found: Comparison, *, places: int = 3) -> Fires | None:
    """A setting was changed, but the metrics are identical.

    ## What it sees
    The check compares two runs that differ in a declared setting that should affect training, such as the seed. Run
    names, run lengths and logging settings do not count. The check fires if the metrics of both runs are equal to the
    last printed digit at every shared step. Severity is **error** if every metric that varies is equal. Severity is
    **warning** if only metrics of the responses (reward, advantages, length, entropy) are equal. In this case, the
    changed setting does not affect the responses.

    ## Thresholds
    - `places`: minimum number of shared steps at which the metrics must be equal.

    ## Why it matters
    Teams spend weeks on settings that no code reads. Two runs of a stochastic trainer never have the same rewards to
    four digits. If all rewards are equal, the second run only repeats the first.

    ## Example
    ```text
    base.settings.learning_rate: 1e-6
    base.reward_mean: 0.2->0.3x20
    base.loss: 0.1->0.2x20
    new.settings.learning_rate: 1e-5
    new.reward_mean: 0.2->0.3x20
    new.loss: 0.1->0.2x20
    ```
    Error: All 2 metrics that vary are identical to the last digit at all 20 shared steps, although a setting
    changed: learning_rate 1e-06 → 1e-05. The setting has no effect, or nothing is trained.

    ```text
    base.settings.learning_rate: 1e-6
    base.reward_mean: 0.2->0.3x20
    base.loss: 0.1->0.2x20
    new.settings.learning_rate: 1e-5
    new.reward_mean: 0.2->0.5x20
    new.loss: 0.1->0.3x20
    ```
    No finding.

    ## Known false alarms
    With few steps and values printed with two digits, metrics may be equal by chance. In runs on stored responses,
    rewards and advantages come from the data and not from the update. A setting may act only after the last logged
    step.

    ## Remedy
    Print the setting at the place where it is used.

    ## Sources
    yunsoft2019/Lever-Plus (an advantage deviation of 0.0062 to 0.0063 before and after a fix of the advantage, and for
    fifty epochs at ten times the learning rate).
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
