from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_doctor import Fires, across, fires

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison


@across("CMP001", kind="outcome", severity="info", confidence="medium")
def run_comparison(found: Comparison) -> Fires | None:
    """Reports whether NEW is better or worse than BASE beyond noise, and the smallest detectable difference.

    ## What it sees
    Success over the last half of the steps that both sides share, or since the runs diverged: the held-out score, else
    the success rate, the reward or the share of invalid responses. It is an error where NEW is worse beyond noise, and
    info otherwise.

    ## Why it matters
    A change that changed nothing looks like a small gain as often as like a small loss. 800 samples of which 48 % are
    right have a standard error of sqrt(0.48 · 0.52 / 800) = 1.8 points, the difference of two such scores one of 2.5,
    and it takes 2.8 times that, 7 points, to be seen in 80 % of trials at 95 %. A gain of 0.38 points on them (the
    published gain of yunsoft2019/Lever-Plus after a fix that did nothing) is noise, and so is one of 1.6. Scored prompt
    by prompt the same two runs tell more: only prompts that one of them alone gets right count (McNemar's test).

    ## Known false alarms
    One run a side. What another seed would do is then a guess, taken as a share of how far the metric moved; give three
    seeds a side (`--base`, or a folder) and it is measured. A reward function that changed makes the two figures two
    quantities, which only its components give away.

    ## Remedy
    Three seeds a side; longer runs; the same held-out prompts for both.

    ## Sources
    Picard, Adv. Appl. Probab. 1985 (change of level against autocorrelated noise); Henderson et al., arXiv 1709.06560,
    and Agarwal et al., arXiv 2108.13264 (what seeds do to conclusions).
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
