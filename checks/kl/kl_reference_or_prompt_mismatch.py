import math

from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, Trend, baseline, each, is_any, isnan, latest, row, where, words


@check(
    "KL006",
    vital=True,
    kind="risk",
    severity="warning",
    confidence="medium",
    explains=("KL001",),
    explains_from="error",
    invalidates=("the KL penalty: it pulls the policy towards a model that the run did not start from",),
)
def kl_reference_or_prompt_mismatch(
    step: Column,
    known: Column = any_of("kl", "kl_sequence"),
    kl: Column = None,
    kl_sequence: Column = None,
    rows_are: Column = any_of("settings.rows", optional=True),
    adapter: Column = any_of("settings.use_peft", "settings.lora_r", optional=True),
    teacher: Column = any_of("settings.teacher", optional=True),
    in_loss: Column = any_of("settings.use_kl_loss", optional=True),
    in_reward: Column = any_of("settings.use_kl_in_reward", optional=True),
    reward_trend: Trend = None,
    success_solved: Column = None,
    epoch: Column = None,
    *,
    warn: float = 2e-2,
    warn_summed: float = 1.0,
    back: float = 0.9,
    far: float = 1.5,
    absurd: float = 10.0,
    into: float = 0.1,
) -> Fires:
    """The KL is far from 0 before any update, so the policy and the reference model are scored differently.

    ## What it sees
    The check uses the KL of the first row if the log starts at step 0 or 1.

    - Severity is **warning** if the KL of the first row is above 0.02 nats per token, and **error** if it is above 10.
      If only the KL per response is logged, severity is **warning** if the first KL is above 1 nat.
    - Once the reward has improved or the task is solved, severity is **info** for a first KL of up to 1.5 nats per
      token.
    - If each row is a mean over an epoch (`rows = epochs`), the first row includes many updates. For means over epochs,
      severity is **warning**, with low confidence, once the KL falls below 90% of its first value. A policy that starts
      at its reference model would instead move away from it.
    - If a log starts at a later step, severity is **warning** if the first KL is above 1.5 and the KL falls. Severity
      is **error** if the first KL is above 10 and the KL falls.

    A log with a single row is not judged if the row comes after the first tenth of an epoch. Single values without a
    step or an epoch (`rows = unnumbered`) are not judged.

    ## Thresholds
    - `warn`: KL of the first row, nats per token, above which the severity is warning.
    - `warn_summed`: KL of the first row, nats per response, above which the severity is warning.
    - `back`: ratio of the KL to its first value below which the KL counts as fallen.
    - `far`: KL of the first row, nats per token, above which the severity is warning even in a run that learns, or
      whose log starts late.
    - `absurd`: KL of the first row, nats per token, above which the severity is error; a supervised stage moves the
      policy less far.
    - `into`: fraction of an epoch after which a single row is probably not the first row of its run.

    ## Why it matters
    At the start, the policy **is** the reference model, so the KL is 0 by definition (below 1e-6 in float32 and 1e-4 in
    bf16). Possible causes of a larger KL are a different prompt format, a double BOS, dropout, a different mask,
    quantisation, or different weights. The adapter may also still be active in the reference model. With a wrong
    reference model, the penalty pulls the policy towards the wrong model.

    ## Example
    ```text
    kl: 1.5 1.6 1.6
    ```
    Warning at step 1: The KL to the reference model was 1.5 nats/token on the first row, so the policy differed from
    its reference model or was scored differently.

    ```text
    kl: 0 0.001 0.002
    ```
    No finding.

    ## Known false alarms
    In on-policy distillation, the reference model is a teacher, and public runs start at 0.5 to 0.9 nats. If a teacher
    is declared, the severity is info. Severity is also info if a run declares no KL term, because the logged KL is then
    the distance to a different model. With LoRA, the reference is the base model, so a run that starts from a
    supervised adapter starts with a KL above 0. If an adapter is declared, the severity is info for a KL of up to 10
    nats. If the log is written after the updates, the first update of a small model already gives a KL of about 0.01
    nats. The log of a resumed run looks like that of a run that starts far from its reference model.

    ## Remedy
    Build the token ids once, and pass ids instead of text. Use eval mode for both models, and disable the adapter in
    the reference model.

    ## Sources
    huggingface/trl#3500 (dropout), #3520 (BOS); NVIDIA-NeMo/RL#855 (double BOS); BoBaCai/grpo-dual, bug 3.
    jianghoucheng/Agent_On_Policy_Distillation (a teacher: 0.55 to 0.83 on the first row).
    CodeX-Addy/Fine-Tuning-LLM, RLHF_PPO.ipynb (29 nats per response on the first row, dropout in both models).
    """
    first, summed, began = baseline(kl, 1), baseline(kl_sequence, 1), baseline(step, 1)
    epochs = is_any(rows_are, "epochs")
    begins = (began <= 1) & ~((row(known) == 1) & ((epoch > into) | is_any(rows_are, "unnumbered")))
    start = begins & ~epochs
    nears = (began <= 1) & epochs & (latest(kl) < back * first)
    falls = (began > 1) & (first > far) & (latest(kl) < back * first)
    per_response = isnan(first)
    away = ((start | nears) & (first > warn)) | falls | (start & per_response & (summed > warn_summed))
    distils = each(lambda name: isinstance(name, str) and name.lower() not in ("", "none", "null"), teacher) > 0
    excused = ((adapter > 0) & ~(first > absurd)) | distils | ((in_loss == 0) & (in_reward == 0))
    learns = ((reward_trend.gained & ~reward_trend.fallen) | success_solved) & (first <= far)
    return fires(
        away & ~excused & ~learns,
        "The KL to the reference model was {first:.3g} nats/{per} {where}.",
        hold=(1, 1),
        clear=1,
        info=away,
        error=(start | falls) & (first > absurd) & ~excused,
        confidence=where(epochs, "low", "medium"),
        onset=began,
        where=words(_where, began, where(epochs | falls, kl, math.nan)),
        first=where(per_response, summed, first),
        per=where(per_response, "response", "token"),
    )


APART = "so the policy differed from its reference model or was scored differently"


def _where(began: float, kl: float) -> str:
    if kl == kl:
        over = "over the first epoch" if began <= 1 else f"on the first row (step {began:.0f})"
        return f"{over} and fell to {number(kl)}, {APART}"
    return f"on the first row, {APART}"
