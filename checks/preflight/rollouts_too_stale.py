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
    """Responses may be older than the loss tolerates.

    ## What it sees
    Policy versions between rollout and update, as declared: more than 4 with a plain clipped loss is a warning, more
    than 8 is an info whatever the loss.

    ## Thresholds
    - `plain_above`: versions above which a plain loss is biased.
    - `corrected_above`: versions above which a corrected loss loses accuracy too.

    ## Why it matters
    The ratio between the current policy and the one that wrote the responses leaves the clip bounds, most of the
    batch stops contributing, and what remains is biased.

    ## Known false alarms
    A limit that is never reached, because the engine is fast. Trainers that correct for staleness without a setting.

    ## Remedy
    Staleness 1 to 4, or a decoupled or truncated importance-sampling loss.

    ## Sources
    arXiv 2505.24298 (AReaL, staleness ablation); arXiv 2510.01161; thinking-machines-lab/tinker-cookbook#822.
    """
    plain = (staleness > plain_above) & ~(each(is_on, correction) > 0) & ~(handles == 1)
    return fires(
        plain | (staleness > corrected_above),
        "Responses may be {staleness:.0f} policy versions old.",
        hold=(1, 1),
        warning=plain,
        staleness=staleness,
    )
