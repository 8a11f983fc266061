from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import is_mixture, is_on, sequence_level, uncorrected
from grpo_doctor.series import Column, each


@check("CFG048", severity="info", confidence="medium")
def router_differs_in_rollouts(
    model: Column = any_of("settings.model"),
    apart: Column = any_of("settings.rollout_engine_apart"),
    choice: Column = any_of("settings.rollout_engine_optional", optional=True),
    vllm: Column = any_of("settings.use_vllm", optional=True),
    replay: Column = any_of("settings.routing_replay", optional=True),
    level: Column = any_of("settings.importance_sampling_level", optional=True),
    loss: Column = any_of("settings.loss_type", optional=True),
    estimator: Column = any_of("settings.adv_estimator", "settings.algorithm", optional=True),
    correction: Column = any_of("settings.importance_correction", optional=True),
    updates: Column = any_of("settings.updates_per_rollout", optional=True),
    lag: Column = any_of("settings.async_level", optional=True),
    corrects: Column = any_of("settings.corrects_mismatch", "settings.handles_staleness", optional=True),
) -> Fires:
    """The policy is a mixture of experts, and engine and trainer may select different experts.

    ## What it sees
    The check fires if the model's name indicates a mixture of experts (`30B-A3B`, Mixtral, gpt-oss, DeepSeek-V3, ...).
    In addition, the run must have a separate rollout engine, no routing replay, and token-level ratios. Severity is
    **warning** if rollouts are also asynchronous or reused for several updates, and no correction of the ratio is
    declared.

    ## Why it matters
    Small numerical differences between engine and trainer change which experts are selected. If the experts differ, the
    probability of a token differs by a large factor, and token-level ratios clip or amplify the wrong tokens. Runs in
    which engine and trainer select different experts drift and then collapse.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B-Base
    ```
    Warning: A mixture-of-experts model is trained with token-level ratios and without routing replay.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
      actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B-Base \\
      actor_rollout_ref.actor.router_replay.mode=R3
    ```
    No finding.

    ## Known false alarms
    Runs with one update per rollout, a small learning rate and few steps often end well. The name of a dense model may
    look like the name of a mixture of experts. The router may be frozen, so that it selects the same experts.

    ## Remedy
    Use routing replay (R2 or R3), sequence-level ratios (GSPO), or an importance-sampling correction.

    ## Sources
    arXiv 2510.11370 (R3); arXiv 2510.23027; arXiv 2507.18071 (GSPO); NVIDIA/Megatron-LM#4168 (3 of 3 baseline runs
    collapsed).
    """
    mixture = (each(is_mixture, model) > 0) & (apart == 1) & (~(choice == 1) | (vllm == 1))
    bare = mixture & ~(each(is_on, replay) > 0) & ~sequence_level(level, loss, estimator)
    return fires(
        bare,
        "A mixture-of-experts model is trained with token-level ratios and without routing replay.",
        warning=bare & ((updates > 1) | (lag > 0)) & uncorrected(correction, corrects),
    )
