from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_doctor import Fires, across, fires
from grpo_doctor.diagnosis.wording import number

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison


@across("STL002", kind="defect", severity="error", confidence="medium")
def identical_policy_across_epochs_or_runs(
    found: Comparison, *, same: float = 0.999, compared: int = 20, still_below: float = 1e-4
) -> Fires | None:
    """Two runs or two epochs have identical policies, although their settings differ.

    ## What it sees
    Responses to the same prompt at the same step: 99.9 % and more are the same text on both sides, and a setting that
    training should feel differs. Or, with `compare --weights BASE NEW`: every tensor of both checkpoints differs by
    less than 1e-4 of its norm; factors of a LoRA adapter are multiplied first.

    ## Thresholds
    - `same`: share of responses with identical text, 0 to 1.
    - `compared`: minimum number of compared responses.
    - `still_below`: relative change of a tensor's norm below which it has not moved.

    ## Why it matters
    What does not move is not trained: a learning rate that is lost in rounding, frozen parameters, a setting that does
    not reach the code, or one checkpoint evaluated under two names. Every figure of the second run is then that of the
    first, and so is every conclusion.

    ## Known false alarms
    The first step of runs that share seed and start. A short run at a small learning rate: 1e-6 over a hundred steps of
    Adam moves a weight by 1e-4 at most, which is small against large weights; if the reward rose, the change mattered.

    ## Remedy
    Check that the setting reaches the code, the learning rate, and that the parameters are in the optimizer.

    ## Sources
    yunsoft2019/Lever-Plus: four learning rates and KL coefficients, the same 55.85 % and the same choices to 100 %.
    """
    alike, weights = found.samples, found.weights
    texts = alike is not None and alike.compared >= compared and alike.share >= same and bool(found.acting)
    farthest = max((moved.change for moved in weights), default=0.0)
    unmoved = bool(weights) and farthest < still_below
    told = []
    if texts and alike is not None:
        told.append(f"{alike.same} of {alike.compared} responses are identical")
    if unmoved:
        told.append(f"no tensor of {len(weights)} differs by more than {number(farthest, 2)} of its norm")
    return fires(
        texts or unmoved,
        "Both sides have the same policy: {told}.",
        confidence="high" if unmoved else None,
        told=" and ".join(told),
    )
