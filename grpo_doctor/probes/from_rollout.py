"""Derives entry points from a trainer's `rollout`, by calling it with a scripted ``generate``.

The input of ``generate`` is the rendered prompt, and the result of the rollout for canary ids is the extracted
response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .crafted_inputs import agrees, flat_ids, pad_right, special_ids, split_rows
from .entry_points import Adapter, Ids, NotApplicable, NotObserved, Prompt, Unjudged
from .generations import Call, recorded_generate, scripted_generate
from .intercept import Forward, watched


class Remembering:
    """Renders prompts and remembers the ids of each prompt, because composite entry points take prompts, while
    fine-grained entry points take ids."""

    def __init__(self, render: Callable[[Prompt], Any]) -> None:
        self.render = render
        self.prompts: dict[tuple[int, ...], Prompt] = {}

    def __call__(self, prompt: Prompt) -> Ids:
        ids = flat_ids(self.render(prompt))
        self.prompts[tuple(ids)] = prompt
        return ids

    def back(self, rows: Sequence[Ids]) -> list[Prompt]:
        """Return the prompts that were rendered to these ids."""
        try:
            return [self.prompts[tuple(row)] for row in rows]
        except KeyError:
            raise Unjudged("a composite entry point accepts only the adapter's own prompts") from None


class Conversation(NamedTuple):
    """The result of a multi-turn rollout for one prompt, without the prompt."""

    prompt: Prompt
    ids: Ids
    generated: list[bool]
    """The ids that the policy generated."""
    elsewhere: int
    """Number of turns in which the input to generation was not the prompt and all text so far."""
    endless: int
    """Number of turns without the end token with which they were generated."""
    marked: list[bool] | None = None
    """The ids that the trainer's own mask marks as generated, or None if there is no mask."""


