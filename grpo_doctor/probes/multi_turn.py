"""Rollouts in turns under a scripted policy: what was generated, and what a tool or the environment said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .crafted_inputs import PROMPTS, canaries, flat_ids, plain_ids, special_ids
from .entry_points import Adapter, Ids, Prompt, Unjudged
from .from_rollout import Rolled
from .gradient_effect import pushes


class Spoken(NamedTuple):
    """One conversation after its prompt."""

    prompt: Prompt
    ids: Ids
    generated: list[bool]
    """Which of the ids the policy generated."""
    elsewhere: int
    """How many turns were generated after other ids than the prompt and what stands before them."""
    endless: int
    """How many turns stand there without the end token with which they were generated."""
    marked: list[bool] | None
    """Which ids the trainer's own mask says the policy generated; None without one."""


class Count(NamedTuple):
    """How far a mask is off."""

    foreign: int
    """Tokens that the policy did not generate and that are trained."""
    missed: int
    """Tokens that it did generate and that are not."""
    ends: int = 0
    """Of these the end tokens of turns."""


def spoken(
    roll: Callable[[Sequence[Prompt]], Any],
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
    turns: Sequence[str] | None,
) -> list[Spoken]:
    """Four conversations. ``roll`` returns ids (`rollout`), or ids and their mask (`env_mask`), one pair a prompt.

    ``turns`` are what the policy says, turn by turn, so that the environment answers; canary tokens without it.
    Raises `Unjudged` where nothing is said between two turns, or where the turns cannot be found in the ids.
    """
    chosen = [list(prompts or PROMPTS)[n % len(prompts or PROMPTS)] for n in range(4)]
    masks: list[list[bool] | None] = []

    def rolled(asked: Sequence[Prompt]) -> list[Any]:
        rows = []
        masks.clear()
        for row in roll(asked):
            pair = isinstance(row, tuple) and len(row) == 2
            rows.append(row[0] if pair else row)
            masks.append([bool(m) for m in flat_ids(row[1])] if pair else None)
        return rows

    seen = Rolled(Adapter(model=model, tokenizer=tokenizer, seams={"rollout": rolled}))
    out = []
    for n, prompt in enumerate(chosen):
        (found,) = seen.trajectories([prompt], _answers(model, tokenizer, turns, seen.render(prompt), n))
        out.append(Spoken(prompt, *found, masks[0]))
    if all(all(s.generated) for s in out):
        raise Unjudged("nothing is said between two turns: give `turns`, answers to which the environment replies")
    return out


def _answers(model: Any, tokenizer: Any, turns: Sequence[str] | None, prompt: Ids, n: int) -> list[Ids]:
    eos = special_ids(tokenizer).eos
    if turns is None:
        return canaries(plain_ids(tokenizer, model, [prompt]), [4 + n, 3, 5], eos)
    said = [list(tokenizer.encode(text, add_special_tokens=False)) for text in turns]
    return said if eos is None else [[*row, eos] for row in said]


def of_mask(conversations: Sequence[Spoken], end: int | None) -> Count:
    """How far the trainer's own masks are off. Raises `Unjudged` where one is not as long as its ids."""
    foreign = missed = ends = 0
    for one in conversations:
        if one.marked is None or len(one.marked) != len(one.ids):
            raise Unjudged("the mask of a conversation is not as long as its ids after the prompt")
        tokens = list(zip(one.ids, one.marked, one.generated, strict=True))
        foreign += sum(marked and not own for _, marked, own in tokens)
        left_out = [token for token, marked, own in tokens if own and not marked]
        missed += len(left_out) + one.endless
        ends += left_out.count(end) + one.endless if end is not None else 0
    return Count(foreign, missed, ends)


def of_loss(loss: Callable[..., Any], model: Any, conversations: Sequence[Spoken]) -> Count:
    """How far what a loss trains is off."""
    found = pushes(loss, model, [s.prompt for s in conversations], [s.ids for s in conversations])
    foreign = missed = 0
    for push, one in zip(found, conversations, strict=True):
        pairs = list(zip(push.trained.tolist(), one.generated, strict=True))
        foreign += sum(trained and not own for trained, own in pairs)
        missed += sum(own and not trained for trained, own in pairs)
    return Count(foreign, missed)
