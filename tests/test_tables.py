"""The comparison tables and the section "Before the next run", for any run that has the fields."""

from typing import Any

import numpy as np
import pytest

from grpo_doctor import Finding, Rival, Run
from grpo_doctor.diagnosis.check import Role
from grpo_doctor.diagnosis.remedies import shared_remedies
from grpo_doctor.diagnosis.tables import before_next_run, tables_of
from grpo_doctor.run import Table
from grpo_doctor.testing import make_run


def table(run: Run, title: str) -> Table:
    (found,) = [t for t in tables_of(run) if t.title.startswith(title)]
    return found


def test_indicators_compare_the_first_step_with_the_last() -> None:
    run = make_run(entropy_mean="1.2 ? 0.5x3 0.02 0.03", logit_gap="?x6 8.2")
    assert table(run, "Indicators").rows == [
        ["top-2 logit gap", "8.2 (step 7)", "8.2 (8.2 to 8.2)"],
        ["entropy, nats/token", "1.2 (step 1)", "0.5 (0.02 to 0.5)"],
    ]


def test_a_run_without_the_fields_has_no_tables() -> None:
    assert tables_of(make_run(grad_norm="1x5")) == []


def test_a_supervised_run_has_no_tables() -> None:
    run = make_run(entropy_mean="1x5")
    run.run_type = "supervised"
    assert tables_of(run) == []


def test_zero_variance_groups_expected_and_actual() -> None:
    run = make_run({"group_size": 4.0}, zero_variance_groups="2 1", groups="4x2", success_rate="0.5 0.9")
    # (0.5^4 + 0.5^4 + 0.9^4 + 0.1^4) / 2
    assert table(run, "Zero-variance groups").rows == [["all", "8", "3 (37.5%)", "39.1%", "0.70", "4"]]


def test_zero_variance_groups_by_task_and_what_is_unknown() -> None:
    run = make_run(zero_variance_groups="2", groups="4", by_task=[{"a": {"zero_variance_groups": 2.0, "groups": 2.0}}])
    assert table(run, "Zero-variance groups").rows == [
        ["a", "2", "2 (100.0%)", "unknown", "unknown", "unknown"],
        ["all", "4", "2 (50.0%)", "unknown", "unknown", "unknown"],
    ]


@pytest.mark.parametrize(("low", "expected"), [("0x2", "50.0%"), ("-1x2", "unknown")])
def test_a_mean_reward_is_a_chance_only_between_0_and_1(low: str, expected: str) -> None:
    run = make_run(
        {"group_size": 2}, live_groups="1x2", groups="4x2", reward_mean="0.5x2", reward_min=low, reward_max="1x2"
    )
    assert table(run, "Zero-variance groups").rows == [
        ["all", "unknown", "75.0%", expected, "0.50" if low == "0x2" else "unknown", "2"]
    ]


def test_share_of_the_kl_term_is_called_weak() -> None:
    run = make_run({"kl_coef": 0.12}, policy_loss="0.00034 -0.00083", kl="0.094 0.08131")
    made = table(run, "Share of the KL term")
    assert made.rows == [["1", "0.00034", "0.01128", "97.1%"], ["2", "-0.00083", "0.009757", "92.2%"]]
    assert made.note.startswith("Weak evidence: this compares loss values.")


def test_from_epoch_to_epoch() -> None:
    run = make_run(epoch="0.5 1.0 1.5 2.0", kl="0.1 0.3 0.1 ?", advantage_std="?x3 0.5")
    made = table(run, "From epoch to epoch")
    assert made.head == ["indicator", "epoch 1", "epoch 2", "change"]
    assert made.rows == [["kl", "0.2", "0.1", "-50%"]]


def finding(code: str, role: Role, **changes: Any) -> Finding:
    return Finding(
        code=code, name="n", kind="defect", severity="error", confidence="high", role=role, onset_step=5, detected_step=5, last_step=9,
        message="m", **changes,
    )  # fmt: skip


def test_before_the_next_run() -> None:
    cause = finding(
        "GEN001",
        "cause",
        rivals=[Rival("rate", "too high", "a rate of 0")],
        invalidates=["checkpoints since step 5"],
        remedies=[shared_remedies()["generate-in-eval-mode"], shared_remedies()["lower-learning-rate"]],
        columns=["valid_rate"],
    )
    note = finding("ADV003", "note", remedies=[shared_remedies()["drop-zero-variance-groups"]], columns=["groups"])
    assert before_next_run([cause, note]) == [
        "Verify first (GEN001): a rate of 0",
        "Do not use (GEN001): checkpoints since step 5",
        "Then change only this (GEN001): Generate in eval mode with gradient checkpointing disabled (or with "
        "use_cache=False)",
        "In the first two steps of the next run, watch valid_rate",
    ]
    assert (
        before_next_run([note])[0] == "Then change only this (ADV003): Fill the batch with groups whose rewards differ"
    )
    assert before_next_run([]) == []


def test_a_million_rows_take_no_longer_than_their_columns() -> None:
    run = Run()
    run.steps = np.arange(1_000_000)
    run.columns = {
        "entropy_mean": np.ones(1_000_000),
        "zero_variance_groups": np.ones(1_000_000),
        "groups": np.full(1_000_000, 2.0),
    }
    assert table(run, "Zero-variance groups").rows == [
        ["all", "2000000", "1000000 (50.0%)", "unknown", "unknown", "unknown"]
    ]
