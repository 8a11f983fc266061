import pytest

from grpo_doctor.run import Sample
from grpo_doctor.testing import find, run_check

PROSE = " ".join(f"word{n}" for n in range(60))
LOOP = "Let me think about the sum of these numbers. " + "so the answer is 12, wait, " * 12


def test_a_share_that_rises_is_reported_with_its_first_level() -> None:
    found = find("DIV005", repetition_rate="0.02x20 0.3x10")
    assert (found.severity, found.onset_step) == ("warning", 21)
    assert found.message == "30% of the responses end in a loop of repeated text (2% at the start)."


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        ("0.02x20 0.2x10", None),
        ("0.02x20 0.21x10", "warning"),
        ("0.15x20 0.24x10", None),  # loops from the start, and few more of them
        ("0.5x20", None),
        ("0.51x20", "error"),
        ("0.03x40", None),
    ],
)
def test_boundary(share: str, severity: str | None) -> None:
    found = run_check("DIV005", repetition_rate=share)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("share", "fires"), [("0.125x20 0.25x9", True), ("0.25x20 0.34x9", False), ("0.5x10", False)])
def test_boundary_of_the_rise(share: str, fires: bool) -> None:
    thresholds = {"risen": 0.125}
    assert (run_check("DIV005", thresholds=thresholds, repetition_rate=share) is not None) is fires


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("x" * 40 + "y" * 40 + ("abcdefghij" * 4) * 3, 0),  # 200 characters, whose last 40 occur three times
        ("y" * 40 + ("abcdefghij" * 3 + "klmnopqrst") * 4, 1),  # four times
        ("y" * 39 + ("abcdefghij" * 3 + "klmnopqrst") * 4, 0),  # 199 characters
    ],
)
def test_boundary_of_a_loop(text: str, loops: int) -> None:
    samples = {n: [Sample(step=n, response=text)] for n in range(1, 11)}
    found = run_check("DIV005", samples=samples, reward_mean="0.5x10")
    assert (found is not None) is bool(loops)


def test_it_begins_where_single_steps_leave_the_limit() -> None:
    assert find("DIV005", repetition_rate="0x10 0.2x5 0.9x5").onset_step == 16


def test_loops_in_a_run_that_learns_are_a_warning() -> None:
    rising = [0.1 + 0.01 * n for n in range(60)]
    assert find("DIV005", repetition_rate="0.02x20 0.8x40", reward_mean=rising).severity == "warning"


def test_loops_are_counted_in_saved_responses() -> None:
    texts = {n: [LOOP if n > 10 else PROSE, PROSE, PROSE] for n in range(1, 21)}
    samples = {n: [Sample(step=n, response=text) for text in row] for n, row in texts.items()}
    found = run_check("DIV005", samples=samples, reward_mean="0.5x20")
    assert found is not None
    assert found.message == "33% of the responses end in a loop of repeated text (0% at the start)."
