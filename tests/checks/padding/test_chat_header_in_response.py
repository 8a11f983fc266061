from collections.abc import Callable
from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import Adapter, run_probes
from grpo_doctor.testing import find, run_check
from tests.probes.reference import PROMPTS
from tests.probes.styles import make_tokenizer

TOK = make_tokenizer()


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("0.02x8", None),
        ("0.021x8", "warning"),
        ("0.05x8", "warning"),
        ("0.051x8", "error"),
        ("0 0.016 0 0 0 0 0 0", None),
    ],
)
def test_levels(rate: str, expected: str | None) -> None:
    found = run_check("PAD005", chat_header_rate=rate)
    assert (found.severity if found else None) == expected


def test_one_row_before_the_boundary_and_the_message() -> None:
    assert run_check("PAD005", chat_header_rate="0.8x6") is None
    found = find("PAD005", chat_header_rate="0.8x7")
    assert (found.onset_step, found.detected_step) == (1, 7)
    assert find("PAD005", chat_header_rate="0x3 0.8x7").onset_step == 4
    assert found.message == "80% of the responses contain chat template tokens."


def told_of(render: Callable[[Any], Any], prompts: Any = PROMPTS) -> list[str]:
    adapter = Adapter(tokenizer=TOK, prompts=prompts, seams={"render": render})
    diagnosis = run_probes(adapter, catalogue=load().select(["PAD005"]))
    assert diagnosis.coverage.ran == 1, diagnosis.coverage.skipped
    assert {f.severity for f in diagnosis.findings} <= {"warning"}  # the policy may be meant to write it
    return [f.message for f in diagnosis.findings]


def rendered(prompt: Any, header: bool) -> Any:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return TOK.apply_chat_template(messages, tokenize=True, add_generation_prompt=header)


def test_a_prompt_without_the_generation_header_is_reported() -> None:
    assert told_of(lambda prompt: rendered(prompt, False)) == [
        "3 of 3 prompts end after the user's turn without the header '<|start|>assistant\\n', so the policy must "
        "write it."
    ]
    assert told_of(lambda prompt: rendered(prompt, False), ["one", "and another"])


def test_headers_and_beginnings_of_an_answer_are_right() -> None:
    begun = [*PROMPTS[:1], [*PROMPTS[1], {"role": "assistant", "content": "I think"}]]
    assert told_of(lambda prompt: rendered(prompt, True)) == []
    assert (
        told_of(lambda prompt: rendered(prompt, False) if prompt is begun[1] else rendered(prompt, True), begun) == []
    )
    assert told_of(lambda p: [*rendered(p, True)["input_ids"], *TOK.encode("<think>")]) == []
