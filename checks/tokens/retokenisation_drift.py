from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import counted
from grpo_doctor.series import Column, seen, total, words

_WARNING = "Inconsistent training and inference tokenization"


@check("TOK005", kind="defect", severity="warning", confidence="high", explains=("PAD002", "RAT004"))
def retokenisation_drift(events: Column) -> Fires:
    """The loss uses ids that were re-tokenised from text instead of the sampled ids.

    ## What it sees
    The check fires if the log contains the line "Inconsistent training and inference tokenization detected". The
    multi-turn rollout of verl writes this line if tokenising the whole conversation and tokenising each turn give
    different ids.

    ## Why it matters
    The same text can be split into different tokens. With a different split, the loss uses the log-probabilities of ids
    that the policy did not sample. If few tokens differ, the bias is small; otherwise the mask has the wrong length.

    ## Example
    ```log
    Inconsistent training and inference tokenization detected (strict).
    step:1 - critic/rewards/mean:0.5 - actor/grad_norm:0.1
    step:2 - critic/rewards/mean:0.5 - actor/grad_norm:0.1
    ```
    Warning: The trainer warned that training and inference tokenise the same conversation differently (1 warning).

    ```log
    step:1 - critic/rewards/mean:0.5 - actor/grad_norm:0.1
    step:2 - critic/rewards/mean:0.5 - actor/grad_norm:0.1
    ```
    No finding.

    ## Known false alarms
    verl's mode `strict` also reports line breaks between turns that only the template writes; the mode
    `ignore_strippable` does not.

    ## Remedy
    Pass the sampled ids from the rollout engine to the loss.

    ## Sources
    verl-project/verl#3720 (a line break lost after every turn), #2165 and #2189 (reasoning that the template strips).
    """
    warned = total(seen(events, "log-warning", text=_WARNING))
    return fires(
        warned > 0,
        "The trainer warned that training and inference tokenise the same conversation differently ({warnings}).",
        hold=(1, 1),
        warnings=words(lambda n: counted(int(n), "warning"), warned),
    )
