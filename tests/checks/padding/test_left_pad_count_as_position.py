import pytest

from grpo_doctor.testing import find, run_check


def test_one_row_before_and_at_the_boundary() -> None:
    assert run_check("PAD001", reward_recomputed_gap="0x2 -0.6x2 0x3", chat_header_rate="0x2 0.82x2 0x3") is None
    found = find("PAD001", reward_recomputed_gap="0x2 -0.6x3 0x2", chat_header_rate="0x2 0.82x3 0x2")
    assert (found.severity, found.confidence, found.onset_step, found.detected_step) == ("critical", "high", 3, 5)
    assert found.message == (
        "82% of the scored texts contain template tokens, and their score differs by 0.6 from that of the sampled "
        "ids. Responses are extracted at the wrong position."
    )
    assert found.invalidates[0].startswith("rewards since step 3")


@pytest.mark.parametrize(
    ("gap", "header", "fires"),
    [("0.02x5", "0.8x5", False), ("0.021x5", "0.051x5", True), ("0.6x5", "0.05x5", False), ("0x5", "0.016x5", False)],
)
def test_both_records_are_needed(gap: str, header: str, fires: bool) -> None:
    assert (run_check("PAD001", reward_recomputed_gap=gap, chat_header_rate=header) is not None) is fires
