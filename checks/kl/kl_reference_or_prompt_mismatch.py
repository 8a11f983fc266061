import numpy as np

from grpo_doctor import Fires, Rival, any_of, check, fires
from grpo_doctor.remedies import remedy
from grpo_doctor.stats import Column, baseline, each, latest, words


@check(
    "KL006",
    severity="warning",
    confidence="medium",
    explains=("KL001",),
    rivals=(
        Rival(
            "measured after updates",
            "a log that averages a step with several updates, or writes after them",
            "the KL of the first minibatch alone, before optimizer.step",
        ),
        Rival("dropout", "two forward passes in train mode never agree", "disable_dropout=True"),
        Rival("a quantised or older reference", "its weights are not those of the policy", "hash both state dicts"),
    ),
    remedies=(
        remedy(
            "same-ids-for-reference",
            "Score the reference on the very same ids, mask and mode as the policy",
            trl="disable_dropout=True; let GRPOTrainer build the reference (with LoRA it disables the adapter)",
            verl="one data batch for both log-prob passes; actor and ref from the same model path",
            openrlhf="the same --pretrain for actor and reference",
            by_hand="with torch.no_grad(): ref(input_ids, attention_mask=mask), the policy's own tensors, eval mode; "
            "with LoRA: with model.disable_adapter()",
            evidence="KL at step 1: exactly 0 healthy, 0.03 with a half-trained reference, 3.57 with a raw one",
            source="faults ref_other and ref_raw of the throw-away engine; huggingface/trl#3500, #3520; NeMo-RL#855",
        ),
    ),
    invalidates=("the KL penalty: it pulls towards a policy that the run did not start from",),
)
def kl_reference_or_prompt_mismatch(
    kl: Column,
    step: Column,
    rows_are: Column = any_of("settings.rows", optional=True),
    *,
    warn: float = 2e-2,
    bad: float = 0.5,
    back: float = 0.9,
) -> Fires:
    """The KL is far from zero before anything was learnt, so policy and reference are not scored alike.

    ## What it sees
    The KL of the run's first row, if that is step 0 or 1: warning above 0.02 nats per token, error above 0.5. Where a
    row is the mean over an epoch (`rows = epochs`) the first one holds many updates: a warning of low confidence, once
    the KL has fallen below 90 % of it, for a policy that starts at its reference moves away and not towards it.

    ## Why it matters
    At the start the policy **is** the reference, so their KL is 0 by identity (below 1e-6 in float32, 1e-4 in bf16).
    Anything else was not learnt: another prompt format or a doubled BOS, dropout, an adapter left on in the
    reference, another mask, quantisation, or other weights. The penalty then pulls towards the wrong place.

    ## Known false alarms
    Logs that write after the updates of the step: one update moves a small model by about 0.01. Logs that begin
    later than step 1 are not judged. Sums over the sequence are not read as this field.

    ## Remedy
    Build ids once and pass ids, not text; eval mode for both; disable the adapter for the reference.

    ## Sources
    huggingface/trl#3500 (dropout), #3520 (BOS); NVIDIA-NeMo/RL#855 (double BOS); founding document 3, bug 3.
    """
    first, began = baseline(kl, 1), baseline(step, 1)
    epochs = each(lambda unit: unit == "epochs", rows_are) > 0
    start = (began <= 1) & ~epochs
    nears = (began <= 1) & epochs & (latest(kl) < back * first)
    return fires(
        (start | nears) & (first > warn),
        "The KL to the reference was {first:.3g} nats per token {where}.",
        hold=(1, 1),
        error=start & (first > bad),
        confidence="low" if np.all(epochs) else None,  # a setting: the same on every row
        onset=began,
        where=words(_where, np.where(epochs, kl, np.nan)),
        first=first,
    )


def _where(kl: float) -> str:
    if kl == kl:
        return f"over the first epoch and fell to {kl:.3g}: the run did not start from its reference"
    return "on the first row, where policy and reference are the same"
