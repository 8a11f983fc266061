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
    """The gradient norm repeatedly spikes to 100 times its recent median and recovers.

    ## What it sees
    A spike is a norm above 20 and above a hundred times the median of the previous 20 rows. The check fires at the
    third spike within 100 rows. Severity is **warning**, or info if the reward or a held-out score has improved. GRD002
    covers a single spike.

    ## Thresholds
    - `times`: ratio of the norm to the median of the previous rows above which the norm is a spike.
    - `rows`: number of previous rows over which the median is computed.
    - `tall`: gradient norm that a spike must exceed, because norms are near 0 if most groups have zero variance.
    - `again`: number of spikes at which the check fires; one spike can occur by chance.
    - `within`: number of rows over which spikes are counted.

    ## Why it matters
    Clipping limits the length of a step but not its direction. After an explosion, the direction depends on a few
    tokens. Adam's second moment stays large after a spike, so the following updates have little effect. A run with a
    spike every twenty rows wastes its updates.

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
    About eight of 600 public runs have repeated spikes. Seven of these eight runs fail, and one learns with a tight
    clipping limit and is reported as info.

    ## Remedy
    Find the quantity that explodes on the rows with a spike: the ratio, the KL term or an advantage. Skip updates with
    an exploded gradient, and lower the learning rate.

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
