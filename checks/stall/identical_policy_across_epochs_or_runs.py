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
    The check fires if at least 99.9% of the responses to the same prompt at the same step have the same text in BASE
    and NEW. In addition, a setting that should affect training must differ. With `compare --weights BASE NEW`, the
    check also fires if every tensor differs between the checkpoints by less than 1e-4 of its norm. The factors of a
    LoRA adapter are multiplied before the comparison.

    ## Thresholds
    - `same`: minimum share of responses with identical text, 0 to 1.
    - `compared`: minimum number of compared responses.
    - `still_below`: change in a tensor, as a share of its norm, below which the tensor counts as unchanged.

    ## Why it matters
    If policies are identical, training had no effect. The updates are lost in rounding, parameters are frozen, a
    setting does not reach the code, or one checkpoint was evaluated under two names. Every result of the second run
    only repeats the first run.

    ## Example
    ```text
    base.settings.learning_rate: 1e-6
    base.reward_mean: 0.2->0.3x20
    base.samples.1: {"prompt": "1 + 1?", "response": "2"} x30
    new.settings.learning_rate: 1e-5
    new.reward_mean: 0.2->0.4x20
    new.samples.1: {"prompt": "1 + 1?", "response": "2"} x30
    ```
    Error: BASE and NEW have the same policy: 30 of 30 responses are identical.

    ```text
    base.settings.learning_rate: 1e-6
    base.reward_mean: 0.2->0.3x20
    base.samples.1: {"prompt": "1 + 1?", "response": "2"} x30
    new.settings.learning_rate: 1e-5
    new.reward_mean: 0.2->0.4x20
    new.samples.1: {"prompt": "1 + 1?", "response": "3"} x30
    ```
    No finding.

    ## Known false alarms
    On the first step, runs with the same seed and initial weights are identical. A short run at a small learning rate
    barely changes the weights. Over a hundred steps of Adam, a rate of 1e-6 changes a weight by at most 1e-4, which is
    small compared with large weights. If the reward rose, the change in the weights had an effect.

    ## Remedy
    Check that the setting reaches the code, that the learning rate is large enough, and that the parameters are in the
    optimizer.

    ## Sources
    yunsoft2019/Lever-Plus: runs with four learning rates and KL coefficients have the same score of 55.85% and
    identical choices.
    """
    alike, weights = found.samples, found.weights
    texts = alike is not None and alike.compared >= compared and alike.share >= same and bool(found.acting)
    farthest = max((moved.change for moved in weights), default=0.0)
    unmoved = bool(weights) and farthest < still_below
    told = []
    if texts and alike is not None:
        told.append(f"{alike.same} of {alike.compared} responses are identical")
    if unmoved:
        told.append(f"none of the {len(weights)} tensors differs by more than {number(farthest, 2)} of its norm")
    return fires(
        texts or unmoved,
        "BASE and NEW have the same policy: {told}.",
        confidence="high" if unmoved else None,
        told=" and ".join(told),
    )
