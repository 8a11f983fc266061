from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo_doctor import Fires, across, fires

if TYPE_CHECKING:
    from grpo_doctor.compare import Comparison

CONTROL = re.compile(r"(?i)random|spurious|shuffled|format[_ -]?only|control")
"""Names of control runs, whose reward does not depend on the answer."""
MODEL = re.compile(r"(?i)qwen[-_.]?2")
"""Models whose score rises under a random reward."""


@across("REW008", kind="remark", severity="info", confidence="low")
def random_reward_would_do(found: Comparison) -> Fires | None:
    """A Qwen model improved, but there is no control run with a random reward.

    ## What it sees
    The check fires if NEW trains a model of the Qwen2 family and learns, and BASE is not a control run. The reward,
    task or name of a control run contains a word such as random, spurious, shuffled or format. The check also fires if
    BASE is a control run and NEW is not better beyond noise.

    ## Why it matters
    Qwen2.5-Math-7B gained 21.4 points on MATH-500 with a random reward, 16.4 with a format reward, and 29.1 with the
    true reward. Most of the gain did not come from the reward. Llama-3.1-8B-Instruct lost 6.4 points with the random
    reward.

    ## Example
    ```text
    base.settings.model: Qwen/Qwen2.5-Math-7B
    base.reward_mean: 0.2->0.7x60
    new.settings.model: Qwen/Qwen2.5-Math-7B
    new.reward_mean: 0.2->0.8x60
    ```
    Info: Qwen/Qwen2.5-Math-7B also improves under a random reward: run one control with a random reward to measure
    the effect of the actual reward.

    ```text
    base.settings.model: meta-llama/Llama-3.1-8B
    base.reward_mean: 0.2->0.7x60
    new.settings.model: meta-llama/Llama-3.1-8B
    new.reward_mean: 0.2->0.8x60
    ```
    No finding.

    ## Known false alarms
    A task may not occur in any pretraining data. Severity is only **info**, because nothing is wrong with the run.

    ## Remedy
    Train one more run with the same settings and a random reward. The gain of the control run does not come from the
    actual reward.

    ## Sources
    Shao et al., Spurious Rewards, arXiv 2506.10947.
    """
    model = str(found.new.settings.get("model", ""))
    control = _is_control(found.base.name, found.base.settings)
    beaten = found.success is not None and found.success.better > 0
    if control:
        return fires(
            found.learns and not beaten,
            "BASE is a control run (by its name), and NEW is not better beyond noise: the reward may have no effect.",
        )
    return fires(
        found.learns and bool(MODEL.search(model)),
        "{model} also improves under a random reward: run one control with a random reward to measure the effect of "
        "the actual reward.",
        model=model,
    )


def _is_control(name: str, settings: dict[str, object]) -> bool:
    said = [str(value) for key, value in settings.items() if "reward" in key or "task" in key]
    return any(CONTROL.search(text) for text in (name.rpartition("/")[2], *said))
