"""Requirements for single real runs, sentence by sentence; reward and stall have separate files."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.diagnosis.check import Finding, Severity
from grpo_doctor.readers import read
from tests.corpus import run_named
from tests.corpus_path import P30, needs_corpus

pytestmark = needs_corpus


def found(diagnosis: Diagnosis, code: str) -> Finding:
    finding = diagnosis.finding(code)
    assert finding is not None, f"{code} is not among {[f.code for f in diagnosis.findings]}"
    return finding


def errors(diagnosis: Diagnosis) -> list[str]:
    return [f.code for f in diagnosis.findings if f.level >= Severity.ERROR and not f.cleared]


def test_r028_is_nan_with_the_infinities_of_its_gradient_before_it() -> None:
    diagnosis = diagnose(run_named("R028"))
    assert (diagnosis.verdict, diagnosis.cause, found(diagnosis, "GRD001").onset_step) == ("failing", "GRD001", 195)
    spike = found(diagnosis, "GRD002")
    assert (spike.onset_step <= 184, spike.severity) == (True, "warning")  # the held-out score rose first


@pytest.mark.parametrize("name", ["R006", "R029"])
def test_low_entropy_and_one_huge_gradient_are_healthy(name: str) -> None:
    diagnosis = diagnose(run_named(name))
    assert (diagnosis.verdict, errors(diagnosis)) == ("healthy", [])


def test_r006_ends_with_almost_no_entropy() -> None:
    entropy = run_named("R006").column("entropy_mean")
    assert entropy is not None
    assert entropy[-1] == pytest.approx(0.023, abs=0.002)


def test_r138_wastes_most_of_its_steps_on_equal_rewards() -> None:
    diagnosis = diagnose(run_named("R138"))
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", None)
    assert errors(diagnosis) == []
    assert found(diagnosis, "ADV003").evidence["whole_run"] > 0.5


def test_r164_has_no_signal_is_truncated_and_never_learned() -> None:
    diagnosis = diagnose(run_named("R164"))
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "LEN003")
    assert {"ADV003", "LEN003"} <= {f.code for f in diagnosis.findings}
    assert found(diagnosis, "LEN003").kind == "outcome"  # all are cut all along, whatever the reward does


def test_console_and_tensorboard_of_one_run_get_the_same_diagnosis() -> None:
    """The console prints values that the event file lacks; values in both must be judged alike."""

    def essence(name: str) -> Any:
        diagnosis = diagnose(run_named(name))
        judged = {f.code: (f.severity, f.role) for f in diagnosis.findings if f.level >= Severity.ERROR}
        return diagnosis.verdict, diagnosis.cause, judged

    assert essence("R121") == essence("R122")


def test_r121_collapses_on_its_second_row() -> None:
    run = run_named("R121")
    assert found(diagnose(run), "LEN001").onset_step == run.steps[1]


@pytest.mark.parametrize(("name", "kind"), [("R041", "supervised"), ("R114", "preference")])
def test_other_kinds_of_training_are_not_judged_by_rl_checks(name: str, kind: str) -> None:
    diagnosis = diagnose(run_named(name))
    assert (diagnosis.run_type, errors(diagnosis)) == (kind, [])
    families = {code[:3] for code in (*diagnosis.coverage.passed_codes, *(f.code for f in diagnosis.findings))}
    assert families.isdisjoint({"ADV", "ENT", "KL0", "REW", "LEN", "UPD", "GEN", "RAT", "DIV"})


def test_a_kl_that_is_summed_over_the_sequence_is_judged_only_on_the_first_row() -> None:
    """It is 10.4 nats there, and 0 by definition if the policy is its reference."""
    assert [f.code for f in diagnose(run_named("R165")).findings if f.code.startswith("KL")] == ["KL006"]


def test_r014_is_a_collapse_with_entropy_explosion() -> None:
    diagnosis = diagnose(run_named("R014"))
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "ENT003")
    assert found(diagnosis, "REW009").role == "outcome"


def test_p30_breaks_at_its_fifth_step() -> None:
    diagnosis = diagnose(read(P30)[0])
    assert (diagnosis.cause, found(diagnosis, "GEN001").onset_step) == ("GEN001", 5)
