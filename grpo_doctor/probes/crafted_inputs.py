"""Crafted inputs for the probes: prompts, canary ids, and the batch of the loss.

Shapes are described in `grpo_doctor.probes.entry_points`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .entry_points import Batch, Ids, Prompt, Unjudged, WrongShape

PROMPTS: tuple[Prompt, ...] = (
    [{"role": "user", "content": "What is 7 plus 5?"}],
    [
        {"role": "system", "content": "You answer in one line."},
        {"role": "user", "content": "Name the operators of the workflow, the first one first.\nThen stop."},
    ],
    [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Say it again, please, and a little louder."},
    ],
)
"""Dialogues of different lengths, including a system turn, a line break and an earlier answer."""


class Special(NamedTuple):
    """Ids with a special meaning in a tokenizer."""

    pad: int
    eos: int | None
    bos: int | None
    all: frozenset[int]


def special_ids(tokenizer: Any) -> Special:
    """Return the special ids of a tokenizer; EOS replaces a missing pad token, and 0 replaces both if both are
    missing."""
    eos = getattr(tokenizer, "eos_token_id", None)
    pad = getattr(tokenizer, "pad_token_id", None)
    listed = frozenset(getattr(tokenizer, "all_special_ids", ())) | {i for i in (pad, eos) if i is not None}
    fallback = eos if eos is not None else 0
    return Special(fallback if pad is None else pad, eos, getattr(tokenizer, "bos_token_id", None), listed)


def device_of(model: Any) -> torch.device:
    """Return the device of the model's parameters, or the CPU if there is no model."""
    parameter = next(model.parameters(), None) if model is not None else None
    return torch.device("cpu") if parameter is None else parameter.device


def flat_ids(value: Any) -> Ids:
    """Return the ids in a list, in a list of one list, in a tensor or in a tokenizer's encoding."""
    given = value["input_ids"] if hasattr(value, "keys") and "input_ids" in value else value
    try:
        ids = given.tolist() if hasattr(given, "tolist") else list(given)
        while ids and isinstance(ids[0], list | tuple):
            ids = [i for row in ids for i in row]
        return [int(i) for i in ids]
    except (TypeError, ValueError):
        kind = type(given).__name__
        raise WrongShape(f"returned {kind} where ids are expected (a list of int, or a tensor)") from None


def rendered(
    render: Callable[[Prompt], Any], prompts: Sequence[Prompt] | None, *, padded: bool = False
) -> list[tuple[Prompt, Ids]]:
    """Return prompts with their ids, the shortest prompt first. Raise `Unjudged` if the batch must be ``padded`` but
    all prompts have the same length."""
    pairs = [(prompt, flat_ids(render(prompt))) for prompt in (list(prompts or PROMPTS)[:8])]
    pairs.sort(key=lambda pair: len(pair[1]))
    if padded and len(pairs[0][1]) == len(pairs[-1][1]):
        raise Unjudged("all prompts of the adapter have the same length; add a prompt of a different length")
    return [pairs[0], *pairs[1:-1][:2], pairs[-1]]


def answered(
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    model: Any,
    prompts: Sequence[Prompt] | None,
    lengths: Sequence[int] = (5, 3, 6, 4),
) -> tuple[list[Prompt], list[Ids], list[Ids]]:
    """Return the prompts (the shortest first), their ids, and `complete` responses of these lengths."""
    pairs = rendered(render, prompts)
    own = [ids for _, ids in pairs]
    responses = complete(plain_ids(tokenizer, model, own), lengths[: len(own)], special_ids(tokenizer).eos)
    return [prompt for prompt, _ in pairs], own, responses


def around_the_turn(tokenizer: Any) -> tuple[Ids, Ids]:
    """Return the ids that a chat template adds after the user's message: the end of the turn, and the generation
    header. Both are empty if the tokenizer has no chat template."""
    if not getattr(tokenizer, "chat_template", None):
        return [], []

    def ids(words: str, header: bool) -> Ids:
        messages = [{"role": "user", "content": words}]
        return flat_ids(tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=header))

    one, other = ids("one", False), ids("2", False)
    shared = next((n for n, (a, b) in enumerate(zip(one[::-1], other[::-1], strict=False)) if a != b), 0)
    return one[len(one) - shared :], ids("one", True)[len(one) :]


def pad_left(rows: Sequence[Ids], pad: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return ids (N, P) and attention mask (N, P), padded on the left."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(r)) + list(r) for r in rows], device=device)
    real = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows], device=device)
    return ids, real


