from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import steps_otherwise
from grpo_doctor.series import Column, best, each, previous, where


@check("CFG054", severity="info", confidence="low", run_types=("rl", "preference"))
def learning_rate_too_low(
    learning_rate: Column = any_of("settings.learning_rate", "learning_rate"),
    lora: Column = any_of("settings.use_peft", "settings.lora_r", "settings.use_lora"),
    declared: Column = any_of("settings.learning_rate", optional=True),
    optimizer: Column = any_of("settings.optimizer", "settings.optim", optional=True),
    *,
    adapter_info: float = 2e-6,
    adapter_warning: float = 5e-7,
    full_info: float = 2e-7,
    full_warning: float = 1e-7,
    warmup_steps: int = 10,
) -> Fires:
    """The learning rate is so low that the policy barely changes.

    ## What it sees
    For LoRA, severity is **info** at a rate of 2e-6 or less, and **warning** at 5e-7 or less. A recorded learning rate
    counts only after ten rows on which it has not increased. For declared full fine-tuning, severity is **info** at
    2e-7 or less, and **warning** at 1e-7 or less. The check skips runs that do not declare whether they train an
    adapter, and optimizers whose steps differ from Adam's.

    ## Thresholds
    - `adapter_info`: learning rate of LoRA up to which the severity is info.
    - `adapter_warning`: learning rate of LoRA up to which the severity is warning.
    - `full_info`: learning rate of full fine-tuning up to which the severity is info.
    - `full_warning`: learning rate of full fine-tuning up to which the severity is warning.
    - `warmup_steps`: number of rows without an increase in the learning rate after which the warm-up counts as over.

    ## Why it matters
    In each step, Adam moves each weight by about the learning rate. At 1e-7, a thousand steps move a weight by at most
    1e-4. A change of 1e-4 is smaller than the resolution of bfloat16 for weights near 0.1, so updates are lost to
    rounding.

    ## Example
    ```python
    GRPOConfig(num_generations=8, learning_rate=1e-8)
    ```
    Warning: The learning rate (1e-08) is too low to train the policy.

    ```python
    GRPOConfig(num_generations=8, learning_rate=1e-6)
    ```
    No finding.

    ## Known false alarms
    Very large models are trained for many steps at 1e-7 to 5e-7. SimPO-style preference training works at 3e-7.

    ## Remedy
    Set the learning rate to 1e-6 for full fine-tuning or 1e-5 for LoRA.

    ## Sources
    huggingface/trl#2872; huggingface/trl PR 4207 (LoRA 1e-5, full 1e-6).
    """
    rate = best(learning_rate)
    adam = (each(steps_otherwise, optimizer) == 0) & (rate > 0)
    settled = (rate == previous(rate, warmup_steps)) | (rate == declared)
    adapter = (lora > 0) & settled & (rate <= adapter_info)
    full = (lora == 0) & (rate == declared) & (rate <= full_info)
    return fires(
        adam & (adapter | full),
        "The learning rate ({rate:.2g}) is too low to train {what}.",
        hold=(1, 1),
        warning=adam & ((adapter & (rate <= adapter_warning)) | (full & (rate <= full_warning))),
        rate=rate,
        what=where(adapter, "an adapter", "the policy"),
        too_low=1,
    )
