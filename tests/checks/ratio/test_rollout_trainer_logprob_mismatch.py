from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


@pytest.mark.parametrize(
    ("raw", "side"),
    [
        ("1.05x2", "The raw logits also differ: check weights, train/eval mode and prompt"),
        ("0.001x2", "The raw logits agree: check logits processors and temperature"),
        (
            "?x2",
            "The difference has existed since the first row: check the engine (weights, kernels, log-probabilities)",
        ),
    ],
)
def test_message_names_the_side(raw: str, side: str) -> None:
    found = find("RAT004", rollout_mismatch_kl="1.05x2", rollout_mismatch_raw_kl=raw)
    assert (found.severity, found.onset_step, found.detected_step) == ("critical", 1, 2)
    differ = "The log-probabilities of rollout engine and trainer differ by 1.05 nats/token (estimated KL)."
    assert found.message == f"{differ} {side}."


@pytest.mark.parametrize(
    ("k3", "raw", "side"),
    [
        ("1.05x2", "0.0021x2", "The raw logits also differ"),
        ("1.05x2", "0.002x2", "The raw logits agree"),
        ("0.11x2", "?x2", "The difference has existed since the first row"),
        ("0.011 0.022x2", "?x3", "The difference has existed since the first row: check"),
        ("0.011 0.0221x2", "?x3", "The raw logits of the rollout engine are not recorded"),
    ],
)
def test_the_side_exactly_at_a_threshold(k3: str, raw: str, side: str) -> None:
    assert f". {side}" in find("RAT004", rollout_mismatch_kl=k3, rollout_mismatch_raw_kl=raw).message


@pytest.mark.parametrize(
    ("k3", "severity"),
    [
        ("2e-9x20", None),
        ("0.001x20", None),  # what bf16 gives with nothing broken
        ("0.002x20", None),
        ("0.0021 0x9", None),
        ("0 0.0021x2", "warning"),
        ("0 0.01x2", "warning"),
        ("0.003x20", None),  # steady since the first row, as with a mixture of experts
        ("0.0031x20", "info"),
        ("0.005 0.01x8", "info"),
        ("0.0049 0.01x8", "warning"),
        ("0.002 0.0039x8", "warning"),
        ("0.01 0.003x8", None),
        ("0.01 0.0031x8", "info"),
        ("0.011 0.0021x8", "warning"),
        ("0.011x2", "error"),
        ("0.1x2", "error"),
        ("0.101x2", "critical"),
        ("0.011x20 0.022x8", "error"),
        ("0.011x20 0.023x8", "critical"),  # doubled within 20 rows
        ("0.0021x20 0.009x8", "warning"),
        ("0.004x20 0.01x8", "warning"),
    ],
)
def test_boundary(k3: str, severity: str | None) -> None:
    found = run_check("RAT004", rollout_mismatch_kl=k3)
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("column", "values", "severity"),
    [
        ("rollout_logp_diff", "0.017x20", None),  # what bf16 engines give with nothing broken
        ("rollout_logp_diff", "0.05x20", None),
        ("rollout_logp_diff", "0.01 0.0506x20", "warning"),
        ("rollout_logp_diff", "0.01 0.1128x20", "warning"),
        ("rollout_logp_diff", "0.113x20", "error"),
        ("rollout_logp_diff", "0.4x20", "error"),
        ("rollout_logp_diff", "0.17x20 0.25x8", "critical"),  # k3 doubled within 20 rows
        ("rollout_mult_prob_error", "1.0x20", None),
        ("rollout_mult_prob_error", "1.05x20", None),  # the limit of the NeMo-RL guide
        ("rollout_mult_prob_error", "1.0 1.06x20", "warning"),
        ("rollout_mult_prob_error", "1.02x5 38565x20", "error"),
        ("rollout_mult_prob_error", "1.02x5 38565x21", "critical"),
        ("rollout_prob_diff", "0.005x20", None),
        ("rollout_prob_diff", "0.01x20", None),  # the limit of the verl FAQ
        ("rollout_prob_diff", "0.011x20", "warning"),
        ("rollout_prob_diff", "0.12x20", "error"),
    ],
)
def test_units_that_trainers_log(column: str, values: str, severity: str | None) -> None:
    columns: dict[str, Any] = {column: values}
    found = run_check("RAT004", **columns)
    assert (found.severity if found else None) == severity