def pad_right(rows: Sequence[Ids], pad: int, device: torch.device | None = None) -> Tensor:
    """Return ids (N, R), padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([list(r) + [pad] * (width - len(r)) for r in rows], device=device)


def plain_ids(tokenizer: Any, model: Any = None, avoid: Sequence[Ids] = (), count: int = 48) -> Ids:
    """Return ordinary ids that do not occur in the rows to avoid. If the ids are decoded to text and encoded again,
    they stay the same."""
    size = len(tokenizer) if tokenizer is not None else 0
    size = min(size or 10**9, getattr(getattr(model, "config", None), "vocab_size", None) or 10**9)
    if size == 10**9:
        raise Unjudged("needs a tokenizer or a model, to know the vocabulary")
    taken = special_ids(tokenizer).all | {i for row in avoid for i in row}
    return list(_plain_ids(tokenizer, size, taken, count))


@functools.lru_cache(maxsize=64)
def _plain_ids(tokenizer: Any, size: int, taken: frozenset[int], count: int) -> Ids:
    """Return the ids of `plain_ids` for a vocabulary of this size, excluding the used ids. The result is cached,
    because dozens of probes need it."""
    order = [i for i in range(size) if i not in taken]
    random.Random(0).shuffle(order)
    found: Ids = []
    for i in order:
        if len(found) == count:
            break
        if tokenizer is None or _survives(tokenizer, [i, *found[:1]]):
            found.append(i)
    if len(found) < 4:
        found += [i for i in order if i not in found][: count - len(found)]
    if len(found) < 4:
        raise Unjudged("the vocabulary has no four ordinary tokens outside the prompts")
    return found


def _survives(tokenizer: Any, ids: Ids) -> bool:
    return list(tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False)) == list(ids)


def canaries(words: Ids, lengths: Sequence[int]) -> list[Ids]:
    """Return responses of these lengths made of ordinary ids. No response is contained in another one."""
    return [[words[(n * max(lengths) + i) % len(words)] for i in range(length)] for n, length in enumerate(lengths)]


def complete(words: Ids, lengths: Sequence[int], eos: int | None) -> list[Ids]:
    """Return canary responses that end with EOS. Without EOS, all responses are as long as the longest one, because
    generation ends only at its limit."""
    if eos is None:
        return canaries(words, [max(lengths)] * len(lengths))
    return [[*row[:-1], eos] for row in canaries(words, lengths)]


def endings(lengths: Sequence[int], eos: int | None, limit: int | None = None) -> list[list[tuple[int, bool]]]:
    """Return response lengths as they occur in generation, and for each response whether it ends with EOS.

    A response without EOS was truncated at the limit, so it is as long as the longest one. The three cases are: all
    responses ended, the longest is truncated, and all are truncated.
    """
    longest = max([*lengths, limit or 0])
    cut = [(longest, False)] * len(lengths)
    if eos is None:
        return [cut]
    ended = [(n, True) for n in lengths]
    return [ended, [(longest, False) if n == max(lengths) else (n, True) for n in lengths], cut]


ORDERS = ((1, (1, 2, 6, 3), 3), (-1, (2, 1, 5, 4), 2))
"""Batches that several probes share, so that each forward pass is computed once. Each entry contains the order of the
prompts, the response lengths, and the number of `endings` to try."""


def canary_responses(words: Ids, lengths: Sequence[tuple[int, bool]], eos: int | None) -> list[Ids]:
    """Return canary responses of these lengths, which end with EOS unless they are truncated."""
    rows = canaries(words, [n for n, _ in lengths])
    return [[*row[:-1], eos] if ends and eos is not None else row for row, (_, ends) in zip(rows, lengths, strict=True)]


def agrees(found: Any, canary: Ids, tokenizer: Any) -> bool:
    """Return whether an extracted response, as ids or text, equals the canary, apart from a final EOS and padding."""
    special = special_ids(tokenizer)
    end = {special.pad, special.eos}
    if not isinstance(found, str):
        return _stripped(flat_ids(found), end) == _stripped(canary, end)
    words = _stripped(canary, end)
    names = [tokenizer.decode([i]).strip() for i in end if i is not None]
    text = found.strip()
    while (name := next((n for n in names if n and text.endswith(n)), None)) is not None:
        text = text[: -len(name)].rstrip()
    return text in {tokenizer.decode(words, skip_special_tokens=skip).strip() for skip in (True, False)}


def _stripped(ids: Ids, end: set[int | None]) -> Ids:
    ids = list(ids)
    while ids and ids[-1] in end:
        ids.pop()
    return ids


def split_rows(found: Any, lengths: Sequence[int]) -> list[Any]:
    """Return the output of `extract` or `rollout` as one entry per row. The output may be one flat list of ids."""
    try:
        rows = list(found)
    except TypeError:
        raise WrongShape(f"returned {type(found).__name__} where one response per prompt is expected") from None
    if len(rows) != len(lengths) and len(rows) == sum(lengths):
        starts = [sum(lengths[:n]) for n in range(len(lengths))]
        return [rows[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    if len(rows) != len(lengths):
        raise Unjudged(f"{len(lengths)} responses were generated, but {len(rows)} were returned")
    return rows


# the batch of the loss ------------------------------------------------------------------------------------------


def trained_tokens(batch: Batch) -> Tensor:
    """Return the mask of a batch, which may have any supported form, as bool (N, T) over the tokens themselves."""
    ids, _, mask = batch
    marked = torch.as_tensor(mask).reshape(ids.shape[0], -1) > 0
    width, total = marked.shape[1], ids.shape[1]
    if width > total:
        raise Unjudged(f"the mask has a width of {width}, but there are {total} tokens")
    return torch.cat([marked.new_zeros(ids.shape[0], total - width), marked], 1)


def real_positions(batch: Batch, row: int) -> list[int]:
    """Return the positions of a row that contain tokens, not padding."""
    return [int(i) for i in torch.as_tensor(batch[1])[row].nonzero().flatten()]


def row_ids(batch: Batch, row: int) -> Ids:
    """Return the tokens of a row without padding."""
    ids = batch[0][row].tolist()
    return [int(ids[i]) for i in real_positions(batch, row)]


def padding_of(batch: Batch) -> int | None:
    """Return the padding id of a batch, or None if the batch has no padding."""
    padded = batch.input_ids[batch.attention_mask == 0]
    return int(padded[0]) if len(padded) else None


def response_positions(batch: Batch, row: int, response: Ids, prompt: Ids | None = None) -> list[int] | None:
    """Return the positions of the response in a row: the last tokens, or the tokens after the prompt if the row ends
    with padding."""
    positions, size = real_positions(batch, row), len(response)
    if row_ids(batch, row)[-size:] == list(response):
        return positions[-size:]
    ids = [int(i) for i in batch.input_ids[row].tolist()]
    before = list(prompt or ())
    wanted = [*before, *response]
    if len(wanted) < 3:
        return None
    starts = [n for n in range(len(ids) - len(wanted) + 1) if ids[n : n + len(wanted)] == wanted]
    return [starts[-1] + len(before) + n for n in range(size)] if starts else None


def room(batch: Batch, prompts: Sequence[Ids], responses: Sequence[Ids]) -> int:
    """Return the number of response tokens that fit into every row of a batch."""
    pairs = enumerate(zip(prompts, responses, strict=True))
    found = [(prompt, response_positions(batch, n, response, prompt)) for n, (prompt, response) in pairs]
    return batch.input_ids.shape[1] - max(positions[0] if positions else len(prompt) for prompt, positions in found)


def left_out(batch: Batch, row: int, response: Ids, eos: int | None) -> bool:
    """Return whether a truncated response is excluded from the loss, for example by a filter for overlong responses."""
    if eos is not None and response[-1] == eos:
        return False
    return not bool(trained_tokens(batch)[row].any())


def batch_of(value: Any) -> Batch:
    """Return the output of `mask` (a tuple, or a mapping with the names of `Batch`) with rows of equal length."""
    ids, real, mask = (value[name] for name in Batch._fields) if hasattr(value, "keys") else value
    return Batch(torch.as_tensor(ids), torch.as_tensor(real), torch.as_tensor(mask))


def response_logprobs(
    logprobs: Callable[[Tensor, Tensor], Tensor],
    batch: Batch,
    responses: Sequence[Ids],
    prompts: Sequence[Ids] | None = None,
) -> list[Tensor]:
    """Return the log-probabilities of the tokens of each response. Raises `Unjudged` if the batch does not contain the
    responses."""
    found = logprobs(batch.input_ids, batch.attention_mask)
    offset = batch.input_ids.shape[1] - found.shape[1]
    out = []
    for row, response in enumerate(responses):
        positions = response_positions(batch, row, response, None if prompts is None else prompts[row])
        if positions is None:
            raise Unjudged("the batch of the loss does not contain the sampled ids; see GEN005")
        out.append(found[row, [p - offset for p in positions]])
    return out


def k3(new: Tensor, old: Tensor) -> float:
    """Return the mean of exp(d) - d - 1 in nats per token, where d = old - new."""
    d = (old - new).detach().double()
    return float((d.exp() - d - 1).mean())
