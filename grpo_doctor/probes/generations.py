"""Records or scripts generation inside a block: ``generate`` of any model, or a trainer's own sampling loop."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import batch_of, pad_left, pad_right, row_ids
from .entry_points import Ids, Unjudged
from .forced_draws import OLDER, ForcedDraws, Undrawn, by_logits, forced
from .intercept import Forward, around, extra_inputs, forwards, kept_in, language_model, logits_of


class Call(NamedTuple):
    """The input of one generation."""

    input_ids: Tensor
    attention_mask: Tensor
    module: Any
    served: list[Ids]
    """The output of the generation, row by row."""
    looped: bool = False
    """Whether the trainer has its own sampling loop instead of ``generate``."""


@contextmanager
def generations(model: Any, handle: Callable[..., Any], own: Callable[..., Any] | None = None) -> Iterator[None]:
    """Redirect every transformers ``generate`` inside the block to ``handle(generate, module, *args, **kwargs)``.
    The calls of the adapter's model, of the language model inside it, and of every other model are redirected.

    A model's own ``generate`` may have any arguments and results: it is a sampling loop over the model's forward
    passes, or it calls another ``generate``. If ``own`` is given, a model's own ``generate`` is redirected to it.
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
    """Return whether a model's class has its own ``generate``."""
    owner = next((k for k in type(model).__mro__ if "generate" in vars(k)), None)
    return owner is not None and not owner.__module__.startswith(("transformers.", "peft."))


SERVING: list[_Scripted] = []
"""Sources of answers for a `ScriptedSampler`; the source of the innermost block is last."""


class Sampling:
    """The samples that are drawn under a script inside a block."""

    def __init__(self) -> None:
        self.loops: list[Any] = []
        """The models whose sampling loop was scripted."""
        self.inputs: list[Tensor] = []
        """The ids that a sampler passed to its model. A forward pass on these ids does not score responses for the
        loss."""

    def made(self, forward: Forward) -> bool:
        """Return whether a sampler made this forward pass."""
        return any(forward.input_ids is ids for ids in self.inputs)


_WATCHING: list[Sampling] = []


def scripted_sampling() -> AbstractContextManager[Sampling]:
    """Record the samples that are drawn under a script inside the block."""
    return kept_in(_WATCHING, Sampling())


def sampled_with(ids: Tensor) -> None:
    """Record that a sampler passes these ids to its model."""
    for seen in _WATCHING:
        seen.inputs.append(ids)


def put_through(mask: Callable[..., Any], prompts: Sequence[Ids], responses: Sequence[Ids], end: int | None) -> Any:
    """Return a trainer's batch for some responses, and the responses that the trainer's sampler actually produced.

    A custom sampling loop continues after a scripted response without an end token. The loop then receives an end
    token, which counts as sampled.
    """
    with scripted_sampling() as sampling:
        batch = batch_of(mask(prompts, responses))
    said = [[*r, end] if sampling.loops and end is not None and r[-1] != end else list(r) for r in responses]
    rows = [row_ids(batch, n) for n in range(len(said))]
    return batch, [
        s if row[len(row) - len(s) :] == s else list(r) for s, r, row in zip(said, responses, rows, strict=True)
    ]


CONVERSATIONS: list[dict[tuple[int, ...], list[Ids]]] = []
"""The policy's turns in conversations that a probe passes to a loss; the conversations of the innermost block are
last."""


def conversations_served(conversations: Sequence[tuple[Ids, list[Ids]]]) -> AbstractContextManager[Any]:
    """Serve scripted responses turn by turn inside the block if they belong to one of these conversations."""
    return kept_in(CONVERSATIONS, {tuple(ids): turns for ids, turns in conversations})


COPIES: list[int] = [1]
"""How often each response is served before the next one; the number of the innermost block is last."""


def in_copies(count: int) -> AbstractContextManager[Any]:
    """Serve every scripted response this many times inside the block, because a trainer samples groups."""
    return kept_in(COPIES, count)


