import math
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, maximum, noise, recent_mean, words


@check("PRF005", kind="remark", severity="info", confidence="medium", run_types=("preference",))
def chosen_likelihood_displaced(
    reward_margin: Column,
    known: Column = any_of("chosen_reward", "chosen_logp"),
    chosen_reward: Column = None,
    chosen_logp: Column = None,
    *,
    rows: int = 5,
    lost: float = 1.0,
    sigmas: float = 5.0,
    times: float = 1.2,
) -> Fires:
    """The reward margin grows while the chosen responses become less likely.

    ## What it sees
    The check compares means of the last and the first 5 rows. The margin must have grown by more than 5 standard
    errors. In addition, the implicit reward of the chosen responses must be negative. The implicit reward must have
    fallen by at least 1, and by at least 5 standard errors. If no implicit reward is logged, the log-probability of the
    chosen responses must have fallen by 20%. PRF003 reports much larger decreases.

    ## Thresholds
    - `rows`: number of rows over which each mean is computed.
    - `lost`: minimum decrease in the implicit reward, in the units of the loss. At beta 0.1, a fall of 1 makes the
      response 22,000 times less likely.
    - `sigmas`: minimum decrease in the implicit reward, and minimum increase in the margin, in standard errors.
    - `times`: multiple of the first log-probability below which the log-probability must have fallen if no implicit
      reward is logged.

    ## Why it matters
    The loss contains only the difference between chosen and rejected responses. If both become less likely, the
    probability moves to responses outside all pairs, which were never judged.

    ## Example
    ```text
    chosen_reward: 0x10 -2x20
    reward_margin: 0x10 3x20
    ```
    Info at step 13: The reward margin grew from 0 to 3 while the chosen responses became less likely. The implicit
    reward of the chosen responses fell from 0 to -2.

    ```text
    chosen_reward: 0x10 1x20
    reward_margin: 0x10 3x20
    ```
    No finding.

    ## Known false alarms
    A small decrease in likelihood is common in published runs, so severity is only **info**.

    ## Remedy
    Read ten responses of the policy. If the responses are worse than those of the reference model, divide the learning
    rate by ten. Alternatively, add the negative log-likelihood of the chosen responses (`rpo_alpha=1.0`).

    ## Sources
    arXiv 2410.08847 (likelihood displacement); arXiv 2402.13228 (Smaug).
    """
    reward, logp, margin = (
        recent_mean(chosen_reward, rows),
        recent_mean(chosen_logp, rows),
        recent_mean(reward_margin, rows),
    )
    first, begun, apart = baseline(reward, 1), baseline(logp, 1), baseline(margin, 1)
    error = math.sqrt(2 / rows)
    fell = (reward < 0) & (first - reward >= maximum(lost, sigmas * error * noise(chosen_reward)))
    sank = (reward != reward) & (begun < 0) & (logp < times * begun)
    return fires(
        (fell | sank) & (margin - apart > sigmas * error * noise(reward_margin)),
        "The reward margin grew from {apart:.3g} to {margin:.3g} while the chosen responses became less likely. "
        "{what}.",
        hold=(1, 1),
        clear=rows,
        apart=apart,
        margin=margin,
        what=words(_what, first, reward, begun, logp),
    )


def _what(first: Any, reward: Any, begun: Any, logp: Any) -> str:
    if reward == reward:
        return f"The implicit reward of the chosen responses fell from {number(first)} to {number(reward)}"
    return f"The log-probability of the chosen responses fell from {number(begun)} to {number(logp)}"
