import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("raw", "side"),
    [
        ("1.05x2", "the raw logits differ as well, so look at weights, mode and prompt"),
        ("0.001x2", "the raw logits agree, so look at processors and temperature"),
        ("?x2", "the generator's raw logits are not recorded"),
    ],
)
def test_message_names_the_side(raw: str, side: str) -> None:
    found = find("RAT004", rollout_mismatch_kl="1.05x2", rollout_mismatch_raw_kl=raw)
    assert (found.severity, found.onset_step, found.detected_step) == ("critical", 1, 2)
    assert found.message == f"Generator and trainer disagree by 1.05 nats per token (k3); {side}."


@pytest.mark.parametrize(
    ("k3", "severity"),
    [
        ("2e-9x20", None),
        ("0.001x20", None),  # what bf16 gives with nothing broken
        ("0.0011 0x9", None),
        ("0.0011x2", "warning"),
        ("0.01x2", "warning"),
        ("0.011x2", "error"),
        ("0.1x2", "error"),
        ("0.101x2", "critical"),
        ("0.011x20 0.022x8", "error"),
        ("0.011x20 0.023x8", "critical"),  # doubled within 20 rows
        ("0.0011x20 0.009x8", "warning"),
        ("0.004x20 0.01x8", "warning"),
    ],
)
def test_boundary(k3: str, severity: str | None) -> None:
    found = run_check("RAT004", rollout_mismatch_kl=k3)
    assert (found.severity if found else None) == severity
