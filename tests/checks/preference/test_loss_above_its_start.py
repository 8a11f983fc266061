import pytest

from grpo_doctor import diagnose
from grpo_doctor.testing import find, make_run, run_check


def test_a_loss_above_that_of_the_untrained_model() -> None:
    finding = find("PRF006", loss="0.69x5 1.2x10")
    assert (finding.severity, finding.kind) == ("warning", "outcome")
    assert finding.message == (
        "The loss is 1.2, above the loss of the untrained model (ln 2 = 0.693). Some pairs are ranked wrongly by wide "
        "margins."
    )


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("0.69x5 0.793x12", False),  # 0.1 above ln 2
        ("0.69x5 0.794x12", True),
        ("0.744x5 1x12", False),  # another loss: its first value is more than 0.05 from ln 2
        ("0.743x5 1x12", True),
        ("0.7 0.9x8", False),  # nine rows
        ("0.7x2 0.9x8", True),
        ("0.69 0.4 1.2 0.4 1.2 0.4 1.2 0.4 1.2 0.4 1.2 0.4 1.2", False),  # within the noise
    ],
)
def test_exactly_at_a_threshold(loss: str, told: bool) -> None:
    assert (run_check("PRF006", loss=loss) is not None) is told


@pytest.mark.parametrize(
    ("loss", "settings", "told"),
    [
        ("5 40 2 33 0.9 12 50 4 8 30", {"loss_type": "sigmoid"}, True),
        ("5 40 2 33 0.9 12 50 4 8 30", {"loss_type": "ipo"}, False),
        ("5 40 2 33 0.9 12 50 4 8 30", {}, False),
        ("5 40 2 33 0.79 12 50 4 8 30", {"loss_type": "sigmoid"}, False),
        ("5 40 2 33 0.9 12 50 4 8", {"loss_type": "sigmoid"}, False),
    ],
)
def test_ten_noisy_losses_above_it_count(loss: str, settings: dict[str, str], told: bool) -> None:
    assert (run_check("PRF006", settings, loss=loss) is not None) is told


def test_it_is_past_once_the_loss_is_below_ln_2_again() -> None:
    run = make_run(loss="0.69x5 1.2x20 0.5x20")
    run.run_type = "preference"
    finding = diagnose(run).finding("PRF006")
    assert finding is not None
    assert finding.cleared


def test_a_run_that_learns_is_healthy() -> None:
    run = make_run(loss=[0.69 * 0.97**n for n in range(80)], reward_margin=[0.05 * n for n in range(80)])
    run.run_type = "preference"
    said = diagnose(run)
    assert (said.verdict, said.finding("PRF006")) == ("healthy", None)
