from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, each
from grpo_doctor.series.mismatch_parts import EXPLAINS, effect_of, share_of


@check(
    "MIS008",
    kind="defect",
    severity="error",
    confidence="medium",
    explains=EXPLAINS,
    invalidates=("updates since step {onset}: their responses answer a different prompt",),
)
def engine_prompt_differs(
    mismatch_causes: Column,
    *,
    least: float = 0.15,
) -> Fires:
    """Rollout engine and trainer see different prompts.

    ## What it sees
    In a token batch, the difference is at least three times as large in the first quarter of the responses as in the
    last, among tokens of similar log-probability. It falls from quarter to quarter.

    ## Thresholds
    - `least`: share of the squared log-probability difference, 0 to 1, that the cause must explain.

    ## Why it matters
    A different chat template, a second BOS token, a missing system prompt or image, or a truncated prompt changes the
    distribution of the first tokens most. The trainer then reinforces an answer to a different prompt.

    ## Example
    ```text
    mismatch_causes: {"prompt": [0.9, 40.0]}
    rollout_mismatch_kl: 0.01
    ```
    Error at step 1: Rollout engine and trainer see different prompts: the squared log-probability difference is 40
    times larger at the start of the responses than at their end.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    A difference in the weights that affects only how responses begin.

    ## Remedy
    Pass token ids, not text, to the engine. Compare the ids of one prompt on both sides.

    ## Sources
    huggingface/trl#3520; NVIDIA-NeMo/RL#855; batch `prompt` of benchmarks/mismatch.md.
    """
    share = each(share_of("prompt"), mismatch_causes)
    return fires(
        share > least,
        "Rollout engine and trainer see different prompts: the squared log-probability difference is {early:.3g} times "
        "larger at the start of the responses than at their end.",
        hold=(1, 1),
        share=share,
        early=each(effect_of("prompt"), mismatch_causes),
    )
