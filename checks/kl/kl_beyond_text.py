from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column, baseline, row


@check("KL010", kind="outcome", severity="warning", confidence="medium", explains=("LEN003", "REW001", "STL001"))
def kl_beyond_text(kl: Column, step: Column, *, beyond: float = 100.0) -> Fires:
    """The only row has a KL to the reference above 100 nats/token, which is impossible for real text.

    ## What it sees
    A KL above 100 nats per token on the first row of a log that begins after step 1: a **warning**. The second row
    ends it, for from there on KL001 tells whether the KL stands so high. On step 0 or 1 it is KL006's.

    ## Thresholds
    - `beyond`: KL, nats per token, that no drift of a policy makes: the reference gives each token less than e^-100.

    ## Why it matters
    People show the last row of a log, or the summary that a tracker keeps of it. That row needs no other beside it: a
    policy so far from its reference writes no text any more.

    ## Known false alarms
    One leap of k3 that comes on just this row; a KL that is summed over the response.

    ## Remedy
    Go back to a checkpoint from before it left; look at the rows before for the learning rate and the gradient norm.

    ## Sources
    huggingface/open-r1#257 (ends at hundreds of nats and a reward of 0).
    """
    return fires(
        (row(kl) == 1) & (kl > beyond) & (baseline(step, 1) > 1),
        "The KL to the reference is {kl:.3g} nats/token, which is impossible for real text.",
        hold=(1, 1),
        clear=1,
        kl=kl,
    )