class RolloutEntryPoints:
    """The adapter's `rollout`, and the fine-grained entry points derived from it."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter, self.rollout = adapter, adapter.seams["rollout"]
        self.special = special_ids(adapter.tokenizer)
        self.prompts: dict[tuple[int, ...], Prompt] = {}
        self.rows: dict[str, Ids] = {}
        """Cache of earlier results, because a whole rollout is expensive."""

    def __call__(self, prompts: Sequence[Prompt]) -> Any:
        return self.rollout(prompts)

    def _scripted(self, responses: Sequence[Ids]) -> Any:
        return scripted_generate(self.adapter.model, responses, self.special.pad, self.special.eos)

    def _prompts_of(self, rows: Sequence[Ids]) -> list[Prompt]:
        if any(tuple(row) not in self.prompts for row in rows):
            raise Unjudged("rollout accepts only the adapter's own prompts")
        return [self.prompts[tuple(row)] for row in rows]

    def render(self, prompt: Prompt) -> Ids:
        """Return the ids that `rollout` passes to generate for this prompt."""
        if (known := self.rows.get(repr(prompt))) is not None:
            return known
        end = self.special.eos if self.special.eos is not None else self.special.pad
        with self._scripted([[end]]) as calls:
            self.rollout([prompt])
        if not calls:
            raise NotObserved(NEVER)
        ids = self.rows[repr(prompt)] = _attended(calls[0], 0)
        self.prompts[tuple(ids)] = prompt
        return ids

    def extract(self, tokens: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Return the result of `rollout` for a ``generate`` that returns the response part of these tokens.

        In a multi-turn rollout, a row with the generated ids, with or without the text in between, counts as the
        canary.
        """
        rows = [r[m > 0].tolist() for r, m in zip(input_ids, attention_mask, strict=True)]
        prompts = self._prompts_of(rows)
        answers = [r.tolist() for r in tokens[:, input_ids.shape[1] :]]
        with self._scripted(answers) as calls:
            found = self.rollout(prompts)
        if not calls:
            raise NotObserved(NEVER)
        if found is None:
            raise NotApplicable("rollout returns no responses")
        turns = _turns(calls, rows)
        if all(len(t) < 2 for t in turns):
            return found
        spoken = split_rows(found, [len(a) for a in answers])
        return [
            answer if any(agrees(said, c, self.adapter.tokenizer) for c in _candidates(row, turn)) else said
            for said, answer, row, turn in zip(spoken, answers, rows, turns, strict=True)
        ]

    def conversations(self, prompts: Sequence[Prompt], answers: Sequence[Ids]) -> list[Conversation]:
        """Return the results of `rollout` when these answers are served in order. Raises `Unjudged` if there is only
        one turn, or if the generated ids are unknown."""
        rows = [self.render(p) for p in prompts]
        with self._scripted(answers) as calls:
            found = self.rollout(prompts)
        turns = _turns(calls, rows)
        if all(len(turn) < 2 for turn in turns):
            raise NotApplicable("rollout makes only one turn")
        out = []
        responses = split_rows(found, [1] * len(prompts))
        for prompt, said, turn, row in zip(prompts, responses, turns, rows, strict=True):
            ids = None if isinstance(said, str) else flat_ids(said)
            places = None if ids is None else _places(ids, turn, len(row), self.special.eos)
            if ids is None or places is None:
                raise Unjudged("rollout does not return ids that contain each turn as it was generated")
            own = {n for place in places for n in place}
            elsewhere = sum(given != [*row, *ids[: at.start]] for at, (given, _) in zip(places, turn, strict=True))
            endless = sum(len(at) < len(answer) for at, (_, answer) in zip(places, turn, strict=True))
            out.append(Conversation(prompt, ids, [n in own for n in range(len(ids))], elsewhere, endless))
        return out

    def sample(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the tokens that the first turn of `rollout` generates for these prompts."""
        rows = [r[m > 0].tolist() for r, m in zip(input_ids, attention_mask, strict=True)]
        prompts = self._prompts_of(rows)
        called = watched(self.adapter.model)
        with recorded_generate(self.adapter.model, self.special.pad) as calls, called as forwards_seen:
            found = self.rollout(prompts)
        if not calls and not forwards_seen:
            raise NotObserved(NEVER)
        said = [] if calls else split_rows(found, [1] * len(rows))
        if any(isinstance(r, str) for r in said):
            calls = _looped(forwards_seen, self.special.pad)
        first = [turn[0][1] if turn else None for turn in _turns(calls, rows)] if calls else [*map(flat_ids, said)]
        if None in first or not (calls or all(first)):
            raise Unjudged("the tokens that rollout generates cannot be assigned to its rows")
        tokens = [row or [self.special.pad] for row in first if row is not None]  # a loop may end at its first token
        return torch.cat([input_ids, pad_right(tokens, self.special.pad, input_ids.device)], 1)


NEVER = "rollout makes no visible use of the adapter's model: no generate, no forward pass"


def _looped(passes: Sequence[Forward], pad: int) -> list[Call]:
    """Return the generations of a sampling loop, reconstructed from the tokens that the loop passed to its model (all
    tokens except the last)."""
    calls: list[Call] = []
    for before, forward in zip([None, *passes], passes, strict=False):
        ids, real = forward.input_ids, forward.attention_mask
        if (
            before is not None
            and len(ids) == len(before.input_ids)
            and (ids.shape[1] == 1 or torch.equal(ids[:, :-1], before.input_ids))
        ):
            for row, token in zip(calls[-1].served, ids[:, -1].tolist(), strict=True):
                row.append(token)
        else:
            real = (ids != pad).long() if real is None else real
            calls.append(Call(ids, real, forward.module, [[] for _ in ids]))
    return calls


def _attended(call: Call, row: int) -> Ids:
    return [int(i) for i, real in zip(call.input_ids[row], call.attention_mask[row], strict=True) if real]


def _turns(calls: Sequence[Call], rows: Sequence[Ids]) -> list[list[tuple[Ids, Ids]]]:
    """Return the input and output of generation for each prompt, turn by turn."""
    found: list[list[tuple[Ids, Ids]]] = [[] for _ in rows]
    for call in calls:
        taken: set[int] = set()
        for n, answer in enumerate(call.served):
            given = _attended(call, n)
            ends = [k for k, row in enumerate(rows) if list(row) in (given[: len(row)], given[-len(row) :])]
            fits = [k for k in ends if k not in taken]
            if fits:
                # the same prompt may occur twice, and each copy continues only the text that belongs to it
                best = max(fits, key=lambda k: (_continues(found[k], given), -len(found[k]), -k))
                taken.add(best)
                found[best].append((given, answer))
    return found


def _continues(turns: Sequence[tuple[Ids, Ids]], given: Ids) -> bool:
    """Return whether the input of generation begins with the output of the previous turn."""
    if not turns:
        return False
    before = [*turns[-1][0], *turns[-1][1]]
    return given[: len(before)] == before


def _candidates(row: Ids, turns: Sequence[tuple[Ids, Ids]]) -> list[Ids]:
    """Return the results that a multi-turn rollout may have: all ids, the generated ids, or the last answer."""
    given, last = turns[-1]
    return [[*given[len(row) :], *last], [i for _, answer in turns for i in answer], last]


def _places(said: Ids, turns: Sequence[tuple[Ids, Ids]], prompt: int, end: int | None) -> list[range] | None:
    """Return the positions of the answers, in order. An answer may lack its end token. Return None if an answer is
    missing.

    An answer begins where the input of generation ends, even if the same text occurs earlier in the output of the
    environment.
    """
    places: list[range] = []
    at = 0
    for given, answer in turns:
        words = answer[:-1] if len(answer) > 1 and answer[-1] == end else answer
        tried = [len(given) - prompt, *range(at, len(said) - len(words) + 1)]
        n = next((n for n in tried if n >= at and said[n : n + len(words)] == words), None)
        if n is None:
            return None
        at = n + (len(answer) if said[n : n + len(answer)] == answer else len(words))
        places.append(range(n, at))
    return places
