import numpy as np

from grpo_doctor import Fires, Rival, check, fires
from grpo_doctor.stats import Column


@check(
    "PAD001",
    severity="critical",
    confidence="high",
    explains=("PAD005", "LEN006", "ADV003", "DIV004", "REW001", "REW009", "STL001", "GEN005"),
    withholds={
        "raise-group-size": "the rewards are those of other text; no group size mends that",
        "filter-dead-groups": "groups tie because the wrong text is scored",
    },
    rivals=(
        Rival(
            "a policy that writes template tokens itself",
            "then the text recomputed from the response ids holds them too, and the scores agree",
            "reward_recomputed_gap, or the probe PAD001 with canary ids",
        ),
        Rival(
            "post-processing of the text before scoring",
            "a strip, a repair or a default changes the verdict without template tokens",
            "GEN005: the gap without template tokens",
        ),
    ),
    remedies=("slice-at-padded-width",),
    invalidates=(
        "rewards since step {onset}: most were given to other text than the policy wrote",
        "checkpoints since step {onset}",
    ),
)
def left_pad_count_as_position(
    reward_recomputed_gap: Column, chat_header_rate: Column, *, gap: float = 0.02, header: float = 0.05
) -> Fires:
    """The response is cut out at the wrong place: a count of prompt tokens is used as a position.

    ## What it sees
    Validity as scored differs by more than 0.02 from validity recomputed from the sampled ids, and more than 5 % of
    the scored responses hold template tokens, on 3 of 5 rows. Two records that must be equal by construction are not.

    ## Why it matters
    With left padding, the number of real prompt tokens is smaller than the padded width; slicing there hands pieces of
    the prompt to the scorer. Only the longest prompt of each batch is right, so the run seems to learn a little.

    ## Known false alarms
    A scorer that repairs text on purpose, in a task whose answers hold template tokens. Everything else is an
    identity.

    ## Remedy
    Slice at the padded width. Test with at least one padded row: the longest row is right either way.

    ## Sources
    Document 003, bug 1; throw-away engine (template tokens in 82 % of scored texts, dead groups 0.82 from step 1).
    """
    return fires(
        (np.abs(reward_recomputed_gap) > gap) & (chat_header_rate > header),
        "{rate:.0%} of the scored texts hold template tokens and their score differs by {gap:.2g} from that of the "
        "sampled ids: the response is cut out at the wrong place.",
        rate=chat_header_rate,
        gap=np.abs(reward_recomputed_gap),
    )
