"""The task "animal or plant", which real language models can sometimes solve before training, and learn within a few
steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.task import Dialogue, Example, RewardTask, Score

KINGDOMS = {
    "animal": "lion tiger wolf horse sheep eagle shark frog bee snake goat crow".split(),
    "plant": "oak rose tulip cactus fern pine moss lily grass palm clover birch".split(),
}


class KingdomTask(RewardTask):
    """The task of classifying a word as animal or plant. The score is 1 for the correct answer, 0.2 for the wrong
    answer, and 0 otherwise."""

    bounds: tuple[float, float] | None = (0.0, 1.0)

    def __init__(self) -> None:
        words = [(word, kingdom) for kingdom, of_it in KINGDOMS.items() for word in of_it]
        super().__init__([Example(_ask(word), kingdom, {"kingdom": kingdom}) for word, kingdom in words], _judged)


def _ask(word: str) -> Dialogue:
    """Return a prompt with one example answer. Without an example, the model (135 million weights) answers in
    sentences."""
    shown = [{"role": "user", "content": "dog"}, {"role": "assistant", "content": "animal"}]
    return [{"role": "system", "content": "Animal or plant?"}, *shown, {"role": "user", "content": word}]


def _judged(completions: Sequence[str], kingdom: Sequence[str], **_: Any) -> list[Score]:
    return [_score(text.strip().lower(), right) for text, right in zip(completions, kingdom, strict=True)]


def _score(answer: str, right: str) -> Score:
    if answer == right:
        return Score(1.0, True, True)
    return Score(0.2, True, False) if answer in KINGDOMS else Score(0.0, False, False)
