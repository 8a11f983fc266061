from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, best, leaps, total, where


@check("GRD009", severity="warning", confidence="medium", explains=("REW009", "REW015"))
def gradient_leaps_again(
    grad_norm: Column,
    reward_gained: Column = None,
    eval_gained: Column = None,
    *,
    times: float = 100.0,
    rows: int = 20,
    tall: float = 20.0,
    again: int = 3,
    within: int = 100,
) -> Fires:
    """The gradient norm repeatedly spikes to 100 times its level and recovers.

    ## What it sees
    The check fires if, on three rows within 100, the norm is above 20 and above a hundred times the median of the 20
    rows before. Severity is **warning** (and an outcome) if neither the reward nor a held-out score has gained, and
    info otherwise. GRD002 covers a single spike.

    ## Thresholds
    - `times`: ratio of the norm to the median of the previous rows above which it is a spike.
    - `rows`: rows over which that median is computed.
    - `tall`: gradient norm up to which spikes are expected between norms near 0, in a run with mostly zero-variance
      groups.
    - `again`: number of spikes that form a pattern; a single one may be chance.
    - `within`: number of rows over which spikes are counted.

    ## Why it matters
    Clipping limits the length of such a step but not its direction, which depends on a few tokens. Adam's second moment
    stays large afterwards, so the following ordinary steps have little effect. A run with a spike every twenty rows
    wastes its updates.

    ## Example
    ```text
    grad_norm: 0.4x20 60x3 0.4x9
    ```
    Warning at step 21: The gradient norm spiked 3 times to at least 100 times its recent median (maximum: 60).

    ```text
    grad_norm: 0.4x20 4x3 0.4x9
    ```
    No finding.

    ## Known false alarms
    About eight of 600 public runs have such spikes. Seven of them are failing; one learns with a tight clipping limit,
    and is reported as info.

    ## Remedy
    Find the unbounded quantity on those rows: the ratio, the KL term or an advantage. Skip such updates and lower the
    learning rate.

    ## Sources
    lilinwz/ProRAG, an agentic search trainer: 1e4 at row 6, 3e7 at 63 and 1e10 at 104 between norms of 12, and a
    reward that never rises; JOY-SWang/R1-AQA-Omni: 4e6 to 3e8 with KL spikes.
    """
    leap = leaps(grad_norm, rows, times, tall)
    return fires(
        leap & ~(reward_gained | eval_gained),
        "The gradient norm spiked {leaps:.0f} times to at least 100 times its recent median (maximum: {highest:.3g}).",
        info=leap,
        hold=(again, within),
        clear=within,
        suffered=~(reward_gained | eval_gained),
        leaps=total(leap),
        highest=best(where(leap, grad_norm, float("nan"))),
    )
