"""A task with tools. The model finds the prices of items in a shop by calling a lookup tool and a calculator, whose
answers become part of the response."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from .task import Example, Score

ITEMS = "tin cup key map bag pen hat box lid jar mat net".split()
SHOPS, PRICES = 10, 20
NUMBERS = tuple(str(n) for n in range(2 * PRICES + 1))
LOOKUP, ADD = "search", "python"
"""Tags of the two kinds of calls: a lookup of an item in a shop, and a sum."""
ENDS = frozenset(f"</{name}>" for name in (LOOKUP, ADD))
OPENS, CLOSES = "<observation>", "</observation>"
REFUSED = "Error: missing required argument".split()
"""Answer to a call that lacks an argument."""
WORDS = (
    "tools", "shop", "plus", *ITEMS, *NUMBERS, *(f"<{name}>" for name in (LOOKUP, ADD)), *sorted(ENDS),
    OPENS, CLOSES, "<answer>", "</answer>", *REFUSED, "TimeoutError",
)  # fmt: skip
_ANSWER = re.compile(r"(?:^| )<answer> (\d+) </answer>$")


def price(item: str, shop: int) -> int:
    """Return the price of an item in a shop. There are too many pairs of item and shop to memorise in a short run."""
    place = ITEMS.index(item)
    return 1 + (7 * place + 11 * shop + place * shop) % PRICES


def places(words: Sequence[str]) -> list[int]:
    """Return, for each word and for the next word, its position in the answer of a tool, starting at 1. Words that the
    policy writes have position 0."""
    found, place = [], 0
    for word in words:
        found.append(place)
        place = (0 if word == CLOSES else place + 1) if place else int(word in ENDS)
    return [*found, place]


class ToolTask:
    """Prompts that require the tools. A tool answers as soon as its call is closed."""

    first_words: frozenset[str] | None = frozenset(("<answer>", *(f"<{name}>" for name in (LOOKUP, ADD))))
    bounds: tuple[float, float] | None = (0.0, 1.0)
    fallback = False

    def __init__(self, count: int = 512) -> None:
        rng = random.Random(0)
        self.examples: Sequence[Example] = [make_example(rng) for _ in range(count)]

    def reply(self, call: Sequence[str]) -> list[str]:
        """Return the answer to a call. A call consists of the name of the tool and the words between its tags."""
        match call:
            case [name, item, shop] if name == LOOKUP and item in ITEMS and shop in NUMBERS[:SHOPS]:
                return [str(price(item, int(shop)))]
            case [name, one, "plus", other] if name == ADD and {one, other} <= set(NUMBERS[: PRICES + 1]):
                return [str(int(one) + int(other))]
        return REFUSED

    def score(self, examples: Sequence[Example], texts: Sequence[str], finished: Sequence[bool]) -> list[Score]:
        """Return 0.1 for a wrong answer and 1 for the correct one."""
        scores = []
        for example, text, whole in zip(examples, texts, finished, strict=True):
            given = _ANSWER.search(text) if whole else None
            right = given is not None and given[1] == example.columns["answer"]
            parts = {"format": 0.1 * (given is not None), "answer": 0.9 * right}
            scores.append(Score(sum(parts.values()), given is not None, right, parts))
        return scores

    def graded(self) -> list[tuple[Example, str, str, str]]:
        """Return an example of each kind, with its answer and with a correct and a wrong response."""
        found = {example.kind: example for example in self.examples}.values()
        return [(e, e.columns["answer"], *(f"<answer> {n} </answer>" for n in (e.columns["answer"], 0))) for e in found]

    def show(self, text: str) -> str:
        return text


def make_example(rng: random.Random) -> Example:
    """Return a prompt for the price of one or two items in a shop."""
    shop, items = rng.randrange(SHOPS), rng.sample(ITEMS, rng.choice((1, 2)))
    dialogue = [
        {"role": "system", "content": "tools"},
        {"role": "user", "content": f"shop {shop} {' plus '.join(items)}"},
    ]
    answer = str(sum(price(item, shop) for item in items))
    kind = "price" if len(items) == 1 else "sum"
    return Example(dialogue, kind, {"shop": shop, "items": items, "answer": answer})


def demonstration(rng: random.Random, example: Example, *, careful: float, direct: float) -> list[str]:
    """Return the words of a response for the warm-up, including the answers of the tools.

    ``direct`` is the probability of an answer without a call. ``careful`` is the probability that each call is made,
    and that it has the correct form.
    """
    reply, shop, items = ToolTask(0).reply, example.columns["shop"], example.columns["items"]
    words: list[str] = []
    seen: list[str] = []

    def call(*said: str) -> None:
        answer = reply(said)
        words.extend((f"<{said[0]}>", *said[1:], f"</{said[0]}>", OPENS, *answer, CLOSES))
        seen.extend(answer[:1])

    if rng.random() >= direct:
        for item in items:
            right = rng.random() < careful
            call(LOOKUP, item if right else rng.choice(ITEMS), str(shop if right else rng.randrange(SHOPS)))
        if len(items) == 2 and rng.random() < careful:
            call(ADD, seen[0], "plus", seen[1])
    answer = seen[-1] if seen and rng.random() < careful else rng.choice(NUMBERS[1:])
    return [*words, "<answer>", answer, "</answer>"]
