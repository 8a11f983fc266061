"""TOK005 in records: verl says itself that the rollout's ids and those of the rendered conversation differ."""

from typing import Any

from grpo_doctor.record import Event
from grpo_doctor.sources.signs import sign
from grpo_doctor.testing import find, run_check

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
        "The trainer warned 2 times that training and inference tokenise the same conversation differently."
    )


def test_other_warnings_and_none_are_no_drift() -> None:
    other = "Caching is incompatible with gradient checkpointing"
    assert run_check("TOK005", reward_mean="0.1 0.2 0.3 0.4 0.5", events=events(1, text=other)) is None
    assert run_check("TOK005", reward_mean="0.1 0.2 0.3 0.4 0.5", events=events()) is None


def test_the_line_is_kept_from_any_console() -> None:
    assert (sign(SAID) or "").startswith("(WorkerDict pid=416)")
    assert sign("tokenization done") is None
