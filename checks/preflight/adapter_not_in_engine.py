from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, where


@check("CFG057", severity="warning", confidence="medium")
def adapter_not_in_engine(
    lora: Column = any_of("settings.use_peft", "settings.lora_r"),
    known: Column = any_of("settings.engine_load", "settings.sleep_level"),
    load: Column = any_of("settings.engine_load", optional=True),
    sleep: Column = any_of("settings.sleep_level", optional=True),
    layered: Column = any_of("settings.layered_summon", optional=True),
) -> Fires:
    """The rollout engine does not receive the base weights that the adapter needs.

    ## What it sees
    The check fires if a run uses LoRA, and the engine loads dummy weights or uses sleep level 2 without layered summon.

    ## Why it matters
    With LoRA, only the adapter is sent to the engine. If the base weights are random (`load_format=dummy`) or were
    discarded (sleep level 2), the responses come from a model other than the trained one.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.lora_rank=32 \\
      actor_rollout_ref.rollout.load_format=dummy
    ```
    Warning: The rollout engine loads dummy weights, but with LoRA the trainer sends it only the adapter.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.lora_rank=32 \\
      actor_rollout_ref.rollout.load_format=safetensors
    ```
    No finding.

    ## Known false alarms
    Some versions send the base weights once at startup.

    ## Remedy
    Set `load_format=safetensors`, sleep level 1, or `layered_summon=True`.

    ## Sources
    verl documentation on LoRA (`load_format=safetensors` is required); vllm-project/vllm#29341 (sleep level 2).
    """
    dummy = is_any(load, "dummy", "dummy_hf", "dummy_megatron", "dummy_dtensor")
    asleep = (sleep >= 2) & ~(layered == 1)
    return fires(
        (known == known) & (lora > 0) & (dummy | asleep),
        "The rollout engine {what}, but with LoRA the trainer sends it only the adapter.",
        what=where(dummy, "loads dummy weights", "discards its weights when it sleeps (level 2)"),
    )
