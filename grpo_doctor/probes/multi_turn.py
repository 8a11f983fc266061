"""Runs multi-turn rollouts with a scripted policy, and separates generated text from the text of a tool or the
environment."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from re import _parser as parser  # type: ignore[attr-defined]  # the only parser of regular expressions at hand
from typing import Any, NamedTuple

from .crafted_inputs import PROMPTS, complete, flat_ids, plain_ids, special_ids
from .entry_points import Adapter, Ids, NotApplicable, Prompt, Unjudged
from .from_rollout import Conversation, RolloutEntryPoints
from .generations import conversations_served
from .gradient_effect import pushes
from .trainer_objects import written_in


class Count(NamedTuple):
    """Numbers of errors in a mask."""

    foreign: int
    """Trained tokens that the policy did not generate."""
    missed: int
    """Tokens that the policy generated but that are not trained."""
    ends: int = 0
    """Number of end tokens of turns among the tokens in ``foreign`` and ``missed``."""


def four_conversations(
    roll: Callable[[Sequence[Prompt]], Any],
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
    turns: Sequence[str] | None,
) -> list[Conversation]:
    """Return four conversations. For each prompt, ``roll`` returns ids (`rollout`), or ids and their mask (`env_mask`).

    ``turns`` are answers of the policy, turn by turn, to which the environment replies. Without ``turns``, the policy
    generates canary tokens. If the environment does not reply to canary tokens, the policy generates a tool call in the
    format of the trainer's code or prompts. Raises `Unjudged` if there is no text between two turns, or if the turns
    cannot be found in the ids.
    """
    try:
        return _four_conversations(roll, model, tokenizer, prompts, turns)
    except NotApplicable:
        if turns is not None:
            raise
    calls = [call for call in calls_of(roll, list(prompts or PROMPTS)) if _speakable(tokenizer, call)]
    for call in calls[:MOST_CALLS]:
        try:
            return _four_conversations(roll, model, tokenizer, prompts, (call, FINAL))
        except Unjudged:
            continue
    raise NotApplicable("rollout makes only one turn")


def _speakable(tokenizer: Any, text: str) -> bool:
    """Return whether a tokenizer can encode a text. A custom tokenizer may know only some characters."""
    try:
        return bool(tokenizer.encode(text, add_special_tokens=False))
    except (ValueError, KeyError, IndexError):
        return False


MOST_CALLS = 12
"""Maximum number of tool call formats to try, because each format needs a rollout."""

FINAL = "It is done."
"""The policy's answer after a tool has replied."""


def calls_of(roll: Callable[..., Any], prompts: Sequence[Prompt]) -> list[str]:
    """Return texts that may call a tool: examples in the prompts, matches of the trainer's regular expressions, and a
    call or a word between two tags in the trainer's code."""
    texts, patterns = written_in([getattr(roll, "rollout", roll)])
    words = [str(m.get("content")) for p in prompts for m in (p if isinstance(p, list) else [{"content": p}])]
    shown = [found[0] for text in (*words, *texts) for found in re.finditer(r"<(\w+)>[^<>]{1,80}</\1>", text)]
    searched = [text for text in texts if len(text) < 120 and "(" in text and ("\\" in text or ".*" in text)]
    matched = [example for p in (*patterns, *searched) if (example := _matching(p)) is not None]
    tags = dict.fromkeys(tag for text in texts for tag in re.findall(r"<(\w+)>", text))
    inside = ('\n{"name": "tool", "arguments": {}}\n', "1")
    named = [f"<{tag}>{words}</{tag}>" for tag in tags for words in inside]
    return list(dict.fromkeys([*shown, *matched, *named]))


