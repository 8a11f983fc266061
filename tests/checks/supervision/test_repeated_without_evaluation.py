from typing import Any

import pytest

from grpo_doctor import diagnose
from grpo_doctor.testing import find, make_run, run_check

MESSAGE = "The training data were repeated ({} epochs), and the log has no held-out evaluation, so a gain may be memorisation."


def test_three_epochs_without_an_evaluation() -> None:
    finding = find("SUP003", loss="0.69->0.03x30", epoch=[0.1 * n for n in range(1, 31)])
    assert (finding.severity, finding.message) == ("info", MESSAGE.format("3"))


@pytest.mark.parametrize(("last", "told"), [(1.49, False), (1.5, True)])
def test_exactly_at_the_threshold(last: float, told: bool) -> None:
    assert (run_check("SUP003", loss="0.6x3", epoch=[0.5, 1.0, last]) is not None) is told


@pytest.mark.parametrize("held_out", [{"eval_loss": "0.5 ? ?"}, {"eval_score": "0.5 ? ?"}])
def test_an_evaluation_silences_it(held_out: dict[str, Any]) -> None:
    assert run_check("SUP003", loss="0.6x3", epoch=[1.0, 2.0, 3.0], **held_out) is None


def test_a_healthy_run_names_it_next_to_its_gain() -> None:
    run = make_run(
        loss=[0.69 * 0.97**n for n in range(80)],
        reward_margin=[0.05 * n for n in range(80)],
        epoch=[n / 20 for n in range(80)],
    )
    run.run_type = "preference"
    said = diagnose(run)
    assert said.verdict == "healthy"
    assert f"{MESSAGE.format('4')} No other problem found" in said.headline


def test_one_epoch_is_healthy() -> None:
    run = make_run(loss=[0.69 * 0.97**n for n in range(80)], epoch=[n / 80 for n in range(80)])
    run.run_type = "preference"
    said = diagnose(run)
    assert (said.verdict, said.finding("SUP003")) == ("healthy", None)
