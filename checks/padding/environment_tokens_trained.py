from typing import Any

from grpo_doctor import Fires, fires, probe, probes


@probe("PAD006", kind="defect", severity="critical", explains=("PAD002", "GEN005", "RAT007"))
def environment_tokens_trained(
    model: Any, tokenizer: Any, env_mask: Any = None, tool_mask: Any = None, turns: Any = None, prompts: Any = None
) -> Fires | None:
    """The mask of a conversation includes tool or environment tokens, or excludes turns of the policy.

    ## What it sees
    The probe runs the trainer's own conversation with a scripted policy. The generated tokens of each turn are known,
    so everything else after the prompt comes from a tool, the environment or the template. The trainer's `env_mask` or
    `tool_mask` must mark exactly the generated tokens, including the end token of every turn. If the environment
    answers only tool calls, the scripted policy writes the adapter's `turns`. PAD002 checks the loss of a multi-turn
    rollout.

    ## Why it matters
    Tokens that the policy did not write are reinforced with the advantage of the policy's response. The policy learns
    to write the tool's answers itself, and the log-probabilities of the foreign tokens dominate the ratio. If the mask
    excludes the last turn, no final answer is learned. If the mask excludes the end token, the policy does not learn to
    end its turn.

    ## Example
    ```python
    from my_trainer import agent as model
    from my_trainer import agent_tokenizer as tokenizer
    from my_trainer import converse, prompts


    def env_mask(prompts):
        return [(ids, [1] * len(ids)) for ids, generated in converse(prompts)]
    ```
    Critical: In four scripted conversations, the mask includes 16 tokens that the policy did not generate. The mask
    includes every generated token.

    ```python
    from my_trainer import agent as model
    from my_trainer import agent_tokenizer as tokenizer
    from my_trainer import converse, prompts


    def env_mask(prompts):
        return [(ids, generated) for ids, generated in converse(prompts)]
    ```
    No finding.

    ## What this certifies, and what it does not
    The probe certifies which tokens of a scripted conversation are marked. The probe certifies neither the environment
    nor how the reward is shared between turns.

    ## Known false alarms
    A trainer may exclude parts of a turn by design, such as thoughts before a tool call.

    ## Remedy
    Extend the mask at every place where the ids are extended.

    ## Sources
    huggingface/trl docs, OpenEnv (`env_mask`); verl docs, agent loop (`response_mask`); verl-project/verl#3720.
    """
    mask = env_mask if env_mask is not None else tool_mask
    if mask is None:
        raise probes.NotApplicable("needs env_mask or tool_mask")
    end = probes.crafted_inputs.special_ids(tokenizer).eos
    count = probes.multi_turn.of_mask(probes.multi_turn.four_conversations(mask, model, tokenizer, prompts, turns), end)
    return fires(
        count.foreign > 0 or count.missed > 0,
        "In four scripted conversations, the mask excludes {missed} generated tokens, {ends} of them end tokens."
        if not count.foreign
        else "In four scripted conversations, the mask includes {foreign} tokens that the policy did not generate. The "
        "mask includes every generated token."
        if not count.missed
        else "In four scripted conversations, the mask includes {foreign} tokens that the policy did not generate. The "
        "mask excludes {missed} generated tokens, {ends} of them end tokens.",
        foreign=count.foreign,
        missed=count.missed,
        ends=count.ends,
    )
