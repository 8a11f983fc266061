"""Conversations with a scripted policy: exactly what it generated is trained, whatever the environment inserts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.probes import Adapter, run_probes
from tests.probes.reference import PROMPTS
from tests.probes.styles import Turns


class Masked(Turns):
    """Keeps its own mask in addition to the ids."""

    def env_mask(self, prompts: Any) -> list[tuple[list[int], list[int]]]:
        return [(row, self.marks(row)) for row in self.rollout(prompts)]

    def marks(self, row: list[int]) -> list[int]:
        return self.spoken(row)


class Tools(Masked):
    """The environment answers only tool calls."""

    call = "use [w01]"

    def rollout(self, prompts: Any) -> Any:
        rows = [self.render(p) for p in prompts]
        said: list[list[int]] = [[] for _ in rows]
        open_rows = list(range(len(rows)))
        while open_rows and max(map(len, said)) < 60:
            new = self.generate([[*rows[n], *said[n]] for n in open_rows])
            for n, answer in zip(list(open_rows), new, strict=True):
                said[n] += answer
                if self.tok.decode(answer).startswith(self.call):
                    said[n] += self.feedback()
                else:
                    open_rows.remove(n)
        return said


class AllMarked(Masked):
    def marks(self, row: list[int]) -> list[int]:
        return [1] * len(row)


class LastTurnLost(Masked):
    def marks(self, row: list[int]) -> list[int]:
        mask = super().marks(row)
        return mask[: len(mask) // 2] + [0] * (len(mask) - len(mask) // 2)


class OneLate(Masked):
    def marks(self, row: list[int]) -> list[int]:
        return [0, *super().marks(row)[:-1]]


class Echo(Tools):
    """The tool result equals the policy's next text."""

    def feedback(self) -> list[int]:
        return list(self.tok.encode("<|tool|>so [w02] it is<|tool|>", add_special_tokens=False))


class EndsLost(Echo):
    """Removes the end token from the sampled ids."""

    def generate(self, rows: list[list[int]]) -> list[list[int]]:
        return [[i for i in answer if i != self.tok.eos_token_id] for answer in super().generate(rows)]


class ToolsTrained(Tools):
    def spoken(self, response: list[int]) -> list[int]:
        return [1] * len(response)


class ByHand(Turns):
    """Draws each turn in a custom loop, row by row, and stops at the end token."""

    stops = True

    def generate(self, rows: list[list[int]]) -> list[list[int]]:
        return [self.said(row) for row in rows]

    def said(self, row: list[int]) -> list[int]:
        ids, new = torch.tensor([row]), list[int]()
        with torch.no_grad():
            while len(new) < 12 and not (self.stops and self.tok.eos_token_id in new):
                new.append(int(self.sampler(input_ids=ids).logits[0, -1].softmax(-1).multinomial(1)))
                ids = torch.cat([ids, torch.tensor([new[-1:]])], 1)
        return new


class GoesOn(ByHand):
    stops = False


def probed(trainer: Turns, *seams: str, turns: list[str] | None = None) -> Diagnosis:
    torch.set_num_threads(1)
    adapter = Adapter(
        model=trainer.model, tokenizer=trainer.tok, prompts=PROMPTS, settings=trainer.settings(), turns=turns,
        seams={name: getattr(trainer, name) for name in seams},
    )  # fmt: skip
    return run_probes(adapter, catalogue=load().select(["PAD002", "PAD006"]))


CALLS = ["use [w01]", "so [w02] it is"]


@pytest.mark.parametrize(
    ("kind", "seams", "turns"),
    [
        (Masked, ("env_mask",), None),
        (Tools, ("env_mask",), CALLS),
        (Echo, ("env_mask",), CALLS),
        (Tools, ("rollout", "loss"), CALLS),
    ],
)
def test_a_right_conversation_is_not_flagged(kind: type[Masked], seams: tuple[str, ...], turns: Any) -> None:
    diagnosis = probed(kind(), *seams, turns=turns)
    code = "PAD006" if "env_mask" in seams else "PAD002"
    assert (diagnosis.findings, diagnosis.notes, diagnosis.coverage.passed_codes) == ([], [], [code])


@pytest.mark.parametrize(
    ("kind", "seams", "turns", "said"),
    [
        (AllMarked, ("env_mask",), None, "the mask includes"),
        (LastTurnLost, ("env_mask",), None, "the mask excludes"),
        (OneLate, ("env_mask",), None, "the mask includes"),
        (
            EndsLost,
            ("env_mask",),
            CALLS,
            "In four scripted conversations, the mask excludes 8 generated tokens, 8 of them end tokens.",
        ),
        (ToolsTrained, ("rollout", "loss"), CALLS, "the loss includes 16 tokens that the policy did not generate"),
    ],
)
def test_trained_tokens_that_were_not_generated_are_counted(
    kind: type[Turns], seams: tuple[str, ...], turns: Any, said: str
) -> None:
    (finding,) = probed(kind(), *seams, turns=turns).findings
    assert (finding.code, finding.severity) == ("PAD006" if "env_mask" in seams else "PAD002", "critical")
    assert said in finding.message


def test_the_mask_has_another_name_too() -> None:
    trainer = AllMarked()
    adapter = Adapter(model=trainer.model, tokenizer=trainer.tok, seams={"tool_mask": trainer.env_mask})
    assert [f.code for f in run_probes(adapter, catalogue=load().select(["PAD006"])).findings] == ["PAD006"]


class Cut(Turns):
    """The loss has room for one turn."""

    def loss(self, prompts: Any, responses: Any, advantages: torch.Tensor) -> torch.Tensor:
        return super().loss(prompts, [row[:10] for row in responses], advantages)


def test_judges_the_mask_of_one_turn_if_the_loss_takes_no_conversations() -> None:
    diagnosis = run_probes(Cut().adapter("rollout", "loss"), catalogue=load().select(["PAD002"]))
    assert diagnosis.coverage.passed_codes == ["PAD002"]
    assert "PAD002 does not cover conversations with several turns: " in str(diagnosis.notes)


def test_one_turn_and_an_environment_that_never_answers_are_not_judged() -> None:
    skipped = probed(Tools(), "env_mask").coverage.skipped[-1]
    assert skipped["code"] == "PAD006"
    assert "one turn" in skipped["needs"][0] or "turns" in skipped["needs"][0]


def test_the_words_of_a_later_turn_do_not_go_on_after_an_end_token_of_the_first() -> None:
    def told(trainer: ByHand) -> tuple[list[str], list[str]]:
        torch.set_num_threads(1)
        diagnosis = run_probes(trainer.adapter("rollout"), catalogue=load().select(["TOK004", "TOK005"]))
        return diagnosis.coverage.passed_codes, [f.code for f in diagnosis.findings]

    assert told(ByHand()) == (["TOK004", "TOK005"], [])
    assert told(GoesOn())[1] == ["TOK004"]
