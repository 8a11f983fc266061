from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("STL005", kind="defect", severity="error", explains=("STL001", "STL006", "KL003", "ENT011"))
def lora_b_zero(model: Any, render: Any, tokenizer: Any, step: Any, prompts: Any = None) -> Fires | None:
    """The lora_B matrices stay zero after updates, so the adapter has no effect.

    ## What it sees
    The probe makes two of the trainer's own steps, with advantages of both signs, and then reads every `lora_B` of the
    active adapter. The probe fires if all `lora_B` matrices are zero. A zero gradient of A at the first step is normal,
    because this gradient is proportional to B.

    ## Why it matters
    The policy remains the base model, regardless of the loss, and evaluation repeats the base model's scores.

    ## Example
    ```python
    import torch
    from my_trainer import loss, model, prompts, render, tokenizer
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW([p for name, p in model.named_parameters() if "lora_A" in name], lr=1e-2)
    ```
    Error: All 2 lora_B matrices are still zero after two updates.

    ```python
    import torch
    from my_trainer import loss, model, prompts, render, tokenizer
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies that B changes in training. The probe certifies neither that the adapter is active in the
    rollout (GEN002) nor that it is saved and loaded.

    ## Known false alarms
    Initialisations with a nonzero B (PiSSA, LoftQ) cannot trigger the finding. The probe does not judge models without
    LoRA.

    ## Remedy
    Enable gradients for B, and add B to the optimizer (STL004 names the missing parameters).

    ## Sources
    peft's default initialisation; item 5 of BoBaCai/grpo-dual's deep diagnosis.
    """
    matrices = [(name, p) for name, p in model.named_parameters() if "lora_B" in name]
    if not matrices:
        raise probes.NotApplicable("the model has no LoRA")
    made, _, responses = probes.crafted_inputs.answered(render, tokenizer, model, prompts)
    for _ in range(2):
        step(made, responses, probes.loss_trials.spread(len(made), model))
    zero = sum(not bool(p.detach().any()) for _, p in matrices)
    return fires(
        zero == len(matrices),
        "All {matrices} lora_B matrices are still zero after two updates.",
        matrices=len(matrices),
    )
