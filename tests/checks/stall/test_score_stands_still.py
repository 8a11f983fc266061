import pytest

from grpo_doctor.testing import find, run_check

FELL = "0.992 0.725 0.683 0.575 0.6x17"


def test_message() -> None:
    found = find("STL007", success_rate=FELL)
    assert (found.severity, found.kind, found.onset_step, found.detected_step) == ("error", "outcome", 5, 12)
    assert found.message == (
        "The success rate fell from 0.992 to 0.6 and was constant in its last 17 values, so the policy gives the same answers."
    )
    idle = find("STL007", success_rate="0.45x12 0.55x12", loss="0x24")
    assert (
        idle.message == "The success rate was exactly 0.55 in its last 12 values, so the policy gives the same answers."
    )


@pytest.mark.parametrize(
    ("rate", "loss", "severity"),
    [
        ("0.9 0.6x7", "?x8", None),
        ("0.9 0.6x8", "?x9", "error"),
        ("0.5 0.36x8", "?x9", "warning"),
        ("0.5 0.35x8", "?x9", "error"),
        ("0.1 0.9 0.2 0.8 0.1 0.9 0.2 0.8 0.6x8", "?x16", "error"),  # half of the values
        ("0.1 0.9 0.2 0.8 0.1 0.9 0.2 0.8 0.1 0.6x8", "?x17", None),
        ("0.62 0.6x8", "?x9", "warning"),
        ("0 0.02x8", "0x9", "warning"),  # a step of exactly 0.02
        ("0.619 0.6x8", "?x9", None),  # a running mean that settles
        ("0.619 0.6005x8", "?x9", "warning"),
        ("0.6x20", "?x20", None),
        ("0.9 0x8", "?x9", None),
        ("0.6 1x8", "?x9", None),
        ("0.45x12 0.55x12", "0.3x24", None),  # it gained and rests there
        ("0.45x12 0.55x12", "0.3x12 0x12", "warning"),
        ("0.45x12 0.55x12", "0.3x16 0x8", "warning"),
        ("0.45x12 0.55x12", "0.3x17 0x7", None),
        ("0.3 0.95x20", "?x21", None),
    ],
)
def test_boundary(rate: str, loss: str, severity: str | None) -> None:
    found = run_check("STL007", success_rate=rate, loss=loss)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("scores", "severity"),
    [
        ("0.1948x8", "warning"),  # never anything else: no update reaches what is evaluated
        ("0.1948x7", None),
        ("0.195x20", None),  # so few digits may be rounding
        ("0.9 0.6x8", "error"),
        ("0.2 0.4 0.6 0.71x12", None),  # it has gained
    ],
)
def test_a_held_out_score_counts_where_no_success_rate_is_recorded(scores: str, severity: str | None) -> None:
    found = run_check("STL007", eval_score=scores)
    assert (found.severity if found else None) == severity


def test_a_success_rate_that_changes_shows_that_the_policy_does() -> None:
    moving = [0.3 + 0.01 * (n % 3) for n in range(20)]
    assert run_check("STL007", eval_score="0.19482x20", success_rate=moving) is None


def test_message_of_a_held_out_score() -> None:
    told = "The held-out score was exactly 0.195 in its last 20 values, so the policy gives the same answers."
    assert find("STL007", eval_score="0.19482x20").message == told
