"""What probes are made of: canary ids, padded prompts, scripted and watched models.

Shapes as in `grpo_doctor.probes.seams`. The scripting of a model is undone when its block ends; what else a seam
changes (weights, modes, random state) is put back by the runner.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .seams import Batch, Ids, Prompt, Unjudged

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
"""Dialogues of unequal length, with a system turn, a line break and an earlier answer among them."""


class Special(NamedTuple):
    """Ids that a tokenizer gives a meaning."""

    pad: int
    eos: int | None
    bos: int | None
    all: frozenset[int]


def special_ids(tokenizer: Any) -> Special:
    """Special ids of a tokenizer; without a pad token EOS stands in, and 0 without either."""
    eos = getattr(tokenizer, "eos_token_id", None)
    pad = getattr(tokenizer, "pad_token_id", None)
    listed = frozenset(getattr(tokenizer, "all_special_ids", ())) | {i for i in (pad, eos) if i is not None}
    fallback = eos if eos is not None else 0
    return Special(fallback if pad is None else pad, eos, getattr(tokenizer, "bos_token_id", None), listed)


def device_of(model: Any) -> torch.device:
    """Where the model's parameters are; the CPU without a model."""
    parameter = next(model.parameters(), None) if model is not None else None
    return torch.device("cpu") if parameter is None else parameter.device


def dtype_of(model: Any) -> torch.dtype | None:
    """The precision of the model's parameters; None without a model."""
    parameter = next(model.parameters(), None) if model is not None else None
    return None if parameter is None else parameter.dtype


def flat_ids(value: Any) -> Ids:
    """Ids from a list, a list of one list, a tensor or a tokenizer's encoding."""
    value = value["input_ids"] if hasattr(value, "keys") else value
    value = value.tolist() if hasattr(value, "tolist") else list(value)
    while value and isinstance(value[0], list | tuple):
        value = [i for row in value for i in row]
    return [int(i) for i in value]


def rendered(render: Callable[[Prompt], Any], prompts: Sequence[Prompt] | None) -> list[tuple[Prompt, Ids]]:
    """Prompts with their ids, the shortest first. Raises `Unjudged` where all are of one length."""
    pairs = [(prompt, flat_ids(render(prompt))) for prompt in (list(prompts or PROMPTS)[:8])]
    pairs.sort(key=lambda pair: len(pair[1]))
    if len(pairs[0][1]) == len(pairs[-1][1]):
        raise Unjudged("the adapter's prompts are all equally long; give it two of different length")
    return [pairs[0], *pairs[1:-1][:2], pairs[-1]]


def pad_left(rows: Sequence[Ids], pad: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Ids (N, P) and attention mask (N, P), padding on the left."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(r)) + list(r) for r in rows], device=device)
    real = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows], device=device)
    return ids, real


def pad_right(rows: Sequence[Ids], pad: int, device: torch.device | None = None) -> Tensor:
    """Ids (N, R), padding on the right."""
    width = max(map(len, rows))
    return torch.tensor([list(r) + [pad] * (width - len(r)) for r in rows], device=device)


def plain_ids(tokenizer: Any, model: Any = None, avoid: Sequence[Ids] = (), count: int = 48) -> Ids:
    """Ordinary ids that stand in none of the rows to avoid and, where text is decoded, come back as themselves."""
    size = len(tokenizer) if tokenizer is not None else 0
    size = min(size or 10**9, getattr(getattr(model, "config", None), "vocab_size", None) or 10**9)
    if size == 10**9:
        raise Unjudged("needs a tokenizer or a model, to know the vocabulary")
    taken = special_ids(tokenizer).all | {i for row in avoid for i in row}
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


def canaries(words: Ids, lengths: Sequence[int], eos: int | None = None) -> list[Ids]:
    """Responses of these lengths from ordinary ids, all different; with ``eos`` that is each one's last id."""
    rows: list[Ids] = []
    for n, length in enumerate(lengths):
        row = [words[(n * 3 + i) % len(words)] for i in range(length)]
        rows.append(row if eos is None else [*row[: length - 1], eos])
    return rows


def agrees(found: Any, canary: Ids, tokenizer: Any) -> bool:
    """Whether an extracted response is the canary, as ids or text; a last EOS and padding may be missing."""
    special = special_ids(tokenizer)
    end = {special.pad, special.eos}
    if isinstance(found, str):
        return bool(found.strip() == tokenizer.decode(_stripped(canary, end), skip_special_tokens=True).strip())
    return _stripped(flat_ids(found), end) == _stripped(canary, end)


