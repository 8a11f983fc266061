"""Generation that is watched or scripted in a block: ``generate`` of any model, or a trainer's own sampling loop."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import batch_of, pad_left, pad_right, row_ids
from .entry_points import Ids, Unjudged
from .forced_draws import OLDER, ForcedDraws, Undrawn, by_logits, forced
from .intercept import Forward, around, beside_ids, forwards, language_model, logits_of


class Call(NamedTuple):
    """What a generation was given."""

    input_ids: Tensor
    attention_mask: Tensor
    module: Any
    served: list[Ids]
    """What it answered, row by row."""
    looped: bool = False
    """Whether the trainer has a sampling loop of its own, in place of ``generate``."""


@contextmanager
def generations(model: Any, handle: Callable[..., Any], own: Callable[..., Any] | None = None) -> Iterator[None]:
    """Every ``generate`` of transformers inside the block goes to ``handle(generate, module, *args, **kwargs)``: of the
    adapter's model, of the language model in it, and of any other model.

    A ``generate`` that is a model's own takes and returns what it likes: it is a sampling loop over the model's
    forwards, or calls another ``generate``. It goes to ``own``, where that is given.
    """
    library = sys.modules.get("transformers.generation.utils")
    known = [] if model is None else list(dict.fromkeys([language_model(model), model]))
    theirs = [m for m in known if (m is language_model(m) and not _generates_itself(m)) or "generate" in vars(m)]
    kinds = [] if library is None else [library.GenerationMixin]
    with around("generate", theirs, handle, *kinds):
        loops = [m for m in known if own is not None and m not in theirs and _generates_itself(m)]
        with around("generate", loops, own or handle):
            yield


def _generates_itself(model: Any) -> bool:
    """Whether a model's class has a ``generate`` that is not of transformers."""
    owner = next((k for k in type(model).__mro__ if "generate" in vars(k)), None)
    return owner is not None and not owner.__module__.startswith(("transformers.", "peft."))


SERVING: list[_Scripted] = []
"""What answers a `ScriptedSampler` now, the innermost last."""


class Sampling:
    """What was sampled under a script in a block."""

    def __init__(self) -> None:
        self.loops: list[Any] = []
        """The models whose sampling loop was scripted."""
        self.inputs: list[Tensor] = []
        """The ids that a sampler gave its model: such a forward scores nothing for the loss."""

    def made(self, forward: Forward) -> bool:
        """Whether a sampler made this forward."""
        return any(forward.input_ids is ids for ids in self.inputs)


_WATCHING: list[Sampling] = []


@contextmanager
def scripted_sampling() -> Iterator[Sampling]:
    """What is sampled under a script inside the block."""
    seen = Sampling()
    _WATCHING.append(seen)
    try:
        yield seen
    finally:
        _WATCHING.pop()


def sampled_with(ids: Tensor) -> None:
    """Notes that a sampler gives its model these ids."""
    for seen in _WATCHING:
        seen.inputs.append(ids)


def put_through(mask: Callable[..., Any], prompts: Sequence[Ids], responses: Sequence[Ids], end: int | None) -> Any:
    """The batch that a trainer makes of responses, and the responses as its sampler said them.

    A sampling loop by hand that is told a response without an end token goes on, and gets one: it is part of what was
    sampled.
    """
    with scripted_sampling() as sampling:
        batch = batch_of(mask(prompts, responses))
    said = [[*r, end] if sampling.loops and end is not None and r[-1] != end else list(r) for r in responses]
    rows = [row_ids(batch, n) for n in range(len(said))]
    return batch, [
        s if row[len(row) - len(s) :] == s else list(r) for s, r, row in zip(said, responses, rows, strict=True)
    ]


CONVERSATIONS: list[dict[tuple[int, ...], list[Ids]]] = []
"""What the policy says, turn by turn, in conversations that a probe hands to a loss; the innermost last."""


@contextmanager
def in_turns(conversations: Sequence[tuple[Ids, list[Ids]]]) -> Iterator[None]:
    """Scripted responses that are one of these conversations are served a turn at a time inside the block."""
    CONVERSATIONS.append({tuple(ids): turns for ids, turns in conversations})
    try:
        yield
    finally:
        CONVERSATIONS.pop()


