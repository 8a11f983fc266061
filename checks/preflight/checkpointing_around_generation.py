from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, isnan


@check("CFG010", severity="info")
def checkpointing_around_generation(
    checkpointing: Column = any_of("settings.gradient_checkpointing"),
    vllm: Column = any_of("settings.use_vllm", optional=True),
    trainer: Column = any_of("settings.per_device_train_batch_size", "settings.scale_rewards", optional=True),
    engine: Column = any_of("settings.rollout_engine", optional=True),
    mode: Column = any_of("generation_training_mode", "generation_checkpointing", optional=True),
) -> Fires:
    """Gradient checkpointing is on, and nothing says that generation runs without it.

    ## What it sees
    A declared `gradient_checkpointing` in a run that declares neither vLLM, another engine for rollouts, nor the
    settings of a TRL trainer, and does not record the model's state while it generates.

    ## Why it matters
    In train mode with checkpointing on, transformers drops the KV cache inside each layer while `generate` still
    feeds only the newest token: the first token is right and the rest is noise. It looks like a collapse caused by
    updates and is none (GEN001, the cause of the P30 run).

    ## Known false alarms
    Every hand-written trainer that calls `eval()` before it generates. This is a reminder, nothing else.

    ## Remedy
    `model.eval(); model.gradient_checkpointing_disable()` around generate, restored after, or `use_cache=False`.

    ## Sources
    huggingface/transformers#36051, huggingface/trl#3683; beita6969/colab-grpo.
    """
    return fires(
        (checkpointing == 1) & ~(vllm == 1) & isnan(trainer) & isnan(engine) & ~(mode == mode),
        "Gradient checkpointing is on, and nothing records whether generation runs without it.",
        hold=(1, 1),
    )
