import math
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, baseline, latest, lowest, maximum, noise, recent_mean, total, words


@check("PRF003", severity="warning", confidence="medium", run_types=("preference",))
def chosen_likelihood_falls(
    known: Column = any_of("chosen_reward", "chosen_logp"),
    chosen_reward: Column = None,
    chosen_logp: Column = None,
    eval_loss: Column = None,
    eval_score: Column = None,
    eval_fallen: Column = None,
    *,
    rows: int = 5,
    ruled_out: float = 7.0,
    sigmas: float = 5.0,
    times: float = 2.0,
    evaluations: int = 2,
    holds_within: float = 0.1,
) -> Fires:
    """Chosen responses become much less likely; the margin grows because rejected responses fall even faster.

    ## What it sees
    The check compares means of the last and the first 5 rows. The check fires if the implicit reward of the chosen
    responses is -7 or below and has fallen by at least 7. The fall must also be at least 5 standard errors. At a reward
    of -7, the odds of a chosen response are 1 to 1,000 under a sigmoid, although it is the preferred response. The
    check also fires if the reward of the chosen responses is negative and their log-probability has doubled, which
    squares the perplexity. Severity is **info** if the last of at least two held-out losses is within 10% of the
    lowest, or a held-out score has not fallen.

    ## Thresholds
    - `rows`: number of rows over which each mean is computed.
    - `ruled_out`: size of a negative implicit reward, in the units of the loss, at or above which a response counts as
      ruled out.
    - `sigmas`: minimum decrease in the reward, in standard errors.
    - `times`: multiple of the first log-probability below which the log-probability must have fallen.
    - `evaluations`: minimum number of held-out losses or scores for severity info.
    - `holds_within`: maximum excess of the last held-out loss over the lowest, as a share, at which the last loss
      counts as not worse.

    ## Why it matters
    The loss depends only on the difference between chosen and rejected responses. If both become less likely, the
    probability moves to responses outside all pairs, which may be worse than either, while accuracy and margin look
    perfect.

    ## Example
    ```text
    chosen_reward: 0x10 -7x10
    chosen_logp: -50x10 -120x10
    ```
    Warning at step 14: The chosen responses become less likely: their reward fell from 0 to -7 and their
    log-probability fell from -50 to -120. The margin grows because the likelihood of the rejected responses falls
    faster.

    ```text
    chosen_reward: 0x10 1x10
    chosen_logp: -50x10 -40x10
    ```
    No finding.

    ## Known false alarms
    After supervised training on the chosen responses, their likelihood can only fall, usually by a little. In the
    published runs of the DPO authors, the reward of the chosen responses falls by about one. A change in response
    length has the same effect, because log-probabilities are sums.

    ## Remedy
    Compare ten responses of the policy with those of the reference model. If the policy's responses are worse, roll
    back, divide the learning rate by ten, and add a term that keeps the chosen responses likely.

    ## Sources
    arXiv 2402.13228 (Smaug); arXiv 2410.08847 (likelihood displacement). A run of a tiny model in TRL, made for this
    check (`tests/data`). jiseshen/ppo_dpo, DPO.ipynb: the chosen reward goes from 0.3 to -10.8 and the accuracy from
    0.67 to 0.57.
    """
    reward, logp = recent_mean(chosen_reward, rows), recent_mean(chosen_logp, rows)
    first, begun = baseline(reward, 1), baseline(logp, 1)
    beyond = sigmas * noise(chosen_reward) * math.sqrt(2 / rows)
    out = (reward <= -ruled_out) & (first - reward >= maximum(ruled_out, beyond))
    doubled = (reward < 0) & (logp < times * begun) & (begun < 0)
    near = latest(eval_loss) <= (1 + holds_within) * lowest(eval_loss)
    evaluated = near & (total(eval_loss == eval_loss) >= evaluations)
    scored = ~eval_fallen & (total(eval_score == eval_score) >= evaluations)
    fell, holds = out | doubled, evaluated | scored
    return fires(
        fell & ~holds,
        "The chosen responses become less likely: {what}. The margin grows because the likelihood of the rejected "
        "responses falls faster.",
        info=fell,
        hold=(1, 1),
        clear=rows,
        what=words(_what, first, reward, begun, logp),
        first=first,
        reward=reward,
    )


def _what(first: Any, reward: Any, begun: Any, logp: Any) -> str:
    said = [
        *([f"their reward fell from {number(first)} to {number(reward)}"] if reward == reward else []),
        *([f"their log-probability fell from {number(begun)} to {number(logp)}"] if logp == logp else []),
    ]
    return " and ".join(said)
