from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column, is_any, where


@check("CFG038", severity="info", confidence="high")
def mini_batch_not_whole_micro_batches(
    prompts: Column = any_of("settings.update_prompts"),
    group_size: Column = any_of("settings.group_size"),
    world: Column = any_of("settings.world_size"),
    micro: Column = any_of("settings.micro_responses"),
    refuses: Column = any_of("settings.refuses_uneven_micro_batch"),
    launched: Column = any_of("settings.by_command", optional=True),
    parallel: Column = any_of("settings.sequence_parallel", optional=True),
    dynamic: Column = any_of("settings.dynamic_batch", optional=True),
    strategy: Column = any_of("settings.strategy", optional=True),
    megatron: Column = any_of("settings.megatron", "settings.hydra_config", optional=True),
    apart: Column = any_of("settings.engine_nodes", optional=True),
) -> Fires:
    """The mini-batch per GPU is not divisible by the micro-batch size.

    ## What it sees
    The check covers verl and SkyRL with FSDP. The check fires if the mini-batch per data-parallel rank is smaller than
    one response, or is not divisible by the micro-batch size per GPU. Severity is info for a configuration file,
    because the command line usually overrides the number of GPUs.

    ## Why it matters
    SkyRL stops with an assertion error at startup, and verl stops with one after the model is loaded.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
      actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=8 \\
      actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=48
    ```
    Error: The mini-batch per GPU (64 responses) is not divisible by the micro-batch size (48).

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\
      actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=8 \\
      actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32
    ```
    No finding.

    ## Known false alarms
    No false alarm is known. Megatron, dynamic batches and engines on separate machines are not checked.

    ## Remedy
    Choose a micro-batch size that divides the mini-batch per GPU.

    ## Sources
    verl `workers/fsdp_workers.py` ("normalized ppo_mini_batch_size should be divisible by
    ppo_micro_batch_size_per_gpu"); PRIME-RL/TTRL#43; SkyRL `train/utils/utils.py`, `validate_batch_sizes`.
    """
    ranks = world / where(parallel > 1, parallel, 1)
    share = prompts * group_size / ranks
    share = share - share % 1
    plain = ~(dynamic == 1) & ~is_any(strategy, "megatron") & ~(megatron == megatron) & ~(apart > 0)
    uneven = ((share % micro != 0) | (share < 1)) & plain & (refuses == 1)
    return fires(
        uneven,
        "The mini-batch per GPU ({share:.0f} responses) is not divisible by the micro-batch size ({micro:.0f}).",
        error=uneven & (launched == 1),
        share=share,
        micro=micro,
    )
