import math
from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.probes import run_probes
from grpo_doctor.readers import read
from grpo_doctor.testing import find, run_check
from tests.probes.broken_styles import finding
from tests.probes.styles import Left, Packed, Shifted, Turns


def test_a_nan_is_critical_at_once() -> None:
    found = find("GRD001", loss="0.1 0.1 NaN 0.1x3")
    assert (found.severity, found.confidence, found.onset_step, found.last_step) == ("critical", "high", 3, 3)
    assert found.message == "loss has been NaN on 1 step."


@pytest.mark.parametrize(("loss", "severity"), [(0.0, "critical"), (0.6, "info")])
def test_a_margin_that_is_nan_is_one_of_the_loss_where_that_is_printed_as_0(loss: float, severity: str) -> None:
    assert find("GRD001", reward_margin=[math.nan], loss=[loss]).severity == severity


@pytest.mark.parametrize(("norms", "severity"), [("1 inf 1 inf 1", "warning"), ("1 inf 1 inf inf", "error")])
def test_infinite_gradients_are_counted(norms: str, severity: str) -> None:
    assert find("GRD001", grad_norm=norms).severity == severity


@pytest.mark.parametrize("columns", [{"loss": "0.1x30"}, {"entropy_max": "NaNx30"}, {"grad_norm": "1 2.9e9 1x20"}])
def test_it_stays_silent(columns: dict[str, Any]) -> None:
    assert run_check("GRD001", **columns) is None


def test_a_single_infinite_gradient_is_cleared() -> None:
    found = find("GRD001", grad_norm="1 inf 1x10")
    assert (found.last_step, found.cleared) == (2, True)


def test_the_third_infinite_gradient_is_an_error_until_its_own_step() -> None:
    found = find("GRD001", grad_norm="1 inf 1 inf inf 1x10")
    assert (found.severity, found.last_step, found.cleared) == ("error", 5, True)


def test_a_kl_that_is_nan_next_to_a_finite_gradient_is_not_trained_on() -> None:
    found = find("GRD001", kl="0.01 NaN 0.01x10", grad_norm="0.1x12", loss="0x12")
    assert (found.severity, found.cleared) == ("info", True)
    assert found.message.endswith(". The gradient is finite, so the non-finite value is logged but not trained on.")
    beside_loss = find("GRD001", kl="NaNx3", loss="0.3 0.2 0.1")
    assert beside_loss.severity == "info"
    assert beside_loss.message.endswith(". The loss is finite, so the non-finite value is logged but not trained on.")


@pytest.mark.parametrize(
    ("norm", "severity"), [("1x30", "warning"), ("1x9 0 1x20", "critical"), ("1x9 nan 1x20", "critical")]
)
def test_a_nan_loss_next_to_a_finite_gradient_was_not_trained_on(norm: str, severity: str) -> None:
    found = find("GRD001", loss="1x9 nan 1x20", grad_norm=norm)
    assert found.severity == severity
    assert found.message.endswith("not trained on.") is (severity == "warning")


@pytest.mark.parametrize(("losses", "severity"), [("1x21 nanx5", "warning"), ("1x20 nanx6", "critical")])
def test_a_loss_that_stays_nan_is_critical_whatever_the_gradient(losses: str, severity: str) -> None:
    assert find("GRD001", loss=losses, grad_norm="1x26").severity == severity


@pytest.mark.parametrize(
    "columns", [{"loss": "0x3"}, {"grad_norm": "0x3"}, {"grad_norm": "0.1 0 0.1", "loss": "0 NaN 0"}, {}]
)
def test_a_nan_kl_with_a_nan_or_zero_gradient_is_critical(columns: dict[str, Any]) -> None:
    assert find("GRD001", kl="0.01 NaN 0.01", **columns).severity == "critical"


@pytest.mark.parametrize(
    ("settings", "columns", "severity"),
    [
        ({"kl_coef": 0}, {"kl": "nanx4", "reward_mean": "0.3x4"}, "info"),
        ({"kl_coef": 0.04}, {"kl": "nanx4", "reward_mean": "0.3x4"}, "critical"),
        ({}, {"kl": "nan", "reward_std": "0.4"}, "critical"),
        ({}, {"kl": "0.1 nan", "reward_std": "0.4x2"}, "critical"),
        ({}, {"kl": "nanx2", "reward_std": "0.4x2"}, "info"),
        ({}, {"kl": "nanx2", "reward_std": "0x2"}, "critical"),
        ({"kl_coef": 0}, {"kl": "nanx4", "grad_norm": "0x4"}, "critical"),
    ],
)
def test_a_kl_that_is_not_in_the_loss(settings: dict[str, float], columns: dict[str, Any], severity: str) -> None:
    assert find("GRD001", settings, **columns).severity == severity


