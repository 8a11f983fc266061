import numpy as np

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, previous


@check(
    "SHP004",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=("GEN004", "RAT004", "DIV004", "REW009", "REW015", "ADV003", "PAD005", "LEN003"),
)
def logit_clip_signature(
    top1_prob: Column,
    vocabulary: Column = any_of("settings.vocab_size", optional=True),
    *,
    within: float = 1e-4,
    below: float = 0.99,
) -> Fires:
    """The top-1 probability is constant, which indicates that logits are clipped.

    ## What it sees
    The check fires if the top-1 probability, between 0.01 and 0.99, changes by less than 0.0001 from row to row, 7
    times in succession. If every logit is clipped to [-C, C] or [0, C], the top-1 probability is at most 1 / (1 + (V -
    1) exp(-C)). The report shows the clip C that fits the constant value for the declared `vocab_size`.

    ## Thresholds
    - `within`: change in the probability from row to row below which the probability counts as constant.
    - `below`: probability at or above which a constant value does not indicate a clip.

    ## Why it matters
    A clip that does not grow with ln V leaves most of the probability to unlikely tokens. With V = 128,256 and C = 10,
    the top-1 probability is 0.147, and samples are noise, regardless of what the policy has learned.

    ## Example
    ```text
    top1_prob: 0.98x12
    ```
    Error at step 2: The top-1 probability is constant at 0.9800, which indicates that logits are clipped.

    ```text
    top1_prob: 0.9->0.98x12
    ```
    No finding.

    ## Known false alarms
    A column printed with two or three decimals may be constant. The probability of a frozen policy on a fixed batch is
    also constant. A policy that learns is not reported: its mean top-1 probability over sampled positions varies by
    more than 0.001 from row to row.

    ## Remedy
    Remove the clip, or set it to at least ln V + 7.

    ## Sources
    Algebra; fault `logit-clip` of the engine; BoBaCai/grpo-dual.
    """
    still = abs(top1_prob - previous(top1_prob)) < within
    clip = np.log((vocabulary - 1) * top1_prob / (1 - top1_prob))
    return fires(
        still & (top1_prob < below) & (top1_prob > 0.01),
        "The top-1 probability is constant at {p:.4f}, which indicates that logits are clipped.",
        hold=(7, 7),
        p=top1_prob,
        clip=clip,
    )
