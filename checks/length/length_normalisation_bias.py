import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, each, kendall_tau, where


@check("LEN007", severity="info")
def length_normalisation_bias(
    wrong_chars_mean: Column,
    right_chars_mean: Column,
    loss: Column = any_of("settings.loss_type", "settings.loss_agg_mode", optional=True),
    *,
    rows: int = 12,
    tau: float = 0.5,
    longer: float = 1.25,
) -> Fires:
    """Wrong answers get longer while correct answers do not.

    ## What it sees
    The check uses the mean length in characters of correct and wrong responses, from the rollouts or the saved
    responses of each step. If correctness is unknown, responses above and below the step's mean reward are compared.
    The check fires if, on 3 of 5 rows, the length ratio of wrong to correct answers rises over 12 rows (Kendall's tau
    above 0.5). In addition, wrong answers must be 25% longer than at the start and longer than correct answers.
    Severity is info, or warning if the run declares a loss that averages per sequence (TRL `grpo`, verl
    `seq-mean-...`).

    ## Thresholds
    - `rows`: number of rows over which the trend of the length ratio is computed.
    - `tau`: Kendall's tau of the length ratio of wrong to correct answers above which the ratio counts as rising.
    - `longer`: ratio of the length of wrong answers to its first value above which wrong answers count as longer.

    ## Why it matters
    If the loss is averaged per response, each token of a long wrong answer is penalised less than each token of a
    short wrong answer. Wrong answers therefore become longer, and the response length rises without better reasoning.

    ## Example
    ```text
    wrong_chars_mean: 60->86x14
    right_chars_mean: 50x14
    ```
    Info at step 12: Wrong answers grew from 60 to 86 characters, while correct answers have 50 characters.

    ```text
    wrong_chars_mean: 60->86x14
    right_chars_mean: 60->86x14
    ```
    No finding.

    ## Known false alarms
    With few samples per step, the mean lengths are noisy. The difficulty of the prompts may change during the run.
    Lengths in characters are comparable only within one language.

    ## Remedy
    Average the loss over all tokens of the batch, or divide it by a constant.

    ## Sources
    Dr. GRPO (arXiv 2503.20783), DAPO (2503.14476).
    """
    wrong, right = wrong_chars_mean, right_chars_mean
    known = (wrong == wrong) & (right == right)
    ratio = where(known, wrong / right, np.nan)
    biased = (kendall_tau(ratio, rows) > tau) & (wrong > longer * baseline(wrong, 1)) & (ratio > 1)
    per_sequence = each(lambda name: name == "grpo" or str(name).startswith("seq-mean-token-mean"), loss)
    return fires(
        biased,
        "Wrong answers grew from {first:.0f} to {wrong:.0f} characters, while correct answers have {right:.0f} "
        "characters.",
        warning=biased & (per_sequence > 0),
        first=baseline(wrong, 1),
        wrong=wrong,
        right=right,
    )