RISING = [0.1 + 0.02 * row for row in range(30)]


def test_a_run_that_gains_under_an_inferred_k3_keeps_a_warning() -> None:
    assert find("RAT004", rollout_logp_diff=[0.12] * 30, reward_mean=RISING).severity == "warning"
    assert find("RAT004", rollout_logp_diff=[0.12] * 30, reward_mean=[0.5] * 30).severity == "error"
    assert find("RAT004", rollout_logp_diff=[0.4] * 30, reward_mean=RISING).severity == "error"
    assert find("RAT004", rollout_mismatch_kl=[0.1] * 30, reward_mean=RISING).severity == "warning"
    assert find("RAT004", rollout_mismatch_kl=[0.1] * 30, reward_mean=[0.5] * 30).severity == "error"
    assert find("RAT004", rollout_mismatch_kl=[0.101] * 30, reward_mean=RISING).severity == "critical"
    assert find("RAT004", rollout_mismatch_kl=[0.01] * 30, reward_mean=RISING).severity == "info"
    assert find("RAT004", rollout_mismatch_kl=[0.0] + [0.01] * 29, reward_mean=[0.5] * 30).severity == "warning"


@pytest.mark.parametrize(("threshold", "reward"), [("bad", [0.5] * 30), ("broken", RISING)])
def test_an_inferred_k3_exactly_at_a_threshold(threshold: str, reward: list[float]) -> None:
    columns: dict[str, Any] = {"rollout_logp_diff": [0.01] + [0.12] * 29, "reward_mean": reward}
    k3 = find("RAT004", **columns).evidence["k3"]
    found = [run_check("RAT004", thresholds={threshold: limit}, **columns) for limit in (k3, 0.99 * k3)]
    assert [finding and finding.severity for finding in found] == ["warning", "error"]


@pytest.mark.parametrize(("probability", "severity"), [(0.01, "info"), (0.011, "warning")])
def test_a_run_that_gains_is_warned_of_probabilities_that_are_too_far_apart(probability: float, severity: str) -> None:
    columns: dict[str, Any] = {"rollout_mismatch_kl": [0.005] * 30, "rollout_prob_diff": [probability] * 30}
    assert find("RAT004", **columns, reward_mean=RISING).severity == severity


def test_message_states_how_k3_was_computed() -> None:
    found = find("RAT004", rollout_logp_diff="0.01x5 0.2x5")
    assert found.message == (
        "The log-probabilities of rollout engine and trainer differ by 0.0314 nats/token (KL estimated from the mean "
        "difference). The raw logits of the rollout engine are not recorded."
    )


def test_the_remedy_for_trl_weighs_tokens_and_not_whole_responses() -> None:
    steps = find("RAT004", rollout_mismatch_kl="1.05x2").remedies[0].steps
    (trl,) = (step.do for step in steps if step.who == "trl")
    assert 'vllm_importance_sampling_mode="token_truncate"' in trl  # sequence_mask is biased: huggingface/trl#5814
    assert "sequence" not in trl


@pytest.mark.parametrize(
    ("columns", "side"),
    [
        ({"rollout_mismatch_kl": "0x3 1.01x2"}, "The difference jumped, which one update does not cause"),
        ({"rollout_mismatch_kl": "0x3 1x2"}, "The raw logits of the rollout engine are not recorded"),
        ({"rollout_mismatch_kl": "0x3 0.5x2", "learning_rate": "0x5"}, "The learning rate is 0: check the engine's"),
        ({"rollout_mismatch_kl": "0x3 0.5x2", "learning_rate": "1e-6 0x4"}, "The raw logits of the rollout engine"),
        (
            {"rollout_mismatch_kl": "0.005x5"},
            "The difference has existed since the first row, as in bf16 engines with a mixture of",
        ),
    ],
)
def test_the_message_names_what_rules_out_stale_weights(columns: dict[str, Any], side: str) -> None:
    assert f". {side}" in find("RAT004", **columns).message
