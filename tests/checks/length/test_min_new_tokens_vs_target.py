import pytest

from grpo_doctor.testing import run_check


@pytest.mark.parametrize(
    ("minimum", "length", "fires"),
    [
        (14, "16.8x3", True),
        (14, "16.81x3", False),
        (14, "16x2 20x3", False),
        (2, "2x5", True),
        (1, "1x5", False),
        (5, "60x5", False),
    ],
)
def test_boundary(minimum: int, length: str, fires: bool) -> None:
    found = run_check("LEN005", {"min_new_tokens": minimum}, response_length_mean=length)
    assert (found is not None) is fires


def test_message() -> None:
    found = run_check("LEN005", {"min_new_tokens": 14}, response_length_mean="16.2x5")
    assert found is not None
    assert (
        found.message
        == "The mean response length is 16.2 tokens: responses end as soon as the minimum of 14 tokens allows."
    )
