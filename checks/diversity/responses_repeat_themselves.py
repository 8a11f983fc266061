import math
from typing import Any

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, baseline, began, each, recent_mean, where

TAIL, TIMES, LEAST = 40, 4, 200
"""Characters at the end of a response, how often they must occur in it, and the characters that it must have: a loop
fills the end of a response, and prose of that length does not repeat forty characters four times."""


@check(
    "DIV005", severity="warning", confidence="medium", explains=("LEN002", "LEN003", "REW009"), explains_from="error"
)
def responses_repeat_themselves(
    step: Column,
    known: Column = any_of("repetition_rate", "samples"),
    repetition_rate: Column = None,
    samples: Column = None,
    reward_gained: Column = None,
    reward_fallen: Column = None,
    *,
    some: float = 0.2,
    risen: float = 0.1,
    most: float = 0.5,
) -> Fires:
    """Responses repeat themselves in loops.

    ## What it sees
    The share of responses that repeat themselves, mean of the last 5 rows that have it: as logged by the trainer.
    Otherwise saved responses count if they have 200 characters or more and their last 40 occur four times. Above 20 %
    and 10 points above the first rows' share, or above 50 %: a **warning**. Above 50 % in a run whose reward has not
    gained: an **error**.

    ## Thresholds
    - `some`: share of repeating responses, 0 to 1.
    - `risen`: rise of that share since the first rows: some models produce loops from the start.
    - `most`: share of repeating responses, 0 to 1, above which loops make up most of the batch.

    ## Why it matters
    A loop fills the response up to the limit, so it costs the most tokens and contains no answer. Loops spread
    quickly, because each repeated token makes the next more likely.

    ## Known false alarms
    Tasks whose answer is a list or a table. Trainers differ in what they count as repetition.

    ## Remedy
    Give loops the lowest reward. Check that EOS is inside the loss mask and that the reward does not favour length.
    Roll back to the checkpoint before the share rose.

    ## Sources
    slime, `repetition_frac`; SkyRL-Agent, `stuck_in_a_loop_ratio`. rlprobe 0.1, pathology `repetition_spiral`.
    """
    share = where(repetition_rate == repetition_rate, repetition_rate, each(_loops, samples))
    first, now = baseline(share), recent_mean(share)
    high = ((now > some) & (now - first >= risen)) | (now > most)
    return fires(
        high,
        "{now:.0%} of the responses end in a loop of repeated text ({first:.0%} at the start).",
        error=high & (now > most) & ~(reward_gained & ~reward_fallen),
        onset=began(high, share > some, step),
        now=now,
        first=first,
    )


def _loops(row: list[Any] | None) -> float:
    """Share of the saved responses of one step that end in a loop; NaN where none was saved."""
    texts = [sample.response for sample in row or ()]
    loops = [len(text) >= LEAST and text.count(text[-TAIL:]) >= TIMES for text in texts]
    return sum(loops) / len(loops) if loops else math.nan
