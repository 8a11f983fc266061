from typing import Any

import pytest

from grpo_doctor.testing import find, run_check

SCORED = "The score of the sampled ids differs from the recorded score, so different text was scored."
BEFORE = "Rollout engine and trainer disagree before the first update: their tokens, positions or masks differ."


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"reward_recomputed_gap": "0.02x5"}, None),
        ({"reward_recomputed_gap": "0.021x5"}, SCORED),
        ({"reward_recomputed_gap": "0.5x2 0x6"}, None),
        ({"reward_recomputed_gap": "0.5x5", "chat_header_rate": "0.8x5"}, None),
        ({"reward_recomputed_gap": "0.5x5", "chat_header_rate": "0.05x5"}, SCORED),
        ({"rollout_mismatch_raw_kl": "0.01x5"}, None),
        ({"rollout_mismatch_raw_kl": "0.011x5"}, BEFORE),
        ({"rollout_mismatch_raw_kl": "0 0.4x6"}, None),
        ({"rollout_mismatch_raw_kl": "0.01 0.4x6"}, None),
        ({"rollout_mismatch_raw_kl": "0.4 0.01x6"}, None),
        ({"rollout_mismatch_raw_kl": "1e-9x6", "reward_recomputed_gap": "0x6"}, None),
    ],
)
def test_both_ways(columns: dict[str, Any], message: str | None) -> None:
    found = run_check("GEN005", **columns)
    assert (found.message if found else None) == message


def test_a_broken_mode_of_generation_is_left_to_its_own_check() -> None:
    on: dict[str, Any] = {"generation_training_mode": "1x5", "generation_checkpointing": "1x5"}
    assert run_check("GEN005", rollout_mismatch_raw_kl="2x5", **on) is None
    assert find("GEN005", rollout_mismatch_raw_kl="2x5").onset_step == 1