def _stripped(ids: Ids, end: set[int | None]) -> Ids:
    ids = list(ids)
    while ids and ids[-1] in end:
        ids.pop()
    return ids


def split_rows(found: Any, lengths: Sequence[int]) -> list[Any]:
    """What `extract` or `rollout` returned, one entry a row; ids may also come as one flat list."""
    rows = list(found)
    if len(rows) != len(lengths) and len(rows) == sum(lengths):
        starts = [sum(lengths[:n]) for n in range(len(lengths))]
        return [rows[s : s + n] for s, n in zip(starts, lengths, strict=True)]
    if len(rows) != len(lengths):
        raise Unjudged(f"{len(lengths)} responses were generated and {len(rows)} came back")
    return rows


# the batch of the loss ------------------------------------------------------------------------------------------


def trained_tokens(batch: Batch) -> Tensor:
    """The mask of a batch as bool (N, T) over the tokens themselves, whatever its own form."""
    ids, _, mask = batch
    marked = torch.as_tensor(mask).reshape(ids.shape[0], -1) > 0
    width, total = marked.shape[1], ids.shape[1]
    if width > total:
        raise Unjudged(f"the mask is {width} wide and the tokens are {total}")
    return torch.cat([marked.new_zeros(ids.shape[0], total - width), marked], 1)


def real_positions(batch: Batch, row: int) -> list[int]:
    """Positions of a row that hold tokens, not padding."""
    return [int(i) for i in torch.as_tensor(batch[1])[row].nonzero().flatten()]


def row_ids(batch: Batch, row: int) -> Ids:
    """The tokens of a row without padding."""
    ids = batch[0][row].tolist()
    return [int(ids[i]) for i in real_positions(batch, row)]


def padding_of(batch: Batch) -> int | None:
    """The id that a batch is padded with; None where it has no padding."""
    padded = batch.input_ids[batch.attention_mask == 0]
    return int(padded[0]) if len(padded) else None


def response_positions(batch: Batch, row: int, response: Ids) -> list[int] | None:
    """Where a row holds the response as its last tokens; None where it does not."""
    positions = real_positions(batch, row)
    if row_ids(batch, row)[-len(response) :] != list(response):
        return None
    return positions[-len(response) :]


def batch_of(value: Any) -> Batch:
    """What `mask` returned, a tuple or a mapping with the names of `Batch`, with rows of one length."""
    ids, real, mask = (value[name] for name in Batch._fields) if hasattr(value, "keys") else value
    return Batch(torch.as_tensor(ids), torch.as_tensor(real), torch.as_tensor(mask))


def response_logprobs(
    logprobs: Callable[[Tensor, Tensor], Tensor], batch: Batch, responses: Sequence[Ids]
) -> list[Tensor]:
    """Log-probabilities of each response's tokens. Raises `Unjudged` where the batch does not hold the responses."""
    found = logprobs(batch.input_ids, batch.attention_mask)
    offset = batch.input_ids.shape[1] - found.shape[1]
    out = []
    for row, response in enumerate(responses):
        positions = response_positions(batch, row, response)
        if positions is None:
            raise Unjudged("the batch of the loss does not hold the sampled ids; see GEN005")
        out.append(found[row, [p - offset for p in positions]])
    return out


def k3(new: Tensor, old: Tensor) -> float:
    """Mean of exp(d) - d - 1 with d = old - new, in nats per token."""
    d = (old - new).detach().double()
    return float((d.exp() - d - 1).mean())


# gradients ------------------------------------------------------------------------------------------------------


def trainable(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """The parameters that require a gradient, by name."""
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def gradient(model: torch.nn.Module, leave: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
    """What a call with these arguments leaves in ``p.grad``, as one vector; before and after they are empty."""
    parameters = [p for _, p in trainable(model)]
    if not parameters:
        raise Unjudged("no parameter requires a gradient; see STL004")
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    leave(*args, **kwargs)
    parts = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten() for p in parameters]
    model.zero_grad(set_to_none=True)
    return torch.cat([part.float() for part in parts])


def cosine(a: Tensor, b: Tensor) -> float:
    """Cosine of two vectors, 0 where one of them is 0."""
    return float(torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=0))


