from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import is_quantised, uncorrected
from grpo_doctor.series import Column, each


@check("CFG049", severity="warning", confidence="medium")
def quantised_rollouts_uncorrected(
    precision: Column = any_of("settings.rollout_precision", "settings.cache_precision", "settings.model"),
    apart: Column = any_of("settings.rollout_engine_apart"),
    choice: Column = any_of("settings.rollout_engine_optional", optional=True),
    vllm: Column = any_of("settings.use_vllm", optional=True),
    weights: Column = any_of("settings.rollout_precision", optional=True),
    cache: Column = any_of("settings.cache_precision", optional=True),
    model: Column = any_of("settings.model", optional=True),
    correction: Column = any_of("settings.importance_correction", optional=True),
    corrects: Column = any_of("settings.corrects_mismatch", "settings.handles_staleness", optional=True),
) -> Fires:
    """Rollouts use quantised weights without an importance-sampling correction.

    ## What it sees
    The check fires if a separate rollout engine uses weights or a KV cache of 8 bits or fewer, and no
    importance-sampling correction is declared. The precision (FP8, INT8) is declared or is part of the model's name.

    ## Why it matters
    The quantised engine samples from a distribution that differs from the trainer's. Without a correction, the gradient
    is biased, the gap grows at every step, and entropy or reward collapses late in the run.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.quantization=fp8
    ```
    Warning: Rollouts are sampled with quantised weights without an importance-sampling correction.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.quantization=fp8 \\
      algorithm.rollout_correction.rollout_is=token
    ```
    No finding.

    ## Known false alarms
    Some trainers always apply a correction for the engine. Other trainers quantise the policy in the same way.

    ## Remedy
    Use token-level truncated importance sampling with a cap of 2, or bfloat16 rollouts.

    ## Sources
    verl-project/verl#7519; NeMo-RL documentation, FP8 (`use_importance_sampling_correction: true`).
    """
    small = (each(is_quantised, weights) > 0) | (each(is_quantised, cache) > 0) | (each(is_quantised, model) > 0)
    engine = (apart == 1) & (~(choice == 1) | (vllm == 1))
    return fires(
        small & engine & (precision == precision) & uncorrected(correction, corrects),
        "Rollouts are sampled with quantised weights without an importance-sampling correction.",
    )
