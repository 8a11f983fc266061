import numpy as np
import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.run import Run
from grpo_doctor.testing import run_check
from tests.compare.pairs import compared, run


def test_two_unanswered_raises_fire_on_the_row_after_the_wait() -> None:
    coef = "0.2x5 0.5x25 2.5x{}"
    assert run_check("ENT005", entropy_coef=coef.format(20), entropy_mean="0.3x50") is None
    found = run_check("ENT005", entropy_coef=coef.format(21), entropy_mean="0.3x51")
    assert found is not None
    assert (found.severity, found.onset_step) == ("warning", 51)
    assert (
        found.message == "The entropy coefficient was raised 2 times, to 2.5, but entropy (0.3 nats) never increased."
    )


def test_an_answer_starts_the_count_again_and_small_raises_do_not_count() -> None:
    coef = "0.2x5 0.5x25 2.5x21"
    assert run_check("ENT005", entropy_coef=coef, entropy_mean="0.3x40 0.32x11") is None
    assert run_check("ENT005", entropy_coef="0.2x5 0.29x25 0.29x21", entropy_mean="0.3x51") is None
    assert run_check("ENT005", {"entropy_coef": 0.01}, entropy_mean="0.3x51") is None


def test_a_rise_by_half_counts_as_a_raise() -> None:
    assert run_check("ENT005", entropy_coef="0.5x5 0.75x25 1.125x21", entropy_mean="0.3x51") is not None
    assert run_check("ENT005", entropy_coef="0.5x5 0.74x25 1.125x21", entropy_mean="0.3x51") is None


def test_five_percent_is_not_an_answer_and_more_is_one() -> None:
    coef = "0.2x5 0.5x25 2.5x21"
    assert run_check("ENT005", entropy_coef=coef, entropy_mean="0.3125x40 0.328125x11") is not None
    assert run_check("ENT005", entropy_coef=coef, entropy_mean="0.3125x40 0.328126x11") is None


def dose(coefficient: float, entropy: float, **settings: float) -> Run:
    rng = np.random.default_rng(int(1e4 * coefficient))
    noise = rng.normal(0, 0.02, 40)
    return run({"entropy_coef": coefficient, **settings}, entropy_mean=[float(x) for x in entropy + noise])


def across(base: Run, new: Run) -> list[tuple[str, str]]:
    return [
        (f.severity, f.message)
        for f in compared(base, new, catalogue=load().select(preview=True)).findings
        if f.code == "ENT005"
    ]


def test_across_runs_the_larger_dose_goes_with_the_lower_entropy() -> None:
    told = "Entropy is lower with the larger coefficient: 0.896 nats at a coefficient of 0.01, and 0.411 nats at 0.05."
    assert across(dose(0.01, 0.9), dose(0.05, 0.4)) == [("error", told)]
    ((severity, _),) = across(dose(0.05, 0.4), dose(0.01, 0.9))
    assert severity == "error"


@pytest.mark.parametrize(
    ("base", "new"),
    [
        (dose(0.01, 0.4), dose(0.05, 0.9)),
        (dose(0.01, 0.9), dose(0.05, 0.9)),
        (dose(0.01, 0.9), dose(0.014, 0.4)),
        (dose(0.01, 0.9, temperature=1.0), dose(0.05, 0.4, temperature=0.5)),
    ],
)
def test_across_runs_silent(base: Run, new: Run) -> None:
    assert across(base, new) == []
