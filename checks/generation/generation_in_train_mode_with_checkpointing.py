import math
from typing import Any

from grpo_doctor import Finding, Fires, check, conclude, fires
from grpo_doctor.diagnosis.lab_results import of_lab
from grpo_doctor.series import COLLAPSED, Column, baseline, each, latest, row, total, where

_WARNING = "Caching is incompatible with gradient checkpointing"
_PROOF = "the generation mode, not the optimisation, breaks the rollouts"


@check(
    "GEN001",
    kind="defect",
    severity="critical",
    confidence="high",
    explains=(
        *(
            "UPD001",
            "UPD003",
            "UPD004",
            "UPD006",
            "UPD007",
            "GEN003",
            "DIV004",
            "REW009",
            "REW015",
            "REW010",
            "RAT003",
            "RAT004",
        ),
        *("ENT003", "KL001", "LEN001", "LEN002", "LEN003", "STL001", "PAD005", "DIV001", "DIV003"),
    ),
    withholds={
        "raise-group-size": _PROOF,
        "drop-std-normalisation": _PROOF,
        "lower-learning-rate": _PROOF,
        "temperature-one": f"{_PROOF}; {of_lab('train-mode-generation', 'temperature-one')}",
    },
    invalidates=(
        "rewards of every rollout after an update since step {onset}",
        "checkpoints since step {onset}: trained on garbage, so roll back or re-evaluate them in eval mode",
    ),
)
def generation_in_train_mode_with_checkpointing(
    events: Column,
    invalid_rate: Column = None,
    generation_training_mode: Column = None,
    generation_checkpointing: Column = None,
    rollout_mismatch_raw_kl: Column = None,
    *,
    agrees: float = 1e-4,
    within: int = 3,
) -> Fires:
    """Responses are generated in train mode with gradient checkpointing on, which drops the KV cache.

    ## What it sees
    The check fires if the log contains the warning of transformers that gradient checkpointing drops `past_key_values`.
    The rollout of the same step or of the next two steps must also have collapsed (at least 90% invalid). The check
    also fires if the model was logged in train mode with gradient checkpointing on during generation. The logged mode
    proves the cause only if the raw log-probabilities of rollout engine and trainer disagree, or are not recorded.
    Without proof in the log, the check infers the cause, with medium confidence, from the findings UPD001, UPD003 and
    UPD007. UPD001 reports collapses after updates. UPD003 reports recoveries without an update. UPD007 reports a
    collapse after an update that did not change the weights.

    ## Thresholds
    - `agrees`: maximum KL (nats per token) at which the raw log-probabilities of rollout engine and trainer count as
      equal. The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
      difference.
    - `within`: number of rows, starting with the row of the warning, within which a collapsed rollout proves the cause.

    ## Why it matters
    If a model is in train mode with gradient checkpointing on, transformers drops the cache inside every layer.
    `generate` still passes only the newest token. The first token is correct, but every later token is predicted from a
    single token. A trainer that calls `model.train()` for the update, but not `eval()` before the next rollout,
    alternates between garbage and valid output. If every rollout is broken, the policy adapts to the broken generation.

    ## Example
    ```text
    valid_rate: 1x4
    generation_training_mode: 0 0 1 1
    generation_checkpointing: 1x4
    ```
    Critical at step 3: Responses are generated in train mode with gradient checkpointing on. The KV cache is dropped,
    and everything after the first token is garbage.

    ```text
    valid_rate: 1x4
    generation_training_mode: 0x4
    generation_checkpointing: 1x4
    ```
    No finding.

    ## Known false alarms
    The warning alone is harmless, because newer versions of transformers also print it in the forward pass of training.
    The check therefore requires a collapsed rollout. Rollouts by vLLM and SGLang are not affected.
    `generate(use_cache=False)` is slow but correct.

    ## Remedy
    Before generation, call `eval()` and turn off gradient checkpointing. Restore both afterwards. Alternatively, pass
    `use_cache=False`. A larger K, a lower learning rate or different advantages do not help.

    ## Sources
    huggingface/transformers#36051 and #21737, huggingface/trl#3683; beita6969/colab-grpo's log, lines 1840 and 1877 of
    training_p30.log; in this mode, a tiny model generates the same tokens as in eval mode at 12.5% of the positions
    (100% of the first positions), and in every other mode at all positions.
    """
    collapsed = invalid_rate >= COLLAPSED
    dropped = each(_cache_dropped, events)
    line = baseline(where(dropped > 0, dropped, math.nan), 1)
    warned = row(events) - latest(where(dropped >= 0, row(events), math.nan)) < within
    recorded = (generation_training_mode == 1) & (generation_checkpointing == 1) & ~(rollout_mismatch_raw_kl <= agrees)
    broken = total((warned & collapsed) | recorded)
    return fires(
        broken > 0,
        "Responses are generated in train mode with gradient checkpointing on. The KV cache is dropped, and "
        "everything after the first token is garbage.",
        hold=(1, 1),
        line=line,
        broken_rollouts=total(collapsed),
    )


def _cache_dropped(events: Any) -> float:
    """Return the line of the warning that the cache was dropped: 0 if the line is unknown, NaN if there is no
    warning."""
    lines = [float(e.line or 0) for e in events or () if _WARNING in e.message]
    return max(lines, default=math.nan)


@conclude("GEN001")
def generation_mode_from_alternation(UPD001: Finding, UPD003: Finding, UPD007: Finding) -> Fires:
    """Collapses follow updates, recovery needs no update, and one collapse followed an update that changed no
    weight."""
    return fires(
        True,
        "Rollouts collapse after updates, even after an update that changed no weight, and recover without an "
        "update. Generation most likely runs in train mode with gradient checkpointing on.",
        confidence="medium",
        updates=UPD001.evidence["updates"],
        collapses=UPD001.evidence["collapses"],
        healed=UPD003.evidence["without"],
        placebo=UPD007.evidence["times"],
    )
