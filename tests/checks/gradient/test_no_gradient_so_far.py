from typing import Any

import pytest

from grpo_doctor.testing import find, run_check


def test_the_first_row_is_a_remark_and_the_second_a_warning() -> None:
    alone = find("GRD008", grad_norm="0")
    assert (alone.severity, alone.message) == ("info", "The gradient norm has been exactly 0 on the only row.")
    both = find("GRD008", grad_norm="0x2", reward_std="0x2")
    assert (both.severity, both.onset_step) == ("warning", 1)
    assert both.message == ("The gradient norm has been exactly 0 on both rows, because all groups have zero variance.")


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        ({"zero_variance_groups": "8x3", "groups": "8x3"}, "rows, because all groups have zero variance."),
        ({"zero_variance_groups": "2x3", "groups": "8x3"}, "rows, although rewards differ in 75% of the groups."),
        ({"reward_std": "1e-6x3"}, "rows, because all groups have zero variance."),
        ({"reward_std": "2e-6x3"}, "rows, although the rewards of a batch differ (spread 2e-06)."),
        ({"reward_std": "0.4x3"}, "rows, although the rewards of a batch differ (spread 0.4)."),
        ({"reward_min": "0x3", "reward_max": "1x3"}, "rows, although the rewards of a batch differ (spread 1)."),
        ({}, "on all 3 rows."),
    ],
)
def test_the_message_states_whether_there_was_a_signal(columns: dict[str, str], end: str) -> None:
    given: dict[str, Any] = {"grad_norm": "0x3", **columns}
    assert find("GRD008", **given).message.endswith(end)


def test_the_first_gradient_clears_it() -> None:
    assert find("GRD008", grad_norm="0x3 0.1").cleared
    assert run_check("GRD008", grad_norm="0.1 0x9") is None


def test_a_reward_that_rises_proves_that_the_norm_is_not_measured() -> None:
    found = find("GRD008", grad_norm="0x80", reward_mean="0.1x20 0.3x20 0.5x20 0.7x20")
    assert found.cleared
