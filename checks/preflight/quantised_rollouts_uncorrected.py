from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import is_on, is_quantised
from grpo_doctor.series import Column, each, isnan


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
    """Rollouts are sampled with quantised weights, and the loss takes them for the trainer's own.

    ## What it sees
    An engine apart from the trainer whose weights or KV cache are declared as FP8, INT8 or fewer bits (or a policy
    whose name ends so), and no importance-sampling correction.

    ## Why it matters
    The quantised engine samples from another distribution than the trainer's. Without a correction the gradient is
    biased, the gap grows from step to step, and the entropy or the reward collapses late.

    ## Known false alarms
    Trainers that correct for the engine without a setting. A policy that the trainer quantises in the same way.

    ## Remedy
    Truncated importance sampling at token level with a cap of 2, or bfloat16 rollouts.

    ## Sources
    verl-project/verl#7519; NeMo-RL documentation, FP8 (`use_importance_sampling_correction: true`).
    """
    small = (each(is_quantised, weights) > 0) | (each(is_quantised, cache) > 0) | (each(is_quantised, model) > 0)
    engine = (apart == 1) & (~(choice == 1) | (vllm == 1))
    return fires(
        small
        & engine
        & (precision == precision)
        & ~(each(is_on, correction) > 0)
        & ~((corrects == 1) & isnan(correction)),
        "Rollouts are sampled in quantised precision, and no importance-sampling correction is declared.",
        hold=(1, 1),
    )
