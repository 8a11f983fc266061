"""The module ``my_trainer`` that the examples of probes import: the reference trainer, as plain functions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.probes.reference import PROMPTS, Reference
from tests.probes.styles import Turns


def my_trainer() -> ModuleType:
    """Return a new module with the objects and functions of a trainer without bugs."""
    trainer, turns, module = Reference(), Turns(), ModuleType("my_trainer")

    def converse(prompts: Any) -> list[tuple[list[int], list[int]]]:
        """Return the ids after each prompt, and 1 for ids that the policy generated."""
        return [(row, turns.spoken(row)) for row in turns.rollout(prompts)]

    vars(module).update(
        model=trainer.model, tokenizer=trainer.tok, reference=trainer.reference, optimizer=trainer.optimizer,
        prompts=PROMPTS, render=trainer.render, batch=trainer.mask, loss=trainer.loss,
        scores=lambda ids, attention: trainer.scores(trainer.model, ids, attention),
        agent=turns.model, agent_tokenizer=turns.tok, converse=converse,
    )  # fmt: skip
    return module
