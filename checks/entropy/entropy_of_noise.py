from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, isnan, recent_mean, where


@check("ENT013", kind="outcome", severity="warning", confidence="medium", explains=("REW001", "STL001", "LEN003"))
def entropy_of_noise(entropy_mean: Column, *, noise: float = 5.0, largest: float = 13.0) -> Fires:
    """The policy generates noise: its entropy equals a uniform choice among 150 or more tokens at every position.

    ## What it sees
    A token-mean entropy above 5 nats, of five rows in the mean, or on any row while there are fewer: a **warning**. It
    asks for no rows before, so it holds for the last lines of a log, and for a run that began from a broken checkpoint.
    When it rose, and whether the reward went with it, is told by ENT003.

    ## Thresholds
    - `noise`: entropy, nats per token, above which no text is written: e^5 are 148 tokens of equal chance, where
      language models have 0.2 to 2 nats at a temperature of 1.
    - `largest`: entropy, nats per token, above which it is a sum: ln of a vocabulary of 440,000.

    ## Why it matters
    What is sampled so has no answer in it, nothing is paid, and no gradient leads back.

    ## Known false alarms
    A sampling temperature far above 1, and entropies in another unit.

    ## Remedy
    Go back to a checkpoint from before the entropy rose, with a fresh optimizer, no entropy bonus and half the rate.

    ## Sources
    The public runs of ENT003 end at 4 to 8 nats; of 180 public logs none that is well passes 4.3, and that one is a
    model of letters.
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
