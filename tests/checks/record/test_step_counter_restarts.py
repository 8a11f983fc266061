from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.record import StepRecord
from grpo_doctor.run import run_of
from grpo_doctor.testing import run_check


def test_a_counter_that_goes_back() -> None:
    run = run_of([StepRecord(step=n, reward_mean=0.5) for n in (1, 2, 3, 1, 2, 1)])
    found = diagnose(run).finding("REC002")
    assert found is not None
    assert found.severity == "info"
    assert found.message == (
        "The log contains 2 restarts of the step counter (most recently to step 1). Analyse the parts separately."
    )


def test_a_counter_that_continues() -> None:
    assert run_check("REC002", reward_mean="0.5x20") is None
