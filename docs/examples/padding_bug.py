"""A trainer's functions with a padding bug: grpo-doctor probe docs/examples/padding_bug.py"""

from grpo_doctor.engine.tiny import make_tokenizer  # replace it by the tokenizer of your model

tokenizer = make_tokenizer()


def render(prompt):
    """Ids of a prompt, with the header of the answer."""
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False)


def extract(tokens, input_ids, attention_mask):
    """Cuts each response out of its row. The bug: prompts are padded on the left, so this is not where they end."""
    return [row[length:].tolist() for row, length in zip(tokens, attention_mask.sum(1), strict=True)]
