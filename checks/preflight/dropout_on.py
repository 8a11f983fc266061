from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, fmax, is_any


@check("CFG011", severity="info", explains=("RAT003",))
def dropout_on(
    known: Column = any_of("settings.lora_dropout", "settings.dropout", "settings.attention_dropout"),
    lora: Column = any_of("settings.lora_dropout", optional=True),
    plain: Column = any_of("settings.dropout", optional=True),
    attention: Column = any_of("settings.attention_dropout", optional=True),
    disabled: Column = any_of("settings.disable_dropout", optional=True),
    framework: Column = any_of("settings.framework", optional=True),
    *,
    strong: float = 0.05,
) -> Fires:
    """Dropout is on while the policy is scored, so no log-probability is the same twice.

    ## What it sees
    A declared dropout (LoRA's, the model's or the attention's) above 0: info; of the model or the attention above
    0.05: warning. Silent where `disable_dropout` is declared on.

    ## Thresholds
    - `strong`: dropout probability above which it is a warning.

    ## Why it matters
    Old and new log-probabilities then come from two random sub-networks: ratios differ from 1 before any update,
    the KL to the reference is above 0 from the first step, and clipping acts on noise.

    ## Known false alarms
    LoRA recipes with 0.05 and 0.1 train well; the noise is small. Trainers that score in eval mode are not touched by
    it.

    ## Remedy
    TRL `disable_dropout=True`; LoRA dropout 0.

    ## Sources
    huggingface/trl#3500; TRL `disable_dropout` (off by default).
    """
    largest = fmax(fmax(lora, plain), attention)
    active = ~(disabled == 1)
    return fires(
        active & (largest > 0),
        "Dropout of {largest:.2g} is on while log-probabilities are taken.",
        hold=(1, 1),
        warning=active & (fmax(plain, attention) > strong) & ~is_any(framework, "hand-written trainer"),
        largest=largest,
    )
