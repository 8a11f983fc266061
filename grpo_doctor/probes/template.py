"""Gives `grpo-doctor probe` access to the functions of a trainer. Delete functions that your trainer does not have;
their probes are then skipped.

`grpo-doctor probe` EXECUTES this file. Every function is called with crafted inputs; nothing is trained, and weights,
optimizer and random state are restored. Ids are lists of int without padding; tensors are torch tensors on the model's
device. N is the number of samples, P the width of the padded prompts, R the width of the responses, and T the width of
both.
"""

from __future__ import annotations

from typing import Any

# import my_trainer

# --- objects that your functions use -----------------------------------------------------------------------------

model: Any = None  # my_trainer.model: the module whose forward and generate your functions call
tokenizer: Any = None  # my_trainer.tokenizer
reference: Any = None  # the frozen reference model, if it is a separate model
optimizer: Any = None
prompts = None  # 2 to 8 of your own prompts, of different lengths, as in your data; default: three chats
settings: dict[str, Any] = {
    # "temperature": 1.0,   # as declared; probes measure the actual one
    # "entropy_coef": 0.01, # 0: no entropy term
    # "kl_coef": 0.02,
    # "epsilon": 0.2,       # of the clip, if there is one; also "epsilon_high" if it differs
    # "group_size": 8,
}

# --- the rollout. Either one composite function: ------------------------------------------------------------------

# def rollout(prompts):
#     """Renders, samples with model.generate and extracts: one response per prompt, as the reward function gets it."""
#     return my_trainer.generate_candidates(prompts)

# --- or its parts (with both, more can be proven): ----------------------------------------------------------------

# def render(prompt):                               # -> ids of the prompt, generation header included
#     return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True)["input_ids"]

# def sample(input_ids, attention_mask):            # (N, P), (N, P) -> (N, P + R), as training generates
#     return my_trainer.generate(input_ids, attention_mask)

# def extract(tokens, input_ids, attention_mask):   # (N, P + R), (N, P), (N, P) -> N lists of response ids
#     return my_trainer.cut_responses(tokens, input_ids, attention_mask)

# def penalize(tokens, logits, prompt_length):      # (N, T), (N, V), int -> (N, V): penalties, processors
#     return MyPenalty(prompt_length)(tokens, logits)

# def sync():                                       # called after an update, so that rollouts use the new weights
#     my_trainer.push_weights()

# def env_mask(prompts):                            # multi-turn (tool_mask is the same): for each prompt
#     return my_trainer.converse(prompts)           # the ids after it, and 1 if generated, 0 if from a tool
# turns = ["<tool>search</tool>", "42"]             # answers of the policy to which the environment replies

# --- the loss. Either one composite function: ---------------------------------------------------------------------

# def loss(prompts, responses, advantages):         # prompts, N lists of ids, (N,) -> the scalar that you log
#     return my_trainer.compute_loss(prompts, responses, advantages)

# --- or its parts: ------------------------------------------------------------------------------------------------

# def mask(prompts, responses):                     # N lists of ids each -> input_ids, attention_mask, loss mask
#     return my_trainer.tokenize_concat(prompts, responses)    # mask (N, T) over tokens or (N, T-1) over labels

# def logprobs(input_ids, attention_mask):          # (N, T), (N, T) -> (N, T-1), with gradient
#     return my_trainer.token_logprobs(model, input_ids, attention_mask)

# def reference_logprobs(input_ids, attention_mask):
#     return my_trainer.token_logprobs(reference, input_ids, attention_mask)

# def old_logprobs(input_ids, attention_mask):      # from rollout time, for the denominator of the ratio
#     return my_trainer.token_logprobs_at_rollout(input_ids, attention_mask)

# def objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy):   # (N, T-1), (N,) -> scalar
#     return my_trainer.clipped_objective(logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy)

# def advantages(rewards):                          # (G, K) -> (G, K)
#     return my_trainer.compute_advantages(rewards)

# --- the update ---------------------------------------------------------------------------------------------------

# def backward(prompts, responses, advantages, micro_batches=1):   # leaves the gradient for the optimizer in p.grad
#     my_trainer.accumulate(prompts, responses, advantages, micro_batches)

# def step(prompts, responses, advantages):         # one whole update, mode changes included
#     my_trainer.update(prompts, responses, advantages)

# def update(prompts, verify):                      # one whole step of your loop: groups are sampled, scored, trained
#     my_trainer.score = verify                     # verify(prompt, response) -> float replaces your reward function
#     my_trainer.train_step(prompts)

# --- the supervised stage -----------------------------------------------------------------------------------------

# def render_sft(prompt, answer):                   # -> ids of a supervised example
#     return my_trainer.tokenize_sft_pair(prompt, answer)

# def collate_sft(prompts, answers):                # -> input_ids (N, T), labels (N, T) with -100
#     return my_trainer.sft_batch(prompts, answers)

# --- the reward ---------------------------------------------------------------------------------------------------

# graded = [("what is 2 + 10?", "12", "<answer>12</answer>", "<answer>13</answer>")]   # gold answer, right, wrong

# def reward(prompts, responses, answers):          # N prompts, N texts, N gold answers -> N numbers, None: omitted
#     return [my_trainer.score(r, a) for r, a in zip(responses, answers)]     # TRL's form works unchanged
