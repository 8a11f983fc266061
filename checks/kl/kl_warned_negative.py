from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.series import Column, seen, total, words

_WARNING = "KL divergence is starting to become negative"


@check("KL009", kind="defect", severity="warning", confidence="medium")
def kl_warned_negative(events: Column) -> Fires:
    """The trainer warns that its KL estimate is negative.

    ## What it sees
    The check fires if the log contains the warning "KL divergence is starting to become negative". TRL's PPO prints
    this warning if the KL to the reference model, summed over a response and averaged over a batch, is below -1. Python
    shows a repeated warning only once, so one line is sufficient. If the KL is also recorded, KL004 judges its values.

    ## Why it matters
    The true KL is never negative. A negative estimate means that the responses were drawn with different settings or
    weights. The responses are less likely under the scored policy than under the reference model. A penalty on a
    negative estimate rewards the policy for moving away from the reference model.

    ## Example
    ```log
    ppo_trainer.py:1100: UserWarning: KL divergence is starting to become negative: -1.66 - this might be a precursor
    ```
    Warning: The trainer warned of a negative KL estimate on 1 row. The true KL is never negative,
    so the scored text is not the sampled text.

    ```log
    {'objective/kl': 0.1, 'objective/scores': 0.5, 'episode': 64}
    ```
    No finding.

    ## Known false alarms
    The estimate of a batch with one short response may be below -1 by chance.

    ## Remedy
    Use plain sampling: no top-k, top-p, penalties or minimum length, and the same temperature as for scoring.

    ## Sources
    `PPOTrainer.record_step_stats` of TRL up to 0.11; huggingface/trl#235, #417, #1857; hiyouga/LlamaFactory#664, #98.
    """
    warned = seen(events, "log-warning", text=_WARNING)
    return fires(
        warned,
        "The trainer warned of a negative KL estimate on {rows}. The true KL is never negative, so the scored text is "
        "not the sampled text.",
        hold=(1, 1),
        rows=words(lambda n: counted(int(n), "row"), total(warned)),
    )
