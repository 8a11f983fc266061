from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_doctor import Fires, across, fires

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison


@across("CMP001", kind="outcome", severity="info", confidence="medium")
def run_comparison(found: Comparison) -> Fires | None:
    """Reports whether NEW is better or worse than BASE beyond noise, and the smallest detectable difference.

    ## What it sees
    The check compares success over the last half of the steps that both runs share, or of the steps since the runs
    diverged. Success is the first of these metrics that is recorded: held-out score, success rate, reward, share of
    invalid responses. Severity is **error** if NEW is worse beyond noise, and **info** otherwise.

    ## Why it matters
    A change without an effect looks like a small gain as often as like a small loss. At 48% accuracy, a score on 800
    samples has a standard error of sqrt(0.48 · 0.52 / 800) = 1.8 points. The difference between two scores at 48%
    accuracy has a standard error of 2.5 points. To be detected with 80% power at the 5% level, a difference must be 2.8
    standard errors, or 7 points. A gain of 0.38 points (published by yunsoft2019/Lever-Plus after a fix without effect)
    is within noise, and so is a gain of 1.6 points. A prompt-by-prompt comparison (McNemar's test) is more sensitive,
    because it counts only prompts that exactly one of the two runs answers correctly.

    ## Example
    ```text
    base.reward_mean: 0.2->0.8x60
    new.reward_mean: 0.2x60
    ```
    Error: The reward is lower (0.653 → 0.2).

    ```text
    base.kl: 0.1x20
    new.kl: 0.2x20
    ```
    No finding.

    ## Known false alarms
    With one run per side, the variation between seeds is only estimated, as a share of the metric's range. With three
    seeds per side (`--base`, or a folder), the variation is measured. If the reward function changed, the two rewards
    measure different quantities. Compare the reward components to see whether the reward function changed.

    ## Remedy
    Use three seeds per side, longer runs, and the same held-out prompts for both sides.

    ## Sources
    Picard, Adv. Appl. Probab. 1985 (change of level against autocorrelated noise); Henderson et al., arXiv 1709.06560,
    and Agarwal et al., arXiv 2108.13264 (effect of seeds on conclusions).
    """
    known = [d for d in found.differences if d.known and d.metric in ("eval_score", "success_rate", "reward_mean")]
    told = found.success or next(iter(known), None)
    if told is None:
        return None
    return fires(
        True,
        "{sentence}.",
        error=told.better < 0,
        sentence=told.sentence[0].upper() + told.sentence[1:],
        label=told.label,
        base=told.base,
        new=told.new,
        detectable=told.detectable,
    )
