import pytest

from grpo_doctor.testing import find, run_check


def test_one_row_is_enough() -> None:
    finding = find("ENT013", entropy_mean="8.5")
    assert (finding.severity, finding.kind, finding.onset_step) == ("warning", "outcome", 1)
    assert finding.message == "Entropy is 8.5 nats/token, so the policy generates near-random text."


@pytest.mark.parametrize(
    ("entropy", "fires"),
    [("5", False), ("5.01", True), ("13", True), ("13.01", False), ("0.4x9 3.9", False), ("0.4 0.5 3.8 8", True)],
)
def test_exactly_at_a_threshold(entropy: str, fires: bool) -> None:
    assert (run_check("ENT013", entropy_mean=entropy) is not None) is fires


def test_one_row_among_others_is_not_a_level_and_a_row_below_ends_it() -> None:
    assert run_check("ENT013", entropy_mean="0.4x5 6 0.5") is None
