import pytest

from grpo_doctor.testing import find, run_check


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
    assert (found.onset_step, found.detected_step) == (5, 7)
    assert found.message == "80% of the responses hold tokens of the chat template."
