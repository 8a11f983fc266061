from typing import Any

import pytest

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.run import run_of
from grpo_doctor.testing import find, make_run, records_of, run_check

FALLS = "0.69 0.5 0.3 0.1 0.01"


def test_a_loss_of_0_for_most_of_the_run_is_what_it_suffers_from() -> None:
    finding = find("PRF001", loss=f"{FALLS} 0x15", grad_norm="9 8 5 1 0.1 1e-7x15")
    assert (finding.severity, finding.kind) == ("warning", "outcome")
    assert finding.message == (
        "The loss is near 0 on 15 of 20 rows and the gradient norm is 1e-07. Pairs that are ranked correctly provide "
        "no further signal."
    )


def test_a_run_with_this_ending_has_finished() -> None:
    finding = find("PRF001", loss="0.69x12 5e-4x10")
    assert (finding.severity, finding.kind) == ("info", "risk")
    assert finding.message.startswith("The loss is near 0 on 10 of 22 rows. ")


@pytest.mark.parametrize("held_out", [{"eval_loss": "0.4 ?x4 0.3 ?x14"}, {"eval_loss": "1e-3 ?x4 1e-3 ?x14"}])
def test_success_on_held_out_pairs_is_not_flagged(held_out: dict[str, Any]) -> None:
    assert find("PRF001", loss=f"{FALLS} 0x15", **held_out).severity == "info"
    assert find("PRF001", loss=f"{FALLS} 0x15", eval_loss="0.4 ?x4 0.4 ?x14").severity == "warning"


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        (f"{FALLS} 1e-3x8 0.1x2", None),
        (f"{FALLS} 1e-3x9 0.1", "warning"),  # nine of ten, and nine of fifteen
        (f"{FALLS} 1.1e-3x15", None),
        ("0.69x11 0x10", "info"),
        ("0.69x10 0x10", "warning"),
        ("0.69x10 -1e-9 0x10", None),  # -log sigmoid is never below 0
    ],
)
def test_exactly_at_a_threshold(loss: str, severity: str | None) -> None:
    found = run_check("PRF001", loss=loss)
    assert (found and found.severity) == severity


def test_a_run_that_keeps_learning_is_healthy() -> None:
    run = make_run(loss=[0.69 * 0.97**n for n in range(80)], reward_margin=[0.05 * n for n in range(80)])
    run.run_type = "preference"
    said = diagnose(run)
    assert (said.verdict, said.finding("PRF001")) == ("healthy", None)


@pytest.mark.parametrize(
    ("loss", "norms", "told"),
    [
        ("0.57 0.43x5", "0.38 9e-3x2 3e-4x3", False),  # six steps
        ("0.57 0.43x5", "0.38 9e-3 3e-4x4", True),  # eight steps
        ("0.57 0.43x5", "0.38 1.1e-3x5", False),
        ("0.57 0.43x5", "0.2 3e-4x5", False),  # more than a thousandth of the first norm
        ("0.57 0.43x5", "0.38 0x5", False),  # no gradient at all is another problem
    ],
)
def test_rows_two_steps_apart_of_a_gradient_near_0(loss: str, norms: str, told: bool) -> None:
    found = every(2, loss=loss, grad_norm=norms).finding("PRF001")
    assert (found is not None) is told
    if found is not None:
        assert (found.severity, found.onset_step) == ("warning", 12)
        assert found.message == (
            "The gradient norm is near 0 on 4 of 6 rows, but the loss is 0.43. Probably, 62% of the pairs have two "
            "equal responses and provide no further signal."
        )


def test_a_saturated_run_of_four_rows_is_suspect() -> None:
    assert every(10, loss="0.69 0.16 0 0", reward_margin="0 27 120 142", success_rate="0 0.9 1 1").verdict == "suspect"


def every(steps: int, **columns: str) -> Diagnosis:
    """Return the diagnosis of a preference run with rows this many steps apart."""
    rows = records_of(**columns)
    for record in rows:
        record.step *= steps
    run = run_of(rows)
    run.run_type = "preference"
    return diagnose(run)