@contextmanager
def without_dropout(model: torch.nn.Module | None) -> Iterator[None]:
    """No dropout inside the block, in whatever mode the model is."""
    kept = [
        (m, name, value)
        for m in (model.modules() if model is not None else ())
        for name in ("p", "attention_dropout")
        if isinstance(value := getattr(m, name, None), float)
        and value > 0
        and (name != "p" or "Dropout" in type(m).__name__)
    ]
    for module, name, _ in kept:
        setattr(module, name, 0.0)
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


# scripted and watched models ------------------------------------------------------------------------------------


@contextmanager
def replaced(target: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of one instance, replaced inside the block."""
    missing = object()
    before = vars(target).get(name, missing)
    object.__setattr__(target, name, value)
    try:
        yield
    finally:
        if before is missing:
            object.__delattr__(target, name)
        else:
            object.__setattr__(target, name, before)


class Call(NamedTuple):
    """What a scripted ``generate`` was given."""

    input_ids: Tensor
    attention_mask: Tensor


@contextmanager
def scripted_generate(model: Any, responses: Sequence[Ids], pad: int) -> Iterator[list[Call]]:
    """``model.generate`` returns its prompts followed by these responses, in order, over all calls of the block."""
    calls: list[Call] = []
    served = 0

    def generate(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        nonlocal served
        ids = kwargs.get("input_ids", inputs)
        times = int(kwargs.get("num_return_sequences", 1) or 1)
        ids = ids.repeat_interleave(times, 0)
        real = kwargs.get("attention_mask")
        real = (ids != pad).long() if real is None else real.repeat_interleave(times, 0)
        rows = [responses[(served + n) % len(responses)] for n in range(len(ids))]
        served += len(ids)
        calls.append(Call(ids, real))
        tokens = torch.cat([ids, pad_right(rows, pad, ids.device)], 1)
        return _Generated(tokens) if kwargs.get("return_dict_in_generate") else tokens

    with replaced(model, "generate", generate):
        yield calls


class _Given(Exception):  # noqa: N818  (ends the caller's rollout once generate was called)
    pass


def given_to_generate(model: Any, special: Special, roll: Callable[[], Any]) -> list[Ids]:
    """The ids that the first ``model.generate`` of a rollout is told to attend to, row by row; empty without a call.

    Without an attention mask generate leaves out the pad tokens, except where pad is EOS.
    """
    rows: list[Ids] = []

    def generate(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        ids, real = kwargs.get("input_ids", inputs), kwargs.get("attention_mask")
        if isinstance(ids, Tensor):
            if real is None:
                real = torch.ones_like(ids) if special.pad == special.eos else ids != special.pad
            rows.extend(i[r > 0].tolist() for i, r in zip(ids, real, strict=True))
        raise _Given

    with replaced(model, "generate", generate), suppress(_Given):
        roll()
    return rows


class _Generated:
    def __init__(self, sequences: Tensor) -> None:
        self.sequences = sequences
        self.scores = self.logits = self.past_key_values = None


@contextmanager
def scripted_logits(model: torch.nn.Module, row: Callable[[int], Tensor]) -> Iterator[None]:
    """Every forward gives the logits ``row(n)`` (V,) at all positions, n being how many forwards came before."""
    count = 0

    def hook(module: Any, args: Any, output: Any) -> Any:
        nonlocal count
        logits = output if isinstance(output, Tensor) else output.logits
        if logits is None:
            raise Unjudged("the model's forward returns no logits, so they cannot be scripted")
        scripted = row(count).to(logits).expand_as(logits).clone()
        count += 1
        if isinstance(output, Tensor):
            return scripted
        output.logits = scripted
        return output

    handle = model.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


class Forward(NamedTuple):
    """One forward of a watched model."""

    input_ids: Tensor
    attention_mask: Tensor | None
    logits: Tensor


@contextmanager
def watched(model: torch.nn.Module) -> Iterator[list[Forward]]:
    """Every forward inside the block that was given ids and returned logits; their gradients are kept."""
    seen: list[Forward] = []

    def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if isinstance(ids, Tensor) and isinstance(logits, Tensor):
            if logits.requires_grad:
                logits.retain_grad()
            real = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
            seen.append(Forward(ids, real, logits))

    handle = model.register_forward_hook(hook, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


@contextmanager
def held_in_eval(model: torch.nn.Module) -> Iterator[None]:
    """The model stays in eval mode without gradient checkpointing, whatever the block asks of it."""
    modules = list(model.modules())
    training = [m.training for m in modules]
    checkpointing = [(m, m.gradient_checkpointing) for m in modules if hasattr(m, "gradient_checkpointing")]
    model.eval()
    for module, _ in checkpointing:
        object.__setattr__(module, "gradient_checkpointing", False)

    def stay(*args: Any, **kwargs: Any) -> Any:
        return model

    try:
        with replaced(model, "train", stay), replaced(model, "gradient_checkpointing_enable", stay):
            yield
    finally:
        for module, mode in zip(modules, training, strict=True):
            module.training = mode
        for module, flag in checkpointing:
            object.__setattr__(module, "gradient_checkpointing", flag)


LONGEST = 24
"""Tokens that a probe lets a sampler generate."""


def _told(kwargs: dict[str, Any], most: int) -> dict[str, Any]:
    """Arguments of generate that make it short and tell its scores."""
    config = kwargs.get("generation_config")
    if config is not None:
        config = copy.deepcopy(config)
        config.max_new_tokens = min(config.max_new_tokens or most, most)
        config.min_new_tokens = min(config.min_new_tokens or 0, most) or None
        config.return_dict_in_generate = config.output_scores = True
        given = ("return_dict_in_generate", "output_scores")
        kwargs = {k: v for k, v in kwargs.items() if k not in given} | {"generation_config": config}
    else:
        kwargs = {**kwargs, "return_dict_in_generate": True, "output_scores": True}
    for name in ("max_new_tokens", "min_new_tokens"):
        if kwargs.get(name) is not None:
            kwargs = {**kwargs, name: min(kwargs[name], most)}
    return kwargs


def _scores(found: Any, tokens: Tensor) -> Tensor:
    rows = [score.float().log_softmax(-1).gather(1, tokens[:, [n]]) for n, score in enumerate(found.scores)]
    return torch.cat(rows, 1)


class Drawn(NamedTuple):
    """What a sampler drew."""

    tokens: Tensor
    """(N, P + R), prompt included."""
    logprobs: Tensor | None
    """(N, R) under the distribution that was sampled from, after every processor; None where nothing tells it."""


def drawn(
    sample: Callable[..., Any], model: Any, ids: Tensor, real: Tensor, seed: int = 0, most: int = LONGEST
) -> Drawn:
    """What `sample` draws from a fixed random state, at most so many new tokens where it calls ``generate``."""
    torch.manual_seed(seed)
    random.seed(seed)
    scores: list[Tensor] = []
    whole = getattr(model, "generate", None)

    def generate(*args: Any, **kwargs: Any) -> Any:
        assert whole is not None
        asked = (vars(kwargs.get("generation_config") or object) | kwargs).get("return_dict_in_generate")
        with replaced(model, "generate", whole):
            found = whole(*args, **_told(kwargs, most))
        new = found.sequences[:, -len(found.scores) :]
        scores.append(_scores(found, new))
        return found if asked else found.sequences

    with replaced(model, "generate", generate) if whole is not None else nullcontext(), torch.no_grad():
        found = sample(ids, real)
    given = found[1] if isinstance(found, tuple | list) else None
    tokens = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(tokens, Tensor) or tokens.ndim != 2 or tokens.shape[1] <= ids.shape[1]:
        raise Unjudged("sample returned no tokens (N, P + R) with the prompt in front")
    told = scores[0] if len(scores) == 1 and len(scores[0]) == len(ids) else given
    return Drawn(tokens.detach(), None if told is None else torch.as_tensor(told).detach())


def sampled(
    sample: Callable[..., Any], ids: Tensor, real: Tensor, model: Any = None, seed: int = 0, most: int = LONGEST
) -> Tensor:
    """Tokens (N, P + R) that `sample` draws from a fixed random state."""
    return drawn(sample, model, ids, real, seed, most).tokens


def finished(tokens: Tensor, width: int, end: frozenset[int] | set[int]) -> list[Ids]:
    """The responses in (N, P + R): from the padded width of the prompts to the first end token, included."""
    rows = []
    for row in tokens[:, width:].tolist():
        stop = next((n + 1 for n, i in enumerate(row) if i in end), len(row))
        rows.append(row[:stop])
    return rows


def end_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    """Ids at which generation stops."""
    config = getattr(model, "generation_config", None)
    known = getattr(config, "eos_token_id", None)
    listed = known if isinstance(known, list) else [known]
    return frozenset(i for i in (*listed, special_ids(tokenizer).eos) if i is not None)


def agreement(one: Tensor, two: Tensor, width: int) -> float:
    """Share of equal new tokens (N, P + R) after the prompts' width; what only one of the two has counts as unequal."""
    a, b = one[:, width:], two[:, width:]
    shared = min(a.shape[1], b.shape[1])
    return float((a[:, :shared] == b[:, :shared]).sum()) / (len(a) * max(a.shape[1], b.shape[1]))


def spread(count: int, model: Any) -> Tensor:
    """Advantages (N,) of both signs with mean 0."""
    return torch.linspace(-1.0, 1.0, count, device=device_of(model))


def measured_temperature(
    sample: Callable[..., Any], model: Any, tokenizer: Any, rows: Sequence[Ids], declared: float
) -> float:
    """The temperature at which a sampler draws, from how often it draws tokens of scripted logits; 0 is greedy.

    Six tokens whose logits lie half a declared temperature apart: filters leave the odds of those they keep alone.
    """
    words = plain_ids(tokenizer, model, rows)[:6]
    ids = torch.tensor([rows[0]] * 96, device=device_of(model))
    with torch.no_grad():
        size = model(input_ids=ids[:1]).logits.shape[-1]
    steps = torch.arange(len(words)) * 0.5 * declared
    logits = torch.full((size,), -1e4)
    logits[words] = -steps
    with scripted_logits(model, lambda _: logits):
        new = sampled(sample, ids, torch.ones_like(ids), model)[:, ids.shape[1] :]
    counts = torch.tensor([float((new == w).sum()) for w in words])
    often = counts >= 8
    if int(often.sum()) < 2:
        return 0.0
    weight, x, y = counts[often], steps[often], counts[often].log()
    mx, my = (weight * x).sum() / weight.sum(), (weight * y).sum() / weight.sum()
    slope = float((weight * (x - mx) * (y - my)).sum() / (weight * (x - mx) ** 2).sum())
    return -1 / slope if slope < -1e-3 else math.inf


# trials of a loss -------------------------------------------------------------------------------------------------


def torch_of(values: Sequence[float], model: Any) -> Tensor:
    """A tensor on the model's device."""
    return torch.tensor(values, device=device_of(model))


def advantages_of(advantages: Callable[[Tensor], Any], rewards: Tensor) -> Tensor:
    """Advantages (G, K) of rewards (G, K), also where the function returns them flat or as numpy."""
    found = advantages(rewards.clone())
    return torch.as_tensor(found).detach().double().reshape(rewards.shape)


def trial(
    render: Callable[[Prompt], Any], tokenizer: Any, model: Any, prompts: Sequence[Prompt] | None
) -> tuple[list[Prompt], list[Ids]]:
    """Prompts and canary responses of unequal length."""
    pairs = rendered(render, prompts)
    words = plain_ids(tokenizer, model, [ids for _, ids in pairs])
    responses = canaries(words, [4, 2, 5, 3][: len(pairs)], special_ids(tokenizer).eos)
    return [prompt for prompt, _ in pairs], responses


class EntropyCase(NamedTuple):
    """What is left of the applied gradient without advantages, for some samples."""

    name: str
    samples: int
    cosine: float
    """Of the descent direction with the gradient of the responses' mean entropy, beside what lies along the gradient of
    their log-probability (a k1 KL term)."""
    surrogate: float
    """Of the descent direction with the gradient of their mean negative log-probability."""


def entropy_cases(
    backward: Callable[..., Any],
    model: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
    reference: torch.nn.Module | None,
    settings: Mapping[str, Any],
) -> list[EntropyCase]:
    """One case for all samples and for each alone: at advantages of zero, and the part even in the advantages."""
    made, responses = trial(render, tokenizer, model, prompts)
    temperature = float(settings.get("temperature") or 1.0)
    if reference is not None and reference is not model:
        align(reference, model)
    cases = []
    groups = [("all samples", list(range(len(made))))] + [(f"sample {n + 1} alone", [n]) for n in range(len(made))]
    with without_dropout(model):
        for name, chosen in groups:
            some, said = [made[n] for n in chosen], [responses[n] for n in chosen]
            # small, so that both signs are seen and no policy gradient outweighs the entropy's
            ones = torch.full((len(chosen),), 1e-3, device=device_of(model))
            plus = gradient(model, backward, some, said, ones)
            minus = gradient(model, backward, some, said, -ones)
            none = gradient(model, backward, some, said, 0 * ones)
            least = 1e-5 * max(float(plus.norm()), float(minus.norm()), 1e-3)
            ids = [flat_ids(render(p)) for p in some]
            # losses take the entropy at temperature 1 or at that of the sampler: either is right
            wanted = [_entropy_gradients(model, ids, said, tokenizer, t) for t in sorted({1.0, temperature})]
            for kind, left in (("zero advantages", none), ("even part", (plus + minus) / 2)):
                if float(left.norm()) > least:
                    raised = max(_beside(-left, *pair) for pair in wanted)
                    surprise = max((cosine(-left, s) for _, s in wanted), key=abs)
                    cases.append(EntropyCase(f"{name}, {kind}", len(chosen), raised, surprise))
                elif float(none.norm()) > least:  # the branches of either sign cancel each other
                    cases.append(EntropyCase(f"{name}, {kind}", len(chosen), 0.0, 0.0))
    return cases


def _beside(left: Tensor, entropy: Tensor, surprise: Tensor) -> float:
    """The larger cosine of two vectors: as they are, and after what lies along the third is taken from both."""
    whole, along = cosine(left, entropy), surprise / surprise.norm().clamp(min=1e-12)
    rest, wanted = left - (left @ along) * along, entropy - (entropy @ along) * along
    if float(rest.norm()) < 0.05 * float(left.norm()):
        return whole
    return max(whole, cosine(rest, wanted))


def divergence_cosine(
    backward: Callable[..., Any],
    model: torch.nn.Module,
    reference: torch.nn.Module,
    render: Callable[[Prompt], Any],
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
) -> float | None:
    """Cosine of what the reference adds to the applied gradient with the gradient of the squared log-ratio.

    Without advantages, at a reference a little away from the policy; None where the reference adds nothing.
    """
    made, responses = trial(render, tokenizer, model, prompts)
    rows = [[*flat_ids(render(p)), *r] for p, r in zip(made, responses, strict=True)]
    ids, real = pad_left(rows, special_ids(tokenizer).pad, device_of(model))
    none = torch.zeros(len(made), device=device_of(model))

    def scored(scorer: torch.nn.Module) -> Tensor:
        position = (real.cumsum(-1) - 1).clamp(min=0)
        logits = scorer(input_ids=ids, attention_mask=real, position_ids=position).logits[:, :-1]
        table = logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        return torch.cat([table[n, -len(r) :] for n, r in enumerate(responses)])

    with without_dropout(model):
        align(reference, model)
        alone = gradient(model, backward, made, responses, none)
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
            anchor = scored(reference)
        added = gradient(model, backward, made, responses, none) - alone
        wanted = gradient(model, lambda: torch.autograd.backward((scored(model) - anchor).square().mean()))
    return None if float(added.norm()) <= 1e-6 * max(float(wanted.norm()), 1e-3) else cosine(added, wanted)


def align(reference: torch.nn.Module, model: torch.nn.Module) -> None:
    """Gives the reference the policy's weights, so that KL has neither value nor gradient."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            if name in own and own[name].shape == parameter.shape:
                parameter.copy_(own[name])


def _entropy_gradients(
    model: torch.nn.Module, prompts: Sequence[Ids], responses: Sequence[Ids], tokenizer: Any, temperature: float
) -> tuple[Tensor, Tensor]:
    """Gradients of the mean entropy and of the mean negative log-probability over the tokens of the responses."""
    rows = [[*p, *r] for p, r in zip(prompts, responses, strict=True)]
    ids, real = pad_left(rows, special_ids(tokenizer).pad, device_of(model))
    position = (real.cumsum(-1) - 1).clamp(min=0)

    def mean(surprise: bool) -> None:
        logits = model(input_ids=ids, attention_mask=real, position_ids=position).logits
        table = (logits / temperature).float().log_softmax(-1)
        parts = []
        for n, response in enumerate(responses):
            where = slice(ids.shape[1] - len(response) - 1, ids.shape[1] - 1)
            if surprise:
                parts.append(-table[n, where].gather(-1, ids[n, -len(response) :, None]).squeeze(-1))
            else:
                parts.append(-(table[n, where].exp() * table[n, where]).sum(-1))
        torch.autograd.backward(torch.cat(parts).mean())

    return gradient(model, mean, False), gradient(model, mean, True)