def _matching(pattern: str) -> str | None:
    """Return a short text that a regular expression matches, or None if the expression is invalid or no match can be
    built."""
    with contextlib.suppress(re.error, KeyError, OverflowError, RecursionError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = _example(parser.parse(pattern, re.DOTALL))
        if re.search(pattern, text, re.DOTALL) and text != pattern:
            return text
    return None


def _example(parsed: Any) -> str:
    return "".join(_EXAMPLES[str(kind)](value) for kind, value in parsed)


_EXAMPLES: dict[str, Callable[[Any], str]] = {
    "LITERAL": chr,
    "ANY": lambda _: "1",
    "NOT_LITERAL": lambda _: "1",
    "AT": lambda _: "",
    "CATEGORY": lambda kind: {"CATEGORY_SPACE": " "}.get(str(kind), "1"),
    "RANGE": lambda ends: chr(ends[0]),
    "IN": lambda some: "1" if str(some[0][0]) == "NEGATE" else _example(some[:1]),
    "BRANCH": lambda branch: _example(branch[1][0]),
    "SUBPATTERN": lambda group: _example(group[3]),
    "MAX_REPEAT": lambda repeat: _example(repeat[2]) * max(repeat[0], min(1, repeat[1])),
    "MIN_REPEAT": lambda repeat: _example(repeat[2]) * max(repeat[0], min(1, repeat[1])),
    "ASSERT": lambda _: "",
    "ASSERT_NOT": lambda _: "",
}
"""An example text for each kind of element of a regular expression."""


def _four_conversations(
    roll: Callable[[Sequence[Prompt]], Any],
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt] | None,
    turns: Sequence[str] | None,
) -> list[Conversation]:
    chosen = [list(prompts or PROMPTS)[n % len(prompts or PROMPTS)] for n in range(4)]
    masks: list[list[bool] | None] = []

    def rolled(asked: Sequence[Prompt]) -> list[Any]:
        rows = []
        masks.clear()
        if (found := roll(asked)) is None:
            raise NotApplicable("rollout returns no responses")
        for row in found:
            pair = isinstance(row, tuple) and len(row) == 2
            rows.append(row[0] if pair else row)
            masks.append([bool(m) for m in flat_ids(row[1])] if pair else None)
        return rows

    seen = RolloutEntryPoints(Adapter(model=model, tokenizer=tokenizer, seams={"rollout": rolled}))
    out = []
    for n, prompt in enumerate(chosen):
        (found,) = seen.conversations([prompt], _answers(model, tokenizer, turns, seen.render(prompt), n))
        out.append(found._replace(marked=masks[0]))
    if all(all(s.generated) for s in out):
        raise Unjudged("there is no text between two turns: provide `turns`, answers to which the environment replies")
    return out


def _answers(model: Any, tokenizer: Any, turns: Sequence[str] | None, prompt: Ids, n: int) -> list[Ids]:
    eos = special_ids(tokenizer).eos
    if turns is None:
        return complete(plain_ids(tokenizer, model, [prompt]), [4 + n, 3, 5], eos)
    said = [list(tokenizer.encode(text, add_special_tokens=False)) for text in turns]
    return said if eos is None else [[*row, eos] for row in said]


def of_mask(conversations: Sequence[Conversation], end: int | None) -> Count:
    """Return the numbers of errors in the trainer's own masks. Raises `Unjudged` if a mask differs in length from its
    ids."""
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


def of_loss(loss: Callable[..., Any], model: Any, conversations: Sequence[Conversation]) -> Count:
    """Return the numbers of errors in a loss's selection of trained tokens."""
    with conversations_served([(s.ids, _turns(s)) for s in conversations]):
        found = pushes(loss, model, [s.prompt for s in conversations], [s.ids for s in conversations])
    foreign = missed = 0
    for push, one in zip(found, conversations, strict=True):
        pairs = list(zip(push.trained.tolist(), one.generated, strict=True))
        foreign += sum(trained and not own for trained, own in pairs)
        missed += sum(own and not trained for trained, own in pairs)
    return Count(foreign, missed)


def _turns(one: Conversation) -> list[Ids]:
    """Return the policy's output, turn by turn."""
    runs = itertools.groupby(zip(one.generated, one.ids, strict=True), key=lambda pair: pair[0])
    return [[i for _, i in run] for own, run in runs if own]
