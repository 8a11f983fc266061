import pytest

from grpo_doctor import Finding, StepRecord, diagnose
from grpo_doctor.diagnosis.catalogue import Catalogue
from grpo_doctor.run import run_of
from grpo_doctor.testing import check_of


def found(step: int, *kl: float) -> Finding | None:
    run = run_of([StepRecord(step=step + i, kl=value) for i, value in enumerate(kl)])
    return next(iter(diagnose(run, catalogue=Catalogue([check_of("KL010")])).findings), None)


def test_a_single_row_is_enough() -> None:
    finding = found(180, 412.8)
    assert finding is not None
    assert (finding.severity, finding.kind, finding.onset_step, finding.cleared) == ("warning", "outcome", 180, False)
    assert finding.message == "The KL to the reference model is 413 nats/token, which is impossible for real text."


@pytest.mark.parametrize(("step", "kl", "fires"), [(2, 100.0, False), (2, 100.1, True), (1, 400.0, False)])
def test_exactly_at_a_threshold(step: int, kl: float, fires: bool) -> None:
    assert (found(step, kl) is not None) is fires


def test_the_second_row_ends_it() -> None:
    finding = found(50, 400.0, 380.0)
    assert finding is not None
    assert finding.cleared


def test_only_the_first_such_row_counts() -> None:
    finding = found(0, 0.0, 0.0, 0.0, 0.0, 256.0)
    assert finding is not None
    assert (finding.onset_step, finding.cleared) == (4, False)
    assert found(0, 0.0, 256.0, 256.0).cleared  # type: ignore[union-attr]
