from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.preflight.engine_facts import is_on
from grpo_doctor.series import Column, each


@check("CFG050", severity="info", confidence="low")
def rollouts_too_stale(
    staleness: Column = any_of("settings.async_level"),
    correction: Column = any_of("settings.importance_correction", optional=True),
    handles: Column = any_of("settings.handles_staleness", optional=True),
    *,
    plain_above: float = 4,
    corrected_above: float = 8,
) -> Fires:
    """Responses may be too old for the loss.

    ## What it sees
    For a plain clipped loss, severity is **warning** if the declared staleness is more than 4 policy versions between
    rollout and update. For any other loss, severity is **info** above 8 versions.

    ## Thresholds
    - `plain_above`: number of policy versions above which a plain clipped loss is biased.
    - `corrected_above`: number of policy versions above which a corrected loss is also biased.

    ## Why it matters
    The ratio between the current policy and the policy that generated the responses exceeds the clip bounds. Outside
    the clip bounds, tokens get no gradient, and the gradient of the other tokens is biased.

    ## Example
    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo async_training.staleness_threshold=8
    ```
    Warning: Responses may be up to 8 policy versions old.

    ```shell
    python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo async_training.staleness_threshold=1
    ```
    No finding.

    ## Known false alarms
    If the engine is fast, staleness may never reach the declared limit. Some trainers always correct for staleness.

    ## Remedy
    Lower the staleness to 1 to 4 versions, or use a decoupled or truncated importance-sampling loss.

    ## Sources
    arXiv 2505.24298 (AReaL, staleness ablation); arXiv 2510.01161; thinking-machines-lab/tinker-cookbook#822.
    """
    plain = (staleness > plain_above) & ~(each(is_on, correction) > 0) & ~(handles == 1)
    return fires(
        plain | (staleness > corrected_above),
        "Responses may be up to {staleness:.0f} policy versions old.",
        warning=plain,
        staleness=staleness,
    )
