from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_message_names_what_is_on() -> None:
    dual = {"top_k": 50, "top_p": 0.9, "repetition_penalty": 1.3, "presence_penalty": 0.7, "frequency_penalty": 0.3}
    found = find("CFG005", dual, loss="0")
    assert found.severity == "warning"
    assert found.message == (
        "Rollouts are sampled with top_p 0.9, top_k 50, repetition_penalty 1.3, presence_penalty 0.7, "
        "frequency_penalty 0.3, which a standard loss does not apply to its log-probabilities."
    )


@pytest.mark.parametrize(
    ("settings", "mismatch", "severity"),
    [
        ({"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0}, "?", None),
        ({"top_k": -1}, "?", None),
        ({"top_p": 0.95}, "?", "info"),
        ({"top_k": 1}, "?", "info"),
        ({"top_k": 49_999}, "?", "info"),
        ({"top_k": 50_000}, "?", None),
        ({"min_p": 0.01}, "?", "info"),
        ({"repetition_penalty": 1.01}, "?", "warning"),
        ({"frequency_penalty": -0.1}, "?", "warning"),
        ({"repetition_penalty": 1.01}, "0.0009", None),  # the loss knows of it
        ({"repetition_penalty": 1.01}, "0.001", "warning"),
    ],
)
def test_boundary(settings: dict[str, Any], mismatch: str, severity: str | None) -> None:
    found = run_check("CFG005", settings, loss="0", rollout_mismatch_kl=mismatch)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("top_k", "on"), [(49_999, "top_p 0.9, top_k 49999"), (50_000, "top_p 0.9")])
def test_a_top_k_of_the_whole_vocabulary_is_not_named(top_k: int, on: str) -> None:
    found = find("CFG005", {"top_p": 0.9, "top_k": top_k}, loss="0")
    assert found.message.startswith(f"Rollouts are sampled with {on}, which")
