from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.probes import run_probes
from grpo_doctor.testing import find, run_check
from tests.probes.styles import Left


@pytest.mark.parametrize(
    ("scores", "raw", "expected"),
    [
        ("0.001x5", "0x5", None),
        ("0.0011x5", "0x5", "warning"),
        ("0.01x5", "1e-4x5", "warning"),
        ("0.011x5", "1e-4x5", "error"),
        ("0.011x5", "1.1e-4x5", None),
        ("1e-9x5", "1e-9x5", None),
        ("0.5x5", "0.5x5", None),
    ],
)
def test_levels(scores: str, raw: str, expected: str | None) -> None:
    found = run_check("GEN004", rollout_mismatch_kl=scores, rollout_mismatch_raw_kl=raw)
    assert (found.severity if found else None) == expected


def test_one_row_before_the_boundary_and_the_message() -> None:
    assert run_check("GEN004", rollout_mismatch_kl="0x3 0.33x2 0x3", rollout_mismatch_raw_kl="0x8") is None
    found = find("GEN004", {"temperature": 1.5}, rollout_mismatch_kl="0.33x3", rollout_mismatch_raw_kl="0x3")
    assert (found.onset_step, found.detected_step) == (1, 3)
    assert found.message == (
        "Raw logits agree, but final scores differ by 0.33 nats/token: the loss does not apply the sampler's logits "
        "processors or temperature."
    )
    assert found.evidence["temperature"] == 1.5


class Plain(Left):
    """Has no top_k, or the given one."""

    def __init__(self, **said: Any) -> None:
        super().__init__()
        self.said = said

    def generation(self) -> dict[str, Any]:
        return {name: value for name, value in super().generation().items() if name != "top_k"} | self.said


@pytest.mark.parametrize(
    ("said", "severity", "ending"),
    [
        ({}, "warning", "of the probability (transformers defaults to top_k=50)."),
        ({"temperature": 0.6}, "error", "of the probability."),
        ({"top_k": 0, "top_p": 0.7}, "error", "of the probability."),
        ({"top_k": 0, "top_p": 0.95}, "warning", "of the probability."),
    ],
)
def test_a_default_that_no_one_asked_for_is_not_an_error(said: dict[str, Any], severity: str, ending: str) -> None:
    found = run_probes(Plain(**said).adapter("rollout", "loss"), catalogue=load().select(["GEN004"])).finding("GEN004")
    assert found is not None
    assert (found.severity, found.message.endswith(ending)) == (severity, True), found.message
