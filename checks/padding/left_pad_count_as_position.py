from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column


@check(
    "PAD001",
    kind="defect",
    severity="critical",
    confidence="high",
    explains=("PAD005", "LEN006", "ADV003", "DIV004", "REW001", "REW009", "REW015", "STL001", "GEN005"),
    withholds={
        "raise-group-size": "the reward function scores the wrong text, and a larger group does not change that",
        "drop-zero-variance-groups": "groups have equal rewards because the wrong text is scored",
    },
    invalidates=(
        "rewards since step {onset}: most score text that the policy did not write",
        "checkpoints since step {onset}",
    ),
)
def left_pad_count_as_position(
    reward_recomputed_gap: Column, chat_header_rate: Column, *, gap: float = 0.02, header: float = 0.05
) -> Fires:
    """The response is sliced at the prompt's token count instead of at the padded width of the batch.

    ## What it sees
    The check compares the scored share of valid responses with the share recomputed from the sampled ids. The check
    fires if the two shares differ by more than 0.02 on 3 of 5 rows. In addition, more than 5% of the scored responses
    must contain template tokens. The scored and the recomputed shares must be equal by construction.

    ## Thresholds
    - `gap`: difference between the scored and the recomputed share of valid responses, 0 to 1, above which the check
      fires.
    - `header`: share of responses with template tokens, 0 to 1, above which the check fires.

    ## Why it matters
    With left padding, the number of real prompt tokens is smaller than the padded width. A slice at the number of real
    tokens passes parts of the prompt to the scorer. Only the row with the longest prompt of each batch is correct, so
    the run seems to learn a little.

    ## Example
    ```text
    chat_header_rate: 0x2 0.82x3
    reward_recomputed_gap: 0x2 -0.6x3
    ```
    Critical at step 3: 82% of the scored texts contain template tokens, and their score differs by 0.6 from that of the
    sampled ids. Responses are extracted at the wrong position.

    ```text
    chat_header_rate: 0x5
    reward_recomputed_gap: 0x5
    ```
    No finding.

    ## Known false alarms
    In a task whose answers contain template tokens, a scorer may repair the text by design. No other case is known,
    because the scored and the recomputed shares are equal by definition.

    ## Remedy
    Slice at the padded width. Test with at least one padded row, because the longest row is correct even with the wrong
    slice.

    ## Sources
    BoBaCai/grpo-dual, bug 1; fault `left-pad-extraction` of the engine.
    """
    return fires(
        (abs(reward_recomputed_gap) > gap) & (chat_header_rate > header),
        "{rate:.0%} of the scored texts contain template tokens, and their score differs by {gap:.2g} from that of the "
        "sampled ids. Responses are extracted at the wrong position.",
        rate=chat_header_rate,
        gap=abs(reward_recomputed_gap),
    )
