import pytest

from grpo_doctor import diagnose
from grpo_doctor.check import Finding
from grpo_doctor.testing import make_run

TRAIN = "2 1.5 1 0.8 0.6 0.4 0.2 0.1"


def found(loss: str, eval_loss: str) -> Finding | None:
    run = make_run(loss=loss, eval_loss=eval_loss)
    run.run_type = "supervised"
    return diagnose(run).finding("SUP002")


def test_held_out_loss_that_rises_while_training_falls() -> None:
    finding = found(TRAIN, "? 1.5 ? 1.2 ? 1.4 ? 1.6")
    assert finding is not None
    assert finding.severity == "warning"
    assert finding.message == "The loss on held-out data rose from 1.2 to 1.6 while that of training fell to 0.1."


@pytest.mark.parametrize(
    ("loss", "held_out"),
    [
        (TRAIN, "? 1.5 ? 1.2 ? 1.1 ? 1.6"),
        (TRAIN, "? 1.5 ? 1.2 ? 1.25 ? 1.3"),
        (TRAIN, "? ? ? ? ? 1.2 ? 1.6"),
        ("2 2 2.1 2 2.1 2 2 2.1", "? 1.5 ? 1.2 ? 1.4 ? 1.6"),
    ],
    ids=["once", "a little", "too few", "training does not fall"],
)
def test_it_stays_silent(loss: str, held_out: str) -> None:
    assert found(loss, held_out) is None
