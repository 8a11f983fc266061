from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_doctor import Fires, Run, across, fires
from grpo_doctor.series import collapse, computed

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison


@across(
    "UPD005",
    kind="defect",
    severity="error",
    confidence="medium",
    withholds={"lower-learning-rate": "the collapse is equally frequent at rates that differ at least fivefold"},
)
def collapse_insensitive_to_lr(
    found: Comparison, *, ratio: float = 5.0, rate: float = 0.3, close: float = 0.1
) -> Fires | None:
    """Rollouts collapse after updates equally often at two different learning rates.

    ## What it sees
    The check compares two runs whose learning rates differ at least fivefold. In a collapsed rollout, nearly all
    responses are invalid. The check fires if, in both runs, the share of updates that are followed by a collapsed
    rollout is above 0.3 (lower Wilson bound). The shares of the two runs must differ by at most 0.1.

    ## Thresholds
    - `ratio`: minimum ratio of the two learning rates.
    - `rate`: share of updates that are followed by a collapse, 0 to 1, that the lower 95% bound must exceed.
    - `close`: maximum difference between the shares of the two runs, 0 to 1.

    ## Why it matters
    The effect of a gradient grows with the step size. A collapse that does not depend on the step size is not caused by
    a gradient. The learning rate and the size of the advantages therefore do not explain the collapse. An update also
    changes the state of the model: train mode, checkpointing, a cache, or weights that do not reach the rollout engine.

    ## Example
    ```text
    base.settings.learning_rate: 2e-5
    base.update_applied: 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0
    base.fallback_rate: 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0
    base.reward_mean: 0.1x15
    new.settings.learning_rate: 2e-6
    new.update_applied: 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0
    new.fallback_rate: 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0
    new.reward_mean: 0.1x15
    ```
    Error: The rollout collapsed after 5 of 5 updates at learning rate 2e-05 and after 5 of 5 at 2e-06. The step
    size is not the cause.

    ```text
    base.settings.learning_rate: 2e-5
    base.update_applied: 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0
    base.fallback_rate: 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0
    base.reward_mean: 0.1x15
    new.settings.learning_rate: 2e-6
    new.update_applied: 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0
    new.fallback_rate: 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0
    new.reward_mean: 0.1x15
    ```
    No finding.

    ## Known false alarms
    Both learning rates may be far too high.

    ## Remedy
    Check the other effects of an update. Generate in eval mode without gradient checkpointing.

    ## Sources
    beita6969/colab-grpo: learning rate 2e-5 (2 of 2 updates) and 2e-6 (37 of 38); the rollout was generated in train
    mode with gradient checkpointing on.
    """
    rates = [arm.settings.get("learning_rate") for arm in (found.base, found.new)]
    if not all(isinstance(r, int | float) and r > 0 for r in rates):
        return None
    one, other = (float(r) for r in rates if r is not None)
    counts = [_after_updates(arm.runs) for arm in (found.base, found.new)]
    if min(updates for _, updates in counts) == 0:
        return None
    shares = [collapsed / updates for collapsed, updates in counts]
    surely = min(_wilson(*pair) for pair in counts)
    return fires(
        max(one, other) >= ratio * min(one, other) and surely > rate and abs(shares[0] - shares[1]) <= close,
        "The rollout collapsed after {before} updates at learning rate {one:.2g} and after {after} at {other:.2g}. "
        "The step size is not the cause.",
        one=one,
        other=other,
        before=f"{counts[0][0]} of {counts[0][1]}",
        after=f"{counts[1][0]} of {counts[1][1]}",
    )


def _after_updates(runs: list[Run]) -> tuple[int, int]:
    """Return how many rollouts collapsed right after an update, and how many updates were followed by a rollout."""
    collapsed = updates = 0
    for run in runs:
        applied, invalid = run.column("update_applied"), run.column("invalid_rate")
        if invalid is None:
            continue
        marked = np.zeros(len(run), bool)
        if applied is not None:
            marked |= applied == 1
        for row, events in run.events.items():
            marked[row] |= any(event.kind == "update" for event in events)
        _, fell = computed(collapse, [invalid, np.full(len(run), np.nan)])
        followed = marked[:-1] & np.isfinite(invalid[1:])
        updates += int(followed.sum())
        collapsed += int((followed & np.asarray(fell, bool)[1:]).sum())
    return collapsed, updates


def _wilson(hits: int, of: int) -> float:
    """Return the lower 95% bound of a share."""
    z, share = 1.96, hits / of
    middle = share + z * z / (2 * of)
    return (middle - z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))) / (1 + z * z / of)
