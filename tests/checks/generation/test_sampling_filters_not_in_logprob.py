import pytest

from grpo_doctor.testing import find, run_check


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
        "Raw logits agree, final scores differ by 0.33 nats per token: processors or temperature of the sampler are not "
        "in the loss."
    )
    assert found.evidence["temperature"] == 1.5