class _Conversations:
    """Conversations in progress. A row that continues the previous answer of a conversation receives its next turn."""

    def __init__(self, turns: Sequence[list[Ids]]) -> None:
        self.turns = turns
        self.before: list[Ids] = []
        """The ids up to the last answer, for each conversation that has started."""
        self.count: list[int] = []

    def __call__(self, rows: Sequence[Ids]) -> list[Ids]:
        taken: set[int] = set()
        return [self._next(row, taken) for row in rows]

    def _next(self, row: Ids, taken: set[int]) -> Ids:
        begun = [n for n in range(len(self.before)) if n not in taken and self.count[n] < len(self.turns[n])]
        on = [n for n in begun if row[: len(self.before[n])] == self.before[n]]
        if not on and len(self.before) == len(self.turns):
            on = begun  # the trainer encoded the previous text as other ids
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
    """Responses that are served in order to any caller, and the calls that requested the responses.

    Attributes:
        calls: the generations so far.
    """

    def __init__(self, model: Any, responses: Sequence[Ids], pad: int, end: int | None) -> None:
        self.model, self._responses, self._pad = model, responses, pad
        self._served = 0
        self._generates = False  # `generate` was called, so other forward passes do not belong to a loop
        self._inside = False
        serve = functools.partial(self.serve, looped=True)
        self.draws = None if by_logits() else ForcedDraws()
        self._loop = _Loop(serve, self._take_back, self._went_on, pad, pad if end is None else end, self.draws)
        self.calls: list[Call] = []
        known = CONVERSATIONS[-1] if CONVERSATIONS else {}
        turns = [known.get(tuple(r)) for r in responses]
        self._turns = _Conversations([t for t in turns if t is not None]) if turns and None not in turns else None

    def serve(self, ids: Tensor, real: Tensor, module: Any, looped: bool = False) -> list[Ids]:
        if self._turns is not None:
            rows = self._turns([row[r > 0].tolist() for row, r in zip(ids, real, strict=True)])
        else:
            rows = [
                list(self._responses[(self._served + n) // COPIES[-1] % len(self._responses)]) for n in range(len(ids))
            ]
        self._served += len(ids)
        self.calls.append(Call(ids, real, module, rows, looped))
        return rows

    def answer(self, ids: Tensor, real: Tensor, engine: Any) -> list[Ids]:
        """Return an engine's answers to these prompts (N, P)."""
        self._generates = True
        return self.serve(ids, real, engine)

    def generate(self, call: Any, module: Any, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Replace transformers' ``generate``."""
        self._generates = True
        if getattr(getattr(module, "config", None), "is_encoder_decoder", False):
            raise Unjudged("the model is an encoder-decoder, so prompts and responses are not in one row")
        ids = kwargs.get("input_ids", kwargs.get("inputs", inputs))
        times = int(generation_option(kwargs, "num_return_sequences") or 1)
        ids = ids.repeat_interleave(times, 0)
        real = attended(kwargs, inputs, module, self._pad).repeat_interleave(times, 0)
        beside = extra_inputs(module, ids, real, kwargs)
        tokens = torch.cat([ids, pad_right(self.serve(ids, real, module), self._pad, ids.device)], 1)
        if not generation_option(kwargs, "return_dict_in_generate"):
            return tokens
        sampled_with(tokens)
        written = (tokens[:, ids.shape[1] :] != self._pad).to(real)
        with torch.no_grad():
            logits = logits_of(module, tokens, torch.cat([real, written], 1), beside)
        return _Generated(
            tokens, logits[:, ids.shape[1] - 1 : -1], float(generation_option(kwargs, "temperature") or 1.0)
        )

    def own(self, call: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        """Replace a model's own ``generate``, which is a sampling loop."""
        self._generates = self._inside = True
        self._loop.begin()
        try:
            return call(*args, **kwargs)
        finally:
            self._inside = False

    def forward(self, forward: Forward) -> Tensor | None:
        """Process a forward pass of a sampling loop, whose draws are forced. Return logits for the loop if they must
        differ from the model's."""
        other = (self._generates and not self._inside) or forward.logits.requires_grad
        return None if other else self._loop(forward)

    def _take_back(self) -> None:
        """Withdraw the last answer, because no generation requested it."""
        self._served -= len(self.calls.pop().served)

    def _went_on(self, given: list[Ids], drawn: list[Ids]) -> None:
        call = self.calls[-1]._replace(served=drawn)
        if sum(map(len, given)) > int(call.attention_mask.sum()):  # the loop had not reached the end of some prompts
            ids, real = pad_left(given, self._pad)
            call = call._replace(input_ids=ids, attention_mask=real)
        self.calls[-1] = call


@contextmanager
def scripted_generate(model: Any, responses: Sequence[Ids], pad: int, end: int | None = None) -> Iterator[list[Call]]:
    """Make generation return its prompts followed by these responses, in order, over all calls of the block.

    A sampler with its own loop, which never calls ``generate``, receives the model's logits and is forced to draw these
    tokens.
    """
    scripted = _Scripted(model, responses, pad, end)
    with (
        kept_in(SERVING, scripted),
        generations(model, scripted.generate, scripted.own),
        forwards([model] if model is not None else [], scripted.forward),
        forced(scripted.draws) if scripted.draws is not None and model is not None else nullcontext(),
    ):
        yield scripted.calls


def generation_option(kwargs: dict[str, Any], name: str) -> Any:
    """Return a parameter of a ``generate`` call from its arguments or its configuration."""
    value = kwargs.get(name)
    return getattr(kwargs.get("generation_config"), name, None) if value is None else value


def attended(kwargs: dict[str, Any], inputs: Tensor | None, module: Any, pad: int) -> Tensor:
    """Return the attention mask (N, P) of a ``generate`` call, which is the given mask or the mask that transformers
    infers.

    transformers treats padding as real tokens if the pad token is unknown or is an end token. ``pad`` is the padding id
    for models that are not from transformers.
    """
    given = kwargs.get("attention_mask")
    ids: Any = kwargs.get("input_ids", kwargs.get("inputs", inputs))
    if isinstance(given, Tensor):
        return given if ids is None else given.expand(len(ids), *given.shape[1:])
    config = getattr(module, "generation_config", None)
    filler, end = (generation_option(kwargs, name) for name in ("pad_token_id", "eos_token_id"))
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
    """Record the input and output of every generation inside the block. A model's own ``generate`` is included if it
    returns the prompts and the continuation."""
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
    """Return whether tokens (N, P + R) continue the rows of ids (N, P), each row once or several times."""
    if not (isinstance(ids, Tensor) and isinstance(tokens, Tensor) and ids.ndim == tokens.ndim == 2):
        return False
    times, rest = divmod(len(tokens), len(ids))
    return times > 0 and rest == 0 and torch.equal(tokens[::times, : ids.shape[1]], ids)


def copies_that_generate(sample: Callable[[], Any], model: Any, pad: int) -> list[torch.nn.Module]:
    """Return the models with which a sampler generates, except the adapter's own model and its parts."""
    with scripted_generate(model, [[pad]], pad) as calls:
        sample()
    own = set(model.modules()) if isinstance(model, torch.nn.Module) else set()
    found = (language_model(call.module) for call in calls)
    return [m for m in dict.fromkeys(found) if isinstance(m, torch.nn.Module) and m not in own]


class _Loop:
    """A sampling loop with one token per row and forward pass, with or without a cache, scripted by forced draws or by
    logits.

    A loop that begins at the shortest prompt replaces sampled tokens with the rest of the longer prompts; a row's
    response begins after its prompt. If a loop passes its sampled tokens through the model again, to store their
    log-probabilities, the loop draws the same tokens. A forward pass over complete earlier responses only scores them,
    for example to compute old log-probabilities. Such a pass does not belong to the loop and is not changed.
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
        """None if the loop receives one-hot logits."""
        self.rows: list[Ids] = []
        self.given: list[Ids] = []
        self.said: list[int] = []
        """Number of response tokens in each row so far."""
        self.last: Tensor | None = None
        """The ids (N, T) of the last forward pass."""
        self.last_only = False
        """Whether the loop began with a pass that returned only the logits of the last position."""
        self.whole: list[tuple[Ids, int]] = []
        """Complete sequences of prompt, response and end token, each with the length of its prompt."""
        self.before: tuple[list[Ids], list[Ids]] | None = None
        """Earlier inputs and answers, which are kept while it is unknown whether repeated ids begin a new response."""

    def begin(self) -> None:
        """Begin a new response that is independent of all earlier responses."""
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
        # a loop may stop before a response is complete
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
        """Return logits with which the loop can draw only the wanted token."""
        scripted = logits.clone()
        told = scripted[:, -1:] if over else scripted  # the other positions may score the drawn tokens
        told.fill_(-1e4)
        for n, token in enumerate(wanted):
            told[n, :, token] = 1e4
        return scripted

    def _real(self, forward: Forward, wanted: Ids, again: bool) -> Tensor | None:
        """Return the model's own logits, in which a probe may have lowered the logit of a response's first token."""
        assert self.draws is not None
        logits, changed, rows = forward.logits, None, torch.arange(len(wanted))
        real, behind = forward.attention_mask, forward.input_ids.shape[1] - forward.logits.shape[1]
        last = torch.full((len(wanted),), forward.input_ids.shape[1] - 1)
        if real is not None:  # a prompt that is padded on the right continues after its last token
            last = (real.cpu() * torch.arange(1, real.shape[1] + 1)).argmax(-1)
        last = (last - behind).clamp(min=0)
        for n, row in enumerate(self.rows):
            if OLDER and not self.said[n] and row:
                changed = logits.clone() if changed is None else changed
                OLDER[-1](row, changed[n, last[n]])
        self.draws.expect((logits if changed is None else changed)[rows, last], wanted, again)
        return changed

    def _goes_on(self, ids: Tensor) -> bool:
        """Return whether this pass adds one token to every row, alone (with a cache) or after the previous tokens."""
        if not self.rows or self.last is None or len(ids) != len(self.last):
            return False
        return ids.shape[1] == 1 or torch.equal(ids[:, :-1], self.last)

    def _scores(self, ids: Tensor) -> bool:
        """Return whether every row is a prompt followed by a complete earlier response, which may lack its last
        token."""
        said = [*self.whole, *self._now()]
        return bool(said) and all(any(self._is_all_of(row, *one) for one in said) for row in ids.tolist())

    def _now(self) -> list[tuple[Ids, int]]:
        return [([*given, *row, self.end], len(given)) for given, row in zip(self.given, self.rows, strict=True)]

    def _is_all_of(self, row: Ids, whole: Ids, prompt: int) -> bool:
        first = next((n for n, token in enumerate(row) if token != self.pad), len(row))
        last = next((n for n in range(len(row), 0, -1) if row[n - 1] != self.pad), 0)
        bare = row[first:last]
        same = bare[: len(whole)] == whole[: len(bare)] and {*bare[len(whole) :]} <= {self.end}  # other rows continue
        return same and len(bare) > prompt and len(bare) >= len(whole) - 2

    def _settle(self, fed: Ids | None) -> None:
        """Withdraw answers to ids that were repeated after responses of one token, unless these tokens were sampled.
        Sampled tokens would have begun or continued the response."""
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
            # padding of a row that has ended; a single end token may belong to the prompt
            filled = over and (len(row) > 1 or token in (self.end, self.pad))
            if filled or (not over and token == row[said]):
                self.said[n] += 1
            else:  # a token of the prompt, not the sampled token
                self.given[n] += [*row[:said], token]
                self.said[n] = 0


class _Generated:
    """The mapping form of ``generate``'s result: logits and scores (N, V) at each step are the model's own for these
    tokens."""

    def __init__(self, sequences: Tensor, logits: Tensor, temperature: float) -> None:
        self.sequences = sequences
        self.logits = tuple(logits.unbind(1))
        self.scores = tuple((logits / temperature).unbind(1))
        self.past_key_values = None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)
