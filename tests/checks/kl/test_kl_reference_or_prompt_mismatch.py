from typing import Any

import pytest

from grpo_doctor import Finding, StepRecord, diagnose
from grpo_doctor.diagnosis.catalogue import Catalogue
from grpo_doctor.run import run_of
from grpo_doctor.testing import check_of, find, run_check


@pytest.mark.parametrize("then", ["3.6x20", "1x20"])
def test_message_and_no_clearing_when_the_kl_changes(then: str) -> None:
    found = find("KL006", kl=f"3.57 {then}")
    assert (found.severity, found.onset_step, found.detected_step, found.cleared) == ("warning", 1, 1, False)
    assert found.message == (
        "The KL to the reference model was 3.57 nats/token on the first row, so the policy differed from its "
        "reference model or was scored differently."
    )


@pytest.mark.parametrize(
    ("kl", "severity"),
    [
        ("0x9", None),
        ("0 0.5x9", None),
        ("0.02 0x9", None),
        ("0.021 0x9", "warning"),
        ("10", "warning"),
        ("10.1", "error"),
    ],
)
def test_boundary(kl: str, severity: str | None) -> None:
    found = run_check("KL006", kl=kl)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("kl", "severity"), [("1", None), ("1.1", "warning"), ("-3", None), ("30", "warning")])
def test_a_sum_over_the_response_is_judged_without_a_kl_per_token(kl: str, severity: str | None) -> None:
    found = run_check("KL006", kl_sequence=kl)
    assert (found.severity if found else None) == severity
    assert run_check("KL006", kl="0", kl_sequence=kl) is None


def test_message_for_a_sum_over_the_response() -> None:
    assert find("KL006", kl_sequence="29.3x3").message == (
        "The KL to the reference model was 29.3 nats/response on the first row, so the policy differed from its "
        "reference model or was scored differently."
    )


def later(*kl: float) -> Finding | None:
    run = run_of([StepRecord(step=10 * (i + 1), kl=value) for i, value in enumerate(kl)])
    return next(iter(diagnose(run, catalogue=Catalogue([check_of("KL006")])).findings), None)


@pytest.mark.parametrize("kl", [(0.4, 0.5), (1.5, 0.1), (1.6, 1.5), (10.0, 9.0), (17.0, 30.0)])
def test_a_log_that_begins_later_is_silent_unless_its_kl_is_large_and_falls(kl: tuple[float, ...]) -> None:
    assert later(*kl) is None


@pytest.mark.parametrize(
    ("kl", "severity"), [((1.6, 1.4), "warning"), ((10.0, 8.0), "warning"), ((10.1, 9.0), "error")]
)
def test_a_large_kl_on_a_later_first_row_that_falls(kl: tuple[float, ...], severity: str) -> None:
    found = later(*kl)
    assert found is not None
    assert found.severity == severity
    assert found.message == (
        f"The KL to the reference model was {kl[0]:.3g} nats/token on the first row (step 10) and fell to {kl[1]:.3g}, "
        "so the policy differed from its reference model or was scored differently."
    )


@pytest.mark.parametrize(
    ("kl", "fired"),
    [("17.3", False), ("0.094 0.085", False), ("0.094 0.0845", True), ("10 9", False), ("0.02 0.01", False)],
)
def test_the_mean_of_an_epoch_must_fall_before_the_check_fires(kl: str, fired: bool) -> None:
    assert (run_check("KL006", {"rows": "epochs"}, kl=kl) is not None) == fired


def test_message_for_epochs() -> None:
    found = find("KL006", {"rows": "epochs"}, kl="0.094 0.081 0.074")
    assert (found.severity, found.confidence) == ("warning", "low")
    assert found.message == (
        "The KL to the reference model was 0.094 nats/token over the first epoch and fell to 0.074, so the policy "
        "differed from its reference model or was scored differently."
    )


def test_no_supervised_adapter_is_ten_nats_away() -> None:
    assert find("KL006", {"use_peft": True}, kl="10x10").severity == "info"
    assert find("KL006", {"use_peft": True}, kl="10.1x10").severity == "error"


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"teacher": "Qwen/Qwen3-8B"}, "info"),
        ({"teacher": "none"}, "warning"),
        ({"lora_r": 16}, "info"),
        ({"use_peft": True}, "info"),
        ({"lora_r": 0}, "warning"),
        ({}, "warning"),
    ],
)
def test_with_lora_or_a_teacher_the_reference_is_another_model(settings: dict[str, Any], severity: str) -> None:
    assert find("KL006", settings, kl="3.57 3.6x9").severity == severity


@pytest.mark.parametrize(("first", "severity"), [(0.9, "info"), (1.5, "info"), (1.6, "warning")])
def test_a_distant_reference_of_a_run_that_learns_may_be_its_teacher(first: float, severity: str) -> None:
    rising = " ".join(f"{0.1 + 0.02 * i:.2f}" for i in range(40))
    assert find("KL006", kl=f"{first}x40", reward_mean=rising).severity == severity


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"use_kl_loss": False, "use_kl_in_reward": False}, "info"),
        ({"use_kl_loss": False, "use_kl_in_reward": True}, "warning"),
        ({"use_kl_loss": True, "use_kl_in_reward": False}, "warning"),
        ({"use_kl_loss": False}, "warning"),
    ],
)
def test_a_run_that_uses_no_kl_holds_no_reference(settings: dict[str, Any], severity: str) -> None:
    assert find("KL006", settings, kl="0.55x9").severity == severity


@pytest.mark.parametrize(
    ("kl", "epoch", "fires"),
    [
        ("0.6", "0.1", True),
        ("0.6", "0.11", False),  # a single row after a tenth of an epoch
        ("0.6 0.7", "0.11 0.22", True),  # the second shows that rows are that far apart
    ],
)
def test_a_single_row_counts_as_the_first_up_to_a_tenth_of_an_epoch(kl: str, epoch: str, fires: bool) -> None:
    assert (run_check("KL006", kl=kl, epoch=epoch) is not None) is fires


@pytest.mark.parametrize(("success", "severity"), [(0.95, "info"), (0.85, "warning")])
def test_a_distance_at_the_start_is_a_remark_where_the_task_is_solved(success: float, severity: str) -> None:
    found = find("KL006", kl=[0.1] * 30, success_rate=[success, success + 0.01] * 15)
    assert found.severity == severity
