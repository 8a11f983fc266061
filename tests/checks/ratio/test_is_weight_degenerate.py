import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("RAT005", ratio_mean="1x5 0.3x6")
    assert (found.severity, found.detected_step) == ("warning", 10)
    assert found.message == "The mean importance ratio is 0.3; it should be near 1."


@pytest.mark.parametrize(
    ("ratio", "fires"),
    [("0.5x9", False), ("0.49x6", False), ("0.49x7", True), ("2x9", False), ("2.01x7", True), ("1x9 90 1x9", False)],
)
def test_boundary(ratio: str, fires: bool) -> None:
    assert (run_check("RAT005", ratio_mean=ratio) is not None) is fires
