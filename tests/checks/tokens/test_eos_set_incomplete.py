import pytest

from grpo_doctor.testing import find, run_check


def test_message() -> None:
    found = find("TOK004", truncated_rate="0.97x3", response_length_mean="311x3", response_length_max="840x3")
    assert (found.severity, found.confidence, found.detected_step) == ("warning", "high", 3)
    assert found.message == (
        "97% of the responses count as truncated, but the mean length is 311 tokens and the longest response has 840. "
        "Responses end with a token that the trainer does not treat as EOS."
    )


@pytest.mark.parametrize(
    ("cut", "mean", "longest", "fires"),
    [
        ("0.25x5", "10x5", "1000x5", False),
        ("0.26x5", "233x5", "1000x5", True),
        ("0.26x5", "234x5", "1000x5", False),  # what a quarter at the limit and short answers give
        ("1x5", "900x5", "1000x5", False),
        ("1x5", "1024x5", "1024x5", False),
        ("1x2 0x3", "300x5", "1000x5", False),
    ],
)
def test_boundary(cut: str, mean: str, longest: str, fires: bool) -> None:
    found = run_check("TOK004", truncated_rate=cut, response_length_mean=mean, response_length_max=longest)
    assert (found is not None) is fires
