"""A padding bug: grpo-doctor probe padding_bug.py"""


def extract(tokens, input_ids, attention_mask):
    """Cuts each response where its prompt ends, by the count of prompt tokens. The prompts are padded on the left."""
    lengths = attention_mask.sum(1)
    return [row[length:].tolist() for row, length in zip(tokens, lengths, strict=True)]
