import pytest

from grpo_doctor.testing import find, run_check


def test_success_that_survives_a_collapse() -> None:
    assert run_check("REW010", success_rate="0.47x5 0.36x4", fallback_rate="0.05x5 1x4") is None
    found = find("REW010", success_rate="0.47x5 0.36x5", fallback_rate="0.05x5 1x5")
    assert (found.severity, found.detected_step) == ("error", 10)
    assert found.message == (
        "The success rate is 36.0% on steps where almost every response is invalid, and 47.0% on steps where most "
        "responses are valid."
    )


def test_success_that_falls_with_the_output_is_honest() -> None:
    assert run_check("REW010", success_rate="0.47x5 0.0x5", fallback_rate="0.05x5 1x5") is None


@pytest.mark.parametrize(
    ("success", "invalid", "fires"),
    [
        ("0.5x5 0.4x5", "0.3x5 0.9x5", True),
        ("0.5x5 0.4x5", "0.31x5 0.9x5", False),
        ("0.5x5 0.4x5", "0.3x5 0.89x5", False),
        ("0.5x5 0.25x5", "0x5 1x5", False),  # half of the success is not more than half
        ("0x5 0.25x5", "0x5 1x5", False),  # where valid responses never succeed there is nothing to hide
    ],
)
def test_boundary(success: str, invalid: str, fires: bool) -> None:
    assert (run_check("REW010", success_rate=success, fallback_rate=invalid) is not None) is fires
