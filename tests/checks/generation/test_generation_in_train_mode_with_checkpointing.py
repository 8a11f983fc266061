from typing import Any

import pytest

from grpo_doctor.record import Event
from grpo_doctor.series import COLLAPSED
from grpo_doctor.testing import find, run_check

LINE = "Caching is incompatible with gradient checkpointing in Qwen2DecoderLayer. Setting `past_key_values=None`."


def warned(*, row: int, rows: int, line: int | None = 1877) -> list[Any]:
    events: list[Any] = [None] * rows
    events[row] = [Event(kind="log-warning", message=LINE, line=line)]
    return events


@pytest.mark.parametrize(("collapsed", "fires"), [(4, True), (6, True), (7, False)])
def test_the_warning_and_a_collapse_within_two_steps(collapsed: int, fires: bool) -> None:
    rates = [0.0] * 10
    rates[collapsed] = 1.0
    found = run_check("GEN001", fallback_rate=rates, events=warned(row=4, rows=10))
    assert (found is not None) == fires
    if found is not None:
        assert (found.severity, found.confidence, found.onset_step) == ("critical", "high", collapsed + 1)
        assert found.evidence["line"] == 1877
        assert found.message == (
            "Responses are generated in train mode with gradient checkpointing on. The KV cache is dropped, and "
            "everything after the first token is garbage."
        )


def test_the_warning_alone_is_printed_by_healthy_runs_too() -> None:
    assert run_check("GEN001", fallback_rate="0.05x10", events=warned(row=1, rows=10)) is None
    assert run_check("GEN001", reward_mean="0.9 0.2 0.4 0.1 0.5x6", events=warned(row=1, rows=10)) is None


def test_recorded_flags_prove_it_unless_generator_and_trainer_agree() -> None:
    on: dict[str, Any] = {"generation_training_mode": "0 0 1 1", "generation_checkpointing": "1 1 1 1"}
    assert find("GEN001", valid_rate="1x4", **on).onset_step == 3
    assert find("GEN001", reward_mean="0.5x4", **on).onset_step == 3, "TRL records no share of valid responses"
    assert find("GEN001", valid_rate="1x4", rollout_mismatch_raw_kl="0 0 1.1 0.9", **on).onset_step == 3
    assert run_check("GEN001", valid_rate="1x4", rollout_mismatch_raw_kl="1e-9x4", **on) is None
    assert run_check("GEN001", valid_rate="1x4", generation_training_mode="1x4", generation_checkpointing="0x4") is None


def test_exactly_collapsed_counts_and_exactly_the_limit_agrees() -> None:
    rates = [0.0] * 4 + [COLLAPSED] + [0.0] * 5
    assert run_check("GEN001", fallback_rate=rates, events=warned(row=4, rows=10)) is not None
    on: dict[str, Any] = {"generation_training_mode": "1x4", "generation_checkpointing": "1x4"}
    assert (
        run_check("GEN001", thresholds={"agrees": 0.25}, valid_rate="1x4", rollout_mismatch_raw_kl="0.25x4", **on)
        is None
    )


def test_a_warning_without_a_line_counts_and_the_first_known_line_is_reported() -> None:
    events = warned(row=4, rows=10, line=None)
    events[5] = warned(row=5, rows=10)[5]
    found = find("GEN001", fallback_rate="0x4 1 0x5", events=events)
    assert (found.onset_step, found.evidence["line"]) == (5, 1877)
