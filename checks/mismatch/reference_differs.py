from grpo_doctor import Fires, check, fires
from grpo_doctor.diagnosis.wording import number
from grpo_doctor.series import Column, each, words
from grpo_doctor.series.mismatch_parts import effect_of, share_of


@check(
    "MIS011",
    kind="defect",
    severity="error",
    confidence="high",
)
def reference_differs(
    mismatch_causes: Column,
    *,
    least: float = 0.5,
) -> Fires:
    """The reference model is not the initial policy.

    ## What it sees
    The check fires if, in a token batch from before the first update, reference model and policy differ (KL above 0.002
    nats per token). The KL is estimated as the mean of exp(x) - 1 - x over tokens (k3), where x is the log-probability
    difference. The check also fires if the log-probabilities of both models are exactly equal in a later batch.

    ## Thresholds
    - `least`: indicator of a wrong reference model, 0 or 1, above which the check fires.

    ## Why it matters
    The KL term pulls the policy towards a different model, or does nothing if the reference model is the policy
    itself.

    ## Example
    ```text
    mismatch_causes: {"reference": [1.0, 0.1]}
    rollout_mismatch_kl: 0.01
    ```
    Error at step 1: Before any update, the reference model differs from the policy by 0.1 nats/token.

    ```text
    mismatch_causes: {}
    rollout_mismatch_kl: 0.0001
    ```
    No finding.

    ## Known false alarms
    A reference model may differ by design, or may just have been reset to the policy.

    ## Remedy
    Load the reference model from the checkpoint from which training starts. With an adapter, disable the adapter for
    the forward pass of the reference model.

    ## Sources
    huggingface/trl#3500; derived; batch `reference` of benchmarks/mismatch.md.
    """
    k3 = each(effect_of("reference"), mismatch_causes)
    return fires(
        each(share_of("reference"), mismatch_causes) > least,
        "{what}",
        hold=(1, 1),
        what=words(_what, k3),
        k3=k3,
    )


def _what(k3: float) -> str:
    if k3 > 0:
        return f"Before any update, the reference model differs from the policy by {number(k3)} nats/token."
    return "After updates, the reference model gives exactly the policy's log-probabilities."