@pytest.mark.parametrize(
    ("fault", "style", "severity", "message"),
    [
        (
            "quotient of probabilities",
            "packed",
            "error",
            "Loss or gradient is not finite when policy, old policy and reference all lower the log-probabilities of "
            "response tokens by 100 nats (ratio 1).",
        ),
        (
            "reference of padding is 0",
            "left",
            "warning",  # no response is touched, and only the mask before exp is missing
            "Loss or gradient is not finite when policy, old policy and reference all lower the log-probabilities of "
            "padding by 100 nats (ratio 1).",
        ),
        (
            "ratio in half precision",
            "turns",
            "error",
            "Loss or gradient is not finite at a log-ratio of +20 on one response token.",
        ),
    ],
)
def test_a_loss_that_overflows_is_reported(fault: str, style: str, severity: str, message: str) -> None:
    found = finding(fault, style)
    assert found is not None
    assert (found.severity, found.message) == (severity, message)


@pytest.mark.parametrize("style", [Left, Shifted, Packed, Turns])
def test_a_loss_that_clamps_is_silent_and_an_exp_of_padding_gets_a_remark(style: type[Left]) -> None:
    only = load().select(["GRD001"])
    assert run_probes(style(clamped=True).adapter("rollout", "loss"), catalogue=only).findings == []
    found = run_probes(style().adapter("rollout", "loss"), catalogue=only).findings
    told = "Loss or gradient is not finite at log-ratios of ±100 on padding: the mask is applied after exp."
    assert [(f.severity, f.message) for f in found] == ([] if style is Packed else [("info", told)])


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        pytest.param({"grad_norm": "1x9 nan"}, "critical", id="too early to say"),
        pytest.param({"grad_norm": "1x9 nan 1"}, "info", id="refused"),
        pytest.param({"grad_norm": "1x9 nanx2 1 nanx2"}, "warning", id="again"),
        pytest.param({"grad_norm": "1x9 nanx2 1 nanx3"}, "critical", id="for longer than ever"),
        pytest.param({"grad_norm": "nanx2 1x11 nan 1"}, "warning", id="three times"),
        pytest.param({"grad_norm": "nanx10 1x10"}, "warning", id="half of the updates"),
        pytest.param({"grad_norm": "nanx11 1x10"}, "critical", id="most updates"),
        pytest.param({"grad_norm": "1x9 nan 0x20"}, "critical", id="no gradient after it"),
    ],
)
def test_a_gradient_of_nan_that_leaves_no_trace_was_refused(columns: dict[str, Any], severity: str) -> None:
    found = find("GRD001", **columns)
    assert (found.severity, found.cleared) == (severity, False)


MARGINS = (
    "{'loss': 0.69, 'rewards/chosen': 0.0, 'rewards/rejected': 0.0, 'rewards/margins': 0.0, 'epoch': 0.0}\n"
    + "".join(
        f"{{'loss': 0.0, 'rewards/chosen': nan, 'rewards/rejected': nan, 'rewards/margins': nan, 'epoch': 0.{n}}}\n"
        for n in range(1, 4)
    )
)
REWARDS = "".join(
    f"{{'loss': 0.1, 'grad_norm': nan, 'reward': 0.{n}, 'kl': 0.1, 'epoch': 0.{n}}}\n" for n in range(1, 5)
)


@pytest.mark.parametrize(("log", "possible"), [(MARGINS, False), (REWARDS, True)])
def test_a_group_of_one_is_no_explanation_of_preference_training(tmp_path: Path, log: str, possible: bool) -> None:
    (tmp_path / "train.log").write_text(log, encoding="utf-8")
    (run,) = read(tmp_path / "train.log")
    (found,) = [f for f in diagnose(run).findings if f.code == "GRD001"]
    names = {rival.name for rival in found.rivals}
    assert any(name.startswith("a group has one response") for name in names) is possible
    assert "fp16 overflows" in names
