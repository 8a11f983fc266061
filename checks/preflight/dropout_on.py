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
    """Dropout is on while log-probabilities are computed, so log-probabilities are random.

    ## What it sees
    Severity is **info** for a declared dropout (LoRA, model or attention) above 0, and **warning** for model or
    attention dropout above 0.05. The check is skipped if `disable_dropout` is on.

    ## Thresholds
    - `strong`: dropout probability above which the severity is warning.

    ## Why it matters
    With dropout, old and new log-probabilities come from two different random sub-networks. Ratios differ from 1 before
    any update, the KL to the reference model is above 0 at the first step, and clipping acts on noise.

    ## Example
    ```python
    LoraConfig(r=16, lora_dropout=0.1)
    GRPOConfig(num_generations=8)
    ```
    Info: Dropout (0.1) is on while log-probabilities are computed.

    ```python
    LoraConfig(r=16, lora_dropout=0.0)
    GRPOConfig(num_generations=8)
    ```
    No finding.

    ## Known false alarms
    LoRA recipes with a dropout of 0.05 or 0.1 train well, because the noise is small. Trainers that compute
    log-probabilities in eval mode are not affected.

    ## Remedy
    Set `disable_dropout=True` (TRL), or set LoRA dropout to 0.

    ## Sources
    huggingface/trl#3500; TRL `disable_dropout` (off by default).
    """
    largest = fmax(fmax(lora, plain), attention)
    active = ~(disabled == 1)
    return fires(
        active & (largest > 0),
        "Dropout ({largest:.2g}) is on while log-probabilities are computed.",
        warning=active & (fmax(plain, attention) > strong) & ~is_any(framework, "hand-written trainer"),
        largest=largest,
    )
