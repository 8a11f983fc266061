from typing import Any

import pytest

from tests.preflight.as_judged import find, run_check


def test_message() -> None:
    found = find("CFG020", {"model_length": 2048, "total_tokens_needed": 3072, "max_new_tokens": 2048}, loss="0")
    assert (found.severity, found.message) == (
        "warning",
        "Prompt and response of up to 3072 tokens do not fit into the engine's maximum length (2048).",
    )
    found = find("CFG020", {"model_length": 1024, "max_new_tokens": 1024}, loss="0")
    assert found.message == (
        "Responses of up to 1024 tokens leave no room for the prompt within the engine's maximum length (1024)."
    )


def test_a_limit_of_the_trainer_is_not_called_the_engines() -> None:
    said = {"model_length": 2048, "max_new_tokens": 4096, "framework": "prime-rl"}
    assert find("CFG020", said, loss="0").message.endswith("within the training sample length (2048).")


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"model_length": 3072, "total_tokens_needed": 3072, "max_new_tokens": 2048}, None),
        ({"model_length": 3071, "total_tokens_needed": 3072, "max_new_tokens": 2048}, "warning"),
        ({"model_length": 2048, "max_new_tokens": 2047}, None),
        ({"model_length": 2048, "max_new_tokens": 2048}, "warning"),  # and no token is left for the prompt
        ({"model_length": 2048, "max_new_tokens": 2048, "framework": "NeMo-RL"}, None),
        ({"model_length": 2048, "max_new_tokens": 2048, "framework": "axolotl"}, None),
        ({"model_length": 2048, "max_new_tokens": 2048, "framework": "prime-rl"}, None),
        ({"model_length": 2048, "max_new_tokens": 2049, "framework": "prime-rl"}, "warning"),
        ({"total_tokens_needed": 3072}, None),
    ],
)
def test_boundary(settings: dict[str, Any], severity: str | None) -> None:
    found = run_check("CFG020", settings, loss="0")
    assert (found.severity if found else None) == severity
