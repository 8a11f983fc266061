"""Each check of the family: one step before its boundary, at it with its message, and silent on a batch that agrees."""

from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

CASES = [
    ("MIS001", {"stale": [0.15, 0.5]}, {"stale": [0.5, 0.4]}, "warning",
     "The rollout engine samples with stale weights. The older weights explain 50% of the log-probability "
     "difference."),
    ("MIS001", {"initial-weights": [0.15, 1.0]}, {"initial-weights": [0.16, 1.0]}, "error",
     "The rollout engine still has the initial weights. The older weights explain 16% of the log-probability "
     "difference."),
    ("MIS002", {"other-weights": [0.15, 0.2]}, {"other-weights": [0.9, 0.2]}, "warning",
     "The rollout engine uses different weights (another checkpoint, adapter or choice of experts, or undeclared "
        "quantisation). The different weights explain 90% of the log-probability difference (0.2 nats).",
    ),
    ("MIS003", {"quantised": [0.15, 0.1]}, {"quantised": [1.0, 0.1]}, "info",
     "The quantised rollout engine explains 100% of the log-probability difference (0.1 nats/token)."),
    ("MIS004", {"precision": [0.15, 0.02]}, {"precision": [1.0, 0.02]}, "info",
     "Rounding explains 100% of the log-probability difference (0.02 nats/token)."),
    ("MIS005", {"routing": [0.15, 0.02]}, {"routing": [0.8, 0.02]}, "warning",
     "Different experts for 2.0% of the tokens explain 80% of the log-probability difference."),
    ("MIS006", {"temperature": [0.15, 1.25]}, {"temperature": [0.99, 1.25]}, "error",
     "The temperature of the sampler is 1.25 times that of the loss. The temperatures explain 99% of the "
     "log-probability difference."),
    ("MIS007", {"filter": [0.15, 0.05]}, {"filter": [1.0, 0.05]}, "warning",
     "The sampler excludes 5.0% of the probability mass on average (top-p, top-k or min-p), but the loss does not. "
     "The filter explains 100% of the log-probability difference."),
    ("MIS007", {"filter": [0.15, 0.2]}, {"filter": [1.0, 0.051]}, "error",
     "The sampler excludes 5.1% of the probability mass on average (top-p, top-k or min-p), but the loss does not. "
     "The filter explains 100% of the log-probability difference."),
    ("MIS008", {"prompt": [0.15, 40.0]}, {"prompt": [0.9, 40.0]}, "error",
     "Rollout engine and trainer see different prompts. The squared log-probability difference is 40 times as large at "
     "the start of the responses as at their end."),
    ("MIS009", {"retokenised": [0.15, 0.5]}, {"retokenised": [0.8, 0.5]}, "error",
     "50% of the responses were tokenised again: their log-probabilities agree only after shifts within a response."),
    ("MIS010", {"shift": [0.15, 1.0]}, {"shift": [0.9, 1.0]}, "critical",
     "The log-probabilities of rollout engine and trainer agree only if they are shifted by 1 token."),
    ("MIS010", {"shift": [0.15, 2.0]}, {"shift": [0.9, 2.0]}, "critical",
     "The log-probabilities of rollout engine and trainer agree only if they are shifted by 2 tokens."),
    ("MIS011", {"reference": [0.5, 0.1]}, {"reference": [1.0, 0.1]}, "error",
     "Before any update, the reference model differs from the policy by 0.1 nats/token."),
    ("MIS011", {"reference": [0.5, 0.0]}, {"reference": [1.0, 0.0]}, "error",
     "After updates, the reference model gives exactly the policy's log-probabilities."),
]  # fmt: skip


@pytest.mark.parametrize(("code", "before", "at", "severity", "message"), CASES)
def test_reports_a_cause_above_its_share(
    code: str, before: dict[str, Any], at: dict[str, Any], severity: str, message: str
) -> None:
    assert run_check(code, mismatch_causes=[before], rollout_mismatch_kl="0.01") is None
    found = find(code, mismatch_causes=[None, at, None], rollout_mismatch_kl="? 0.01 ?")
    assert (found.severity, found.onset_step, found.message) == (severity, 2, message)


@pytest.mark.parametrize("code", sorted({case[0] for case in CASES} | {"MIS012"}))
def test_is_silent_where_the_two_sides_agree(code: str) -> None:
    assert run_check(code, mismatch_causes=[{}] * 5, rollout_mismatch_kl="1e-9x5") is None


@pytest.mark.parametrize(
    ("code", "causes", "severity"),
    [
        ("MIS001", {"stale": [0.9, 0.5]}, "error"),
        ("MIS002", {"other-weights": [0.9, 0.5]}, "error"),
        ("MIS003", {"quantised": [0.9, 0.5]}, "warning"),
        ("MIS005", {"routing": [0.9, 0.5]}, "error"),
    ],
)
def test_a_large_mismatch_is_more_severe(code: str, causes: dict[str, Any], severity: str) -> None:
    assert find(code, mismatch_causes=[causes], rollout_mismatch_kl="0.011").severity == severity


def test_growth_since_a_first_batch_that_agreed_shows_stale_weights() -> None:
    found = find("MIS001", mismatch_causes=[{}, {}, {}], rollout_mismatch_kl="1e-8 1e-3 2e-2")
    assert (found.onset_step, found.severity) == (2, "error")
    assert (
        run_check("MIS001", mismatch_causes=[{}, {"temperature": [0.6, 1.1]}], rollout_mismatch_kl="1e-8 1e-2") is None
    )
    assert run_check("MIS001", mismatch_causes=[{}, {}], rollout_mismatch_kl="1e-4 1e-2") is None


def test_says_that_the_cause_is_unknown() -> None:
    found = find("MIS012", mismatch_causes=[{"routing": [0.2, 0.1]}], rollout_mismatch_kl="0.01")
    assert found.message == (
        "The token batch does not explain 80% of the log-probability difference. Weight versions or reference "
        "log-probabilities would separate stale weights from other causes."
    )
    assert run_check("MIS012", mismatch_causes=[{"routing": [0.5, 0.1]}], rollout_mismatch_kl="0.01") is None
    assert run_check("MIS012", mismatch_causes=[{}], rollout_mismatch_kl="0.002") is None


def test_a_cause_that_is_not_a_pair_of_numbers_is_left_out() -> None:
    assert run_check("MIS006", mismatch_causes=[{"temperature": [0.9]}], rollout_mismatch_kl="0.01") is None
