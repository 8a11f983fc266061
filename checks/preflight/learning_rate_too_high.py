from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import steps_otherwise
from grpo_doctor.preflight.model_size import billions
from grpo_doctor.series import Column, best, each, isnan


@check(
    "CFG002",
    severity="info",
    explains=(
        *("KL001", "KL008", "GRD001", "GRD002", "GRD009", "ENT001", "ENT003", "LEN001", "REW009", "STL001", "PRF003"),
    ),
    explains_from="warning",
    run_types=("rl", "preference"),
)
def learning_rate_too_high(
    learning_rate: Column = any_of("settings.learning_rate", "learning_rate"),
    lora: Column = any_of("settings.use_peft", "settings.lora_r", "settings.use_lora", optional=True),
    known: Column = any_of("settings.use_peft", "settings.lora_r", "settings.use_lora", "kl", "grad_norm"),
    model: Column = any_of("settings.model", "settings.model_name_or_path", optional=True),
    optimizer: Column = any_of("settings.optimizer", "settings.optim", optional=True),
    kl: Column = None,
    grad_norm: Column = None,
    *,
    full_info_rate: float = 1e-5,
    full_warning_rate: float = 5e-5,
    highest_adapter_rate: float = 1e-3,
    large_model_billions: float = 0.1,
    flies_kl: float = 1.5,
    flies_norm: float = 20.0,
) -> Fires:
    """The learning rate is above the usual range for this kind of training.

    ## What it sees
    The check uses the highest learning rate so far, or the declared learning rate. The limits for full fine-tuning
    apply to models with at least 0.1 billion parameters (by name). Severity is **info** above 1e-5. Severity is
    **warning** at 5e-5 (the default of supervised training) or above. For LoRA, severity is **warning** at 0.001 or
    above, unless the model is known to have fewer than 0.1 billion parameters. The limit of 0.001 also applies if it is
    unknown whether the run trains an adapter. If the log does not show whether the run trains an adapter, the KL must
    also exceed 1.5 nats per token, or the gradient norm 20. Optimizers whose steps differ from Adam's (SGD, SAM, Muon,
    Prodigy, D-Adaptation, Lion, Shampoo, SOAP) are not checked.

    ## Thresholds
    - `full_info_rate`: learning rate of full fine-tuning above which the severity is info.
    - `full_warning_rate`: learning rate of full fine-tuning at or above which the severity is warning.
    - `highest_adapter_rate`: learning rate of LoRA at or above which the severity is warning.
    - `large_model_billions`: number of parameters, in billions, from which the limits apply to a model.
    - `flies_kl`: KL, in nats per token, that must be exceeded if it is unknown whether the run trains an adapter.
    - `flies_norm`: gradient norm that must be exceeded, instead of `flies_kl`, if it is unknown whether the run trains
      an adapter.

    ## Why it matters
    In each step, Adam moves each weight by about the learning rate. Full fine-tuning works at 5e-7 to 3e-6 (1e-6 is the
    default of TRL, verl and OpenRLHF). LoRA works at 5e-6 to 5e-5, because its product of two small matrices needs a
    higher rate.

    ## Example
    ```python
    GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=GRPOConfig(learning_rate=5e-5))
    ```
    Warning: The learning rate of 5e-05 is above the usual range (5e-07 to 3e-06).

    ```python
    GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=GRPOConfig(learning_rate=1e-6))
    ```
    No finding.

    ## Known false alarms
    Three public runs at 4e-5 learn well (final scores of 88%, 75% and 78%). Severity is therefore at most **warning**:
    a setting alone does not prove that a run fails. Small models and models trained from scratch need much higher
    learning rates, and are excluded by their size. The official examples of AReaL (1.7e-5) and open-r1 (2e-5) are above
    the usual range. STL003 judges the actual size of a step. CFG054 reports learning rates that are too low.

    ## Remedy
    In TRL, set `learning_rate=1e-6` (`1e-5` for LoRA). In verl, set `actor.optim.lr=1e-6`. In OpenRLHF, set
    `--actor.learning_rate 1e-6`.

    ## Sources
    TRL, verl and OpenRLHF defaults; TRL notes on LoRA; jjyaoao/HelloAgents#108 (5e-5 kept from the supervised stage);
    ShibukiZero/assignment5-alignment.
    """
    peak = best(learning_rate)
    adam = each(steps_otherwise, optimizer) == 0
    size = each(billions, model)
    high = adam & (lora == 0) & (peak > full_info_rate) & (size >= large_model_billions)
    flies = isnan(lora) & ((best(kl) > flies_kl) | (best(grad_norm) > flies_norm))
    wild = adam & ((lora > 0) | flies) & (peak >= highest_adapter_rate) & ~(size < large_model_billions)
    return fires(
        high | wild,
        "The learning rate of {peak:.2g} is above the usual range ({low:g} to {top:g}).",
        hold=(1, 1),
        warning=wild | (high & (peak >= full_warning_rate)),
        peak=peak,
        low=5e-7 + ~(lora == 0) * 4.5e-6,
        top=3e-6 + ~(lora == 0) * 4.7e-5,
    )
