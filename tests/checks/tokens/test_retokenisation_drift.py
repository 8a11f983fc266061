"""TOK005: verl warns that the rollout's ids differ from those of the rendered conversation, and probes detect it."""

from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import run_probes
from grpo_doctor.readers.known_warnings import sign
from grpo_doctor.record import Event
from grpo_doctor.testing import find, run_check
from tests.probes.broken_styles import finding
from tests.probes.styles import Turns

SAID = (
    "(WorkerDict pid=416) [2025-07-28 20:54:27] Inconsistent training and inference tokenization detected (strict). "
    "This may lead to unexpected behavior during training.\n"
)


def events(*rows: int, text: str = SAID) -> list[Any]:
    message = sign(text)
    return [[Event(kind="log-warning", message=message or text)] if n in rows else None for n in range(5)]


def test_one_warning_is_enough_and_they_are_counted() -> None:
    found = find("TOK005", reward_mean="0.1 0.2 0.3 0.4 0.5", events=events(1, 3))
    assert (found.severity, found.onset_step) == ("warning", 2)
    assert found.message == (
        "The trainer warned that training and inference tokenise the same conversation differently (2 warnings)."
    )


def test_other_warnings_and_none_are_not_drift() -> None:
    other = "Caching is incompatible with gradient checkpointing"
    assert run_check("TOK005", reward_mean="0.1 0.2 0.3 0.4 0.5", events=events(1, text=other)) is None
    assert run_check("TOK005", reward_mean="0.1 0.2 0.3 0.4 0.5", events=events()) is None


def test_the_line_is_kept_from_any_console() -> None:
    assert (sign(SAID) or "").startswith("(WorkerDict pid=416)")
    assert sign("tokenization done") is None


@pytest.mark.parametrize(
    ("fault", "severity"),
    [
        ("next turn asked for without the ends of earlier ones", "error"),
        ("next turn asked for without earlier reasoning", "warning"),
    ],
)
def test_turns_after_other_ids_than_those_that_are_trained(fault: str, severity: str) -> None:
    found = finding(fault, "turns")
    assert found is not None
    assert (found.severity, found.evidence["elsewhere"]) == (severity, 4)
    assert found.message == (
        "In four scripted conversations, 4 turns were generated from ids that differ from the returned ids. A "
        "conversation of k turns is not a prefix of the conversation of k + 1 turns."
    )


class Stripped(Turns):
    """Continues with the reasoning of earlier turns, and returns the conversation without it."""

    def rollout(self, prompts: Any) -> Any:
        return [self.tok.encode(self.without(row), add_special_tokens=False) for row in super().rollout(prompts)]

    def without(self, row: list[int]) -> str:
        text = str(self.tok.decode(row))
        return text.replace("<think>one</think>", "")


def test_a_turn_that_does_not_come_back_as_it_was_generated() -> None:
    diagnosis = run_probes(Stripped().adapter("rollout"), catalogue=load().select(["TOK005"]))
    found = diagnosis.finding("TOK005")
    assert found is not None
    assert found.message == "The rollout changes a turn that contains <think>."


def test_a_rollout_in_turns_is_judged_without_a_loss_and_one_of_a_single_turn_is_not() -> None:
    only = load().select(["TOK005"])
    assert run_probes(Turns().adapter("rollout"), catalogue=only).coverage.passed_codes == ["TOK005"]
    single = Turns()
    single.turns = 1
    (skipped,) = run_probes(single.adapter("rollout"), catalogue=only).coverage.skipped
    assert skipped["needs"] == ["needs mask, or a multi-turn rollout that returns ids"]
