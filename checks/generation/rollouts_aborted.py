from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.diagnosis.remedies import remedy
from grpo_doctor.series import Column, began, recent_mean


@check(
    "GEN011",
    severity="warning",
    confidence="high",
    explains=("REW009", "STL001", "LEN001"),
    explains_from="error",
    rivals=(
        Rival(
            "the engine aborts on weight updates",
            "an asynchronous trainer cancels what is in flight and does not resume it",
            "aborts by step: they come with each synchronisation",
        ),
        Rival(
            "the engine is out of memory or time",
            "requests are preempted, or a time-out ends them",
            "the engine's own log: preemptions, KV-cache usage, time-outs",
        ),
        Rival(
            "prompts are longer than the limit",
            "no token is left for a response",
            "prompt_length/max against the engine's max_model_len",
        ),
    ),
    remedies=(
        remedy(
            "drop-aborted-rollouts",
            "Leave aborted rollouts out of the batch, and find what aborts them",
            verl="read response_length_non_aborted/* instead of response_length/*; async_training.partial_rollout=True "
            "resumes what a weight update interrupts",
            by_hand="keep = [r for r in rollouts if r.finish_reason != 'abort']   # before rewards and advantages",
            evidence="an empty response scores 0 and counts as a wrong answer of its group",
            source="verl 0.9.1, trainer/ppo/metric_utils.py (response/aborted_ratio)",
        ),
    ),
    invalidates=("mean reward and mean length since step {onset}: aborted rollouts count in them",),
)
def rollouts_aborted(
    aborted_rate: Column,
    step: Column,
    *,
    lost: float = 0.05,
    mostly: float = 0.5,
) -> Fires:
    """A share of the rollouts is aborted and gives no response.

    ## What it sees
    The share of aborted rollouts, mean of the last 5 rows, above 5 %: a **warning**. Above 50 % it is an **error**, and
    an outcome.

    ## Thresholds
    - `lost`: share of aborted rollouts, 0 to 1: with eight responses per prompt, 5 % spoil every third group.
    - `mostly`: share of aborted rollouts, 0 to 1, from which the batch is mostly empty.

    ## Why it matters
    An aborted rollout has no token to train on, and its reward of 0 lowers the mean of its group: the others get a
    positive advantage for nothing.

    ## Known false alarms
    Trainers that over-sample on purpose and cancel the slowest rollouts before they form the batch.

    ## Remedy
    Leave aborted rollouts out before rewards and advantages. Find what aborts them in the log of the rollout engine.

    ## Sources
    verl 0.9.1 (`response/aborted_ratio`: the share of samples with a response of length 0); prime-rl
    (`train/agg/all/cancelled/mean`).
    """
    now = recent_mean(aborted_rate)
    over, mostly_over = now > lost, now > mostly
    return fires(
        over,
        "{now:.0%} of the rollouts of the last 5 steps were aborted and gave no response.",
        error=mostly_over,
        suffered=mostly_over,
        onset=began(over, aborted_rate > lost, step),
        now=now,
    )
