from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("DAT003", severity="warning", explains=("ENT001", "ADV003", "SHP001"))
def rl_prompts_seen_in_supervision(
    render: Any, prompts: Any, supervised: Any, *, shared_prompts: float = 0.8
) -> Fires | None:
    """Most RL prompts were already answered in the supervised stage.

    ## What it sees
    The probe computes the share of the adapter's prompts whose ids also occur in its supervised pairs. The probe fires
    if this share is above 80%.

    ## Thresholds
    - `shared_prompts`: share of the prompts that also occur in the supervised pairs, 0 to 1, above which the probe
      fires.

    ## Why it matters
    A policy gives a single answer to a memorised prompt: entropy is low before RL starts, groups have equal rewards,
    and nothing is learned.

    ## Example
    ```python
    from my_trainer import prompts, render

    supervised = [(prompt, "done") for prompt in prompts]
    ```
    Warning: 100% of the RL prompts were already answered in the supervised stage.

    ```python
    from my_trainer import prompts, render

    supervised = [(prompts[0], "done")]
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies the share of exact matches among the prompts and pairs that the adapter provides. The probe does
    not detect paraphrases, or data that the adapter omits.

    ## Known false alarms
    For a small closed task, no other prompts may exist. A short supervised stage may have taught only the format and
    not the answers.

    ## Remedy
    Split the prompts between the two stages before the supervised stage.

    ## Sources
    BoBaCai/grpo-dual, deep diagnosis item 10: 100% is a leak, above 80% severe, below 20% fine.
    """
    craft = probes.crafted_inputs
    taught = {tuple(craft.flat_ids(render(prompt))) for prompt, _ in supervised}
    seen = sum(tuple(craft.flat_ids(render(prompt))) in taught for prompt in prompts)
    share = seen / len(prompts)
    return fires(
        share > shared_prompts,
        "{share:.0%} of the RL prompts were already answered in the supervised stage.",
        share=share,
    )
