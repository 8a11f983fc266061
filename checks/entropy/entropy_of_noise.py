from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, isnan, recent_mean, where


@check("ENT013", kind="outcome", severity="warning", confidence="medium", explains=("REW001", "STL001", "LEN003"))
def entropy_of_noise(entropy_mean: Column, *, noise: float = 5.0, largest: float = 13.0) -> Fires:
    """The policy generates noise: its entropy equals that of a uniform choice among 150 or more tokens.

    ## What it sees
    Severity is **warning** if the token-mean entropy is above 5 nats. The check uses the mean over five rows, or each
    row if the log has fewer than five. The check does not compare with earlier rows. It therefore also works on the
    last lines of a log and on a run that starts from a broken checkpoint. ENT003 reports when entropy rose and whether
    the reward also fell.

    ## Thresholds
    - `noise`: entropy, nats per token, above which the output counts as noise. An entropy of 5 nats corresponds to 148
      equally likely tokens; the usual entropy of language models is 0.2 to 2 nats at temperature 1.
    - `largest`: entropy, nats per token, above which the value must be a sum over tokens; 13 is the logarithm of a
      vocabulary of 440,000 tokens.

    ## Why it matters
    Near-random responses contain no answer, so the reward is 0 and no gradient leads to recovery.

    ## Example
    ```text
    entropy_mean: 0.4 0.5 3.8 8
    ```
    Warning at step 4: Entropy is 8 nats/token, so the policy generates near-random text.

    ```text
    entropy_mean: 0.4 0.5 0.6 0.8
    ```
    No finding.

    ## Known false alarms
    A sampling temperature far above 1 also raises the entropy. The logged entropy may be in a different unit.

    ## Remedy
    If the entropy has been high since the first step, check that the model is pretrained and that its weights are
    loaded. Otherwise, roll back to a checkpoint from before the rise in entropy. Reset the optimizer state, remove the
    entropy bonus and halve the learning rate.

    ## Sources
    The public runs of ENT003 end at 4 to 8 nats; among 180 public logs, no healthy run exceeds 4.3 nats, and the run at
    4.3 is a character-level model.
    """
    lately = recent_mean(entropy_mean)
    entropy = where(isnan(lately), entropy_mean, lately)
    return fires(
        (entropy > noise) & (entropy <= largest),
        "Entropy is {entropy:.3g} nats/token, so the policy generates near-random text.",
        hold=(1, 1),
        clear=1,
        entropy=entropy,
    )
