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
    """The learning rate is above the range in which preference training works.

    ## What it sees
    DPO, KTO, CPO, IPO and SimPO. Full fine-tuning, or no adapter declared: above 5e-6 is an info, 2e-5 and more is a
    warning where full fine-tuning is known. LoRA: 5e-4 and more is a warning. ORPO and reward models, which train at
    1e-5, are left out.

    ## Thresholds
    - `full_info`: rate of full fine-tuning above which it is an info.
    - `full_warning`: rate of full fine-tuning from which it is a warning.
    - `adapter_warning`: rate of LoRA from which it is a warning.

    ## Why it matters
    The loss only asks for a margin. Large steps make it by lowering the rejected response far, and the chosen one
    with it: the model repeats itself or writes noise while accuracy and margin look perfect.

    ## Known false alarms
    Small models and short runs; LoRA at 5e-5 to 2e-4 is common and left out.

    ## Remedy
    5e-7 to 1e-6 (full), 5e-6 to 5e-5 (LoRA).

    ## Sources
    princeton-nlp/SimPO (3e-7 to 1e-6; 1e-5 degenerates); huggingface/alignment-handbook (5e-7 full, 5e-6 QLoRA); TRL
    KTO documentation (at most 1e-6 at beta 0.1).
    """
    paired = is_any(method, "dpo", "kto", "cpo", "ipo", "simpo") & (each(steps_otherwise, optimizer) == 0)
    full = paired & ~(lora > 0) & (rate > full_info)
    adapter = paired & (lora > 0) & (rate >= adapter_warning)
    return fires(
        full | adapter,
        "A learning rate of {rate:.2g} is above what preference training tolerates.",
        hold=(1, 1),
        warning=adapter | (full & (lora == 0) & (rate >= full_warning)),
        rate=rate,
    )