class _Turns:
    """Conversations that are under way: a row that goes on with what was answered before gets its next turn."""

    def __init__(self, turns: Sequence[list[Ids]]) -> None:
        self.turns = turns
        self.before: list[Ids] = []
        """Of the conversations that have begun, everything up to the last answer."""
        self.count: list[int] = []

    def __call__(self, rows: Sequence[Ids]) -> list[Ids]:
        taken: set[int] = set()
        return [self._next(row, taken) for row in rows]

    def _next(self, row: Ids, taken: set[int]) -> Ids:
        begun = [n for n in range(len(self.before)) if n not in taken and self.count[n] < len(self.turns[n])]
        on = [n for n in begun if row[: len(self.before[n])] == self.before[n]]
        if not on and len(self.before) == len(self.turns):
            on = begun  # what was said before is given in other ids
        if not on:
            self.before.append([])
            self.count.append(0)
        at = on[0] if on else len(self.before) - 1
        taken.add(at)
        turns = self.turns[at % len(self.turns)]
        answer = turns[self.count[at] % len(turns)]
        self.count[at] += 1
        self.before[at] = [*row, *answer]
        return list(answer)


class _Scripted:
    """Responses that are served in order, whoever asks for them, and what was asked.

    Attributes:
        calls: the generations so far.
    """

    def __init__(self, model: Any, responses: Sequence[Ids], pad: int, end: int | None) -> None:
        self.model, self._responses, self._pad = model, responses, pad
        self._served = 0
        self._generates = False  # a `generate` was called, so that forwards beside it are none of a loop
        self._inside = False
        serve = functools.partial(self.serve, looped=True)
        self.draws = None if by_logits() else ForcedDraws()
        self._loop = _Loop(serve, self._take_back, self._went_on, pad, pad if end is None else end, self.draws)
        self.calls: list[Call] = []
        known = CONVERSATIONS[-1] if CONVERSATIONS else {}
        turns = [known.get(tuple(r)) for r in responses]
        self._turns = _Turns([t for t in turns if t is not None]) if turns and None not in turns else None

    def serve(self, ids: Tensor, real: Tensor, module: Any, looped: bool = False) -> list[Ids]:
        if self._turns is not None:
            rows = self._turns([row[r > 0].tolist() for row, r in zip(ids, real, strict=True)])
        else:
            rows = [list(self._responses[(self._served + n) % len(self._responses)]) for n in range(len(ids))]
        self._served += len(ids)
        self.calls.append(Call(ids, real, module, rows, looped))
        return rows

    def answer(self, ids: Tensor, real: Tensor, engine: Any) -> list[Ids]:
        """What an engine answers to these prompts (N, P)."""
        self._generates = True
        return self.serve(ids, real, engine)

    def generate(self, call: Any, module: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        """In place of the ``generate`` of transformers."""
        self._generates = True
        if getattr(getattr(module, "config", None), "is_encoder_decoder", False):
            raise Unjudged("an encoder and a decoder: their prompts and responses do not stand in one row")
        ids = kwargs.get("input_ids", kwargs.get("inputs", inputs))
        times = int(asked(kwargs, "num_return_sequences") or 1)
        ids = ids.repeat_interleave(times, 0)
        real = attended(kwargs, inputs, module, self._pad).repeat_interleave(times, 0)
        beside = beside_ids(module, ids, real, kwargs)
        tokens = torch.cat([ids, pad_right(self.serve(ids, real, module), self._pad, ids.device)], 1)
        if not asked(kwargs, "return_dict_in_generate"):
            return tokens
        sampled_with(tokens)
        written = (tokens[:, ids.shape[1] :] != self._pad).to(real)
        with torch.no_grad():
            logits = logits_of(module, tokens, torch.cat([real, written], 1), beside)
        return _Generated(tokens, logits[:, ids.shape[1] - 1 : -1], float(asked(kwargs, "temperature") or 1.0))

    def own(self, call: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        """A ``generate`` that is the model's own: a sampling loop."""
        self._generates = self._inside = True
        self._loop.begin()
        try:
            return call(*args, **kwargs)
        finally:
            self._inside = False

    def forward(self, forward: Forward) -> Tensor | None:
        """The logits of a sampling loop, where they are other than the model's; its draws are forced."""
        other = (self._generates and not self._inside) or forward.logits.requires_grad
        return None if other else self._loop(forward)

    def _take_back(self) -> None:
        """What was served last was asked for by nobody."""
        self._served -= len(self.calls.pop().served)

    def _went_on(self, given: list[Ids], drawn: list[Ids]) -> None:
        call = self.calls[-1]._replace(served=drawn)
        if sum(map(len, given)) > int(call.attention_mask.sum()):  # some rows were still in their prompts
            ids, real = pad_left(given, self._pad)
            call = call._replace(input_ids=ids, attention_mask=real)
        self.calls[-1] = call


@contextmanager
def scripted_generate(model: Any, responses: Sequence[Ids], pad: int, end: int | None = None) -> Iterator[list[Call]]:
    """Generation returns its prompts followed by these responses, in order, over all calls of the block.

    A sampler with a loop of its own, that never calls ``generate``, sees the model's logits and must draw these.
    """
    scripted = _Scripted(model, responses, pad, end)
    SERVING.append(scripted)
    try:
        with (
            generations(model, scripted.generate, scripted.own),
            forwards([model] if model is not None else [], scripted.forward),
            forced(scripted.draws) if scripted.draws is not None and model is not None else nullcontext(),
        ):
            yield scripted.calls
    finally:
        SERVING.remove(scripted)


def asked(kwargs: dict[str, Any], name: str) -> Any:
    """What a call of ``generate`` asks for, by argument or by its configuration."""
    value = kwargs.get(name)
    return getattr(kwargs.get("generation_config"), name, None) if value is None else value


def attended(kwargs: dict[str, Any], inputs: Tensor | None, module: Any, pad: int) -> Tensor:
    """(N, P) the attention mask of a call of ``generate``: its own, or what transformers infers without one.

    It takes the padding for real tokens where its pad token is unknown or an end token. ``pad`` is the padding of a
    model that is not of transformers.
    """
    given = kwargs.get("attention_mask")
    if isinstance(given, Tensor):
        return given
    ids: Any = kwargs.get("input_ids", kwargs.get("inputs", inputs))
    config = getattr(module, "generation_config", None)
    filler, end = (asked(kwargs, name) for name in ("pad_token_id", "eos_token_id"))
    if config is None:
        filler, end = pad, None
    else:
        filler = config.pad_token_id if filler is None else filler
        end = config.eos_token_id if end is None else end
    known = filler is not None and filler not in (end if isinstance(end, list) else [end])
    real: Tensor = (ids != filler).long() if known else torch.ones_like(ids)
    return real


@contextmanager
def recorded_generate(model: Any, pad: int) -> Iterator[list[Call]]:
    """What every generation inside the block was given and answered; of a model's own where it returns its prompts with
    what follows."""
    calls: list[Call] = []

    def generate(call: Any, module: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        given = () if inputs is None else (inputs, *args)
        found = call(*given, **kwargs)
        ids: Any = kwargs.get("input_ids", kwargs.get("inputs", inputs))
        tokens: Any = found if isinstance(found, Tensor) else getattr(found, "sequences", None)
        if not _goes_on(ids, tokens):
            return found
        times = len(tokens) // len(ids)
        real = attended(kwargs, inputs, module, pad)
        new = tokens[:, ids.shape[1] :].tolist()
        calls.append(Call(ids.repeat_interleave(times, 0), real.repeat_interleave(times, 0), module, new))
        return found

    with generations(model, generate, generate):
        yield calls


def _goes_on(ids: Any, tokens: Any) -> bool:
    """Whether tokens (N, P + R) begin with ids (N, P), each row once or several times."""
    if not (isinstance(ids, Tensor) and isinstance(tokens, Tensor) and ids.ndim == tokens.ndim == 2):
        return False
    times, rest = divmod(len(tokens), len(ids))
    return times > 0 and rest == 0 and torch.equal(tokens[::times, : ids.shape[1]], ids)


def copies_that_generate(sample: Callable[[], Any], model: Any, pad: int) -> list[torch.nn.Module]:
    """The models that a sampler generates with and that are not the adapter's own."""
    with scripted_generate(model, [[pad]], pad) as calls:
        sample()
    own = set(model.modules()) if isinstance(model, torch.nn.Module) else set()
    found = (language_model(call.module) for call in calls)
    return [m for m in dict.fromkeys(found) if isinstance(m, torch.nn.Module) and m not in own]


class _Loop:
    """A sampling loop: one token of each row's response a forward, with or without a cache, by forced draws or logits.

    A loop that begins at the shortest prompt puts the rest of the longer ones in place of what was sampled: only after
    them a row's response begins. One that puts what it has sampled through the model once more, to keep its
    log-probability, draws the same again. A forward over whole responses that were said before scores them,
    for old log-probabilities say, and is none of the loop: it is left as it is.
    """

    def __init__(
        self,
        serve: Callable[..., list[Ids]],
        take_back: Callable[[], None],
        went_on: Callable[[list[Ids], list[Ids]], None],
        pad: int,
        end: int,
        draws: ForcedDraws | None,
    ) -> None:
        self.serve, self.take_back, self.went_on, self.pad, self.end = serve, take_back, went_on, pad, end
        self.draws = draws
        """None where the loop is given one-hot logits."""
        self.rows: list[Ids] = []
        self.given: list[Ids] = []
        self.said: list[int] = []
        """How many tokens of its response each row has said."""
        self.last: Tensor | None = None
        """The ids (N, T) of the last forward."""
        self.last_only = False
        """Whether the loop began with a forward that gave the logits of the last place alone."""
        self.whole: list[tuple[Ids, int]] = []
        """Prompts with the responses that were said after them and an end token, and the length of the prompt."""
        self.before: tuple[list[Ids], list[Ids]] | None = None
        """What was given and served before ids came again of which it cannot be told yet whether they begin anew."""

    def begin(self) -> None:
        """What comes goes on with nothing that was before."""
        self.whole += self._now()
        self.rows, self.given, self.said, self.last_only = [], [], [], False

    def __call__(self, forward: Forward) -> Tensor | None:
        ids = forward.input_ids
        more = ids[:, -1].tolist() if self._goes_on(ids) else None
        whole = ids.shape[1] > 1 and forward.logits.shape[1] == ids.shape[1]
        if more is None and (self._scores(ids) or (self.last_only and whole)):
            return None
        if self.draws is not None and more is not None and self.draws.fresh:
            raise Undrawn
        self._settle(more)
        again = bool(self.rows) and self.last is not None and torch.equal(ids, self.last)
        if more is not None:
            self._go_on(more)
        elif not again or not any(said or len(row) > 1 for said, row in zip(self.said, self.rows, strict=True)):
            self.before = (self.given, self.rows) if again else None
            self._begins(forward)
        self.last = ids
        sampled_with(ids)
        wanted = [row[said] if said < len(row) else self.end for row, said in zip(self.rows, self.said, strict=True)]
        over = all(said >= len(row) + (row[-1] != self.end) for said, row in zip(self.said, self.rows, strict=True))
        # a loop may stop before a response is said
        self.went_on(self.given, [row[: said + 1] for row, said in zip(self.rows, self.said, strict=True)])
        return self._one_hot(forward.logits, wanted, over) if self.draws is None else self._real(forward, wanted, again)

    def _begins(self, forward: Forward) -> None:
        ids, real = forward.input_ids, forward.attention_mask
        real = (ids != self.pad).long() if real is None else real
        for seen in _WATCHING:
            seen.loops.append(forward.module)
        self.whole += self._now()
        self.last_only = forward.logits.shape[1] < ids.shape[1]
        self.rows, self.said = self.serve(ids, real, forward.module), [0] * len(ids)
        self.given = [row[r > 0].tolist() for row, r in zip(ids, real, strict=True)]

    def _one_hot(self, logits: Tensor, wanted: Ids, over: bool) -> Tensor:
        """Logits that leave the loop no other choice."""
        scripted = logits.clone()
        told = scripted[:, -1:] if over else scripted  # the other places may score what was said
        told.fill_(-1e4)
        for n, token in enumerate(wanted):
            told[n, :, token] = 1e4
        return scripted

    def _real(self, forward: Forward, wanted: Ids, again: bool) -> Tensor | None:
        """The model's own logits; a probe may have the first token of a response less likely in them."""
        assert self.draws is not None
        logits, changed, rows = forward.logits, None, torch.arange(len(wanted))
        real, behind = forward.attention_mask, forward.input_ids.shape[1] - forward.logits.shape[1]
        last = torch.full((len(wanted),), forward.input_ids.shape[1] - 1)
        if real is not None:  # prompts that are padded on the right go on from their own last token
            last = (real.cpu() * torch.arange(1, real.shape[1] + 1)).argmax(-1)
        last = (last - behind).clamp(min=0)
        for n, row in enumerate(self.rows):
            if OLDER and not self.said[n] and row:
                changed = logits.clone() if changed is None else changed
                OLDER[-1](row, changed[n, last[n]])
        self.draws.expect((logits if changed is None else changed)[rows, last], wanted, again)
        return changed

    def _goes_on(self, ids: Tensor) -> bool:
        """Whether this is one token more of every row, alone (with a cache) or behind the others."""
        if not self.rows or self.last is None or len(ids) != len(self.last):
            return False
        return ids.shape[1] == 1 or torch.equal(ids[:, :-1], self.last)

    def _scores(self, ids: Tensor) -> bool:
        """Whether every row is a prompt with all of a response that was said, the last token of it or not."""
        said = [*self.whole, *self._now()]
        return bool(said) and all(any(self._is_all_of(row, *one) for one in said) for row in ids.tolist())

    def _now(self) -> list[tuple[Ids, int]]:
        return [([*given, *row, self.end], len(given)) for given, row in zip(self.given, self.rows, strict=True)]

    def _is_all_of(self, row: Ids, whole: Ids, prompt: int) -> bool:
        first = next((n for n, token in enumerate(row) if token != self.pad), len(row))
        last = next((n for n in range(len(row), 0, -1) if row[n - 1] != self.pad), 0)
        bare = row[first:last]
        return len(bare) > prompt and len(bare) >= len(whole) - 2 and bare == whole[: len(bare)]

    def _settle(self, fed: Ids | None) -> None:
        """Takes back what was served to ids that came again after responses of one token, where it was not sampled: it
        would have begun with the tokens that were fed, or have gone on."""
        if self.before is None:
            return
        (given, rows), self.before = self.before, None
        begun = [row[0] if row else self.end for row in self.rows]
        if fed != begun if fed else any(len(row) > 1 for row in self.rows):
            self.take_back()
            self.given, self.rows, self.said = given, rows, [0] * len(rows)

    def _go_on(self, fed: Sequence[int]) -> None:
        for n, (token, row) in enumerate(zip(fed, self.rows, strict=True)):
            said = self.said[n]
            over = said >= len(row)
            # whatever fills up a row that has ended; a lone end token may have been one of the prompt's
            filled = over and (len(row) > 1 or token in (self.end, self.pad))
            if filled or (not over and token == row[said]):
                self.said[n] += 1
            else:  # not what was sampled: the row is still in its prompt
                self.given[n] += [*row[:said], token]
                self.said[n] = 0


class _Generated:
    """What ``generate`` returns as a mapping: logits and scores (N, V) a step are the model's own for these tokens."""

    def __init__(self, sequences: Tensor, logits: Tensor, temperature: float) -> None:
        self.sequences = sequences
        self.logits = tuple(logits.unbind(1))
        self.scores = tuple((logits / temperature).unbind(1))
        self.past_key_values = None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)
