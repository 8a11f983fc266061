"""A trainer's functions with a padding bug: grpo-doctor probe docs/examples/padding_bug.py"""

from grpo_doctor.engine.tiny import make_tokenizer  # replace it with the tokenizer of your model

tokenizer = make_tokenizer()


def render(prompt):
    """Return the ids of a prompt, including the header of the answer."""
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False)


def extract(tokens, input_ids, attention_mask):
    """Return the response in each row. The bug: prompts are padded on the left, so they do not end at this position."""
    return [row[length:].tolist() for row, length in zip(tokens, attention_mask.sum(1), strict=True)]
