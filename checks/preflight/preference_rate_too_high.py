from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import steps_otherwise
from grpo_doctor.series import Column, each, is_any


@check("CFG059", severity="info", confidence="medium", run_types=("preference",))
def preference_rate_too_high(
    rate: Column = any_of("settings.learning_rate"),
    method: Column = any_of("settings.algorithm", optional=True),
    lora: Column = any_of("settings.use_peft", "settings.lora_r", optional=True),
    optimizer: Column = any_of("settings.optimizer", "settings.optim", optional=True),
    *,
    full_info: float = 5e-6,
    full_warning: float = 2e-5,
    adapter_warning: float = 5e-4,
) -> Fires:
    """The learning rate is above the usual range for preference training.

    ## What it sees
    The check applies to DPO, KTO, CPO, IPO and SimPO. For full fine-tuning, or without a declared adapter, severity
    is **info** above 5e-6. Severity is **warning** at 2e-5 or more if full fine-tuning is declared. For LoRA, severity
    is **warning** at 5e-4 or more. ORPO and reward models, which train at 1e-5, are not checked.

    ## Thresholds
    - `full_info`: learning rate of full fine-tuning above which the severity is info.
    - `full_warning`: learning rate of full fine-tuning at or above which the severity is warning.
    - `adapter_warning`: learning rate of LoRA at or above which the severity is warning.

    ## Why it matters
    The loss depends only on the margin. A large step widens the margin by making the rejected response much less
    likely, and the chosen response also becomes less likely. After such steps, the model repeats itself or generates
    noise, while accuracy and margin look perfect.

    ## Example
    ```python
    DPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=DPOConfig(learning_rate=5e-5))
    ```
    Warning: The learning rate (5e-05) is above the usual range for preference training.

    ```python
    DPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=DPOConfig(learning_rate=5e-7))
    ```
    No finding.

    ## Known false alarms
    Small models and short runs tolerate higher rates. LoRA at 5e-5 to 2e-4 is common and is not reported.

    ## Remedy
    Set the learning rate to 5e-7 to 1e-6 for full fine-tuning, or to 5e-6 to 5e-5 for LoRA.

    ## Sources
    princeton-nlp/SimPO (3e-7 to 1e-6; 1e-5 degenerates); huggingface/alignment-handbook (5e-7 full, 5e-6 QLoRA); TRL
    KTO documentation (at most 1e-6 at beta 0.1).
    """
    paired = is_any(method, "dpo", "kto", "cpo", "ipo", "simpo") & (each(steps_otherwise, optimizer) == 0)
    full = paired & ~(lora > 0) & (rate > full_info)
    adapter = paired & (lora > 0) & (rate >= adapter_warning)
    return fires(
        full | adapter,
        "The learning rate ({rate:.2g}) is above the usual range for preference training.",
        warning=adapter | (full & (lora == 0) & (rate >= full_warning)),
        rate=rate,
    )
