"""Rows that are means over an epoch need no hold, because one of them covers many steps."""

import pytest

from grpo_doctor import Fires, check, fires
from grpo_doctor.series import Column
from grpo_doctor.testing import run_check

PAGE = """Loss is high.

## What it sees
## Why it matters
## Known false alarms
## Remedy
## Sources
"""


@pytest.mark.parametrize(("settings", "fired"), [({}, None), ({"rows": "epochs"}, (2, 2, True))])
def test_hold_and_clear_of_rows_that_are_epochs(settings: dict[str, str], fired: tuple[int, int, bool] | None) -> None:
    def loss_high(loss: Column) -> Fires:
        return fires(loss > 1, "Loss is {loss}.", loss=loss)

    loss_high.__doc__ = PAGE
    check("TST001")(loss_high)
    found = run_check(loss_high, settings, loss="1 2 1")
    assert (None if found is None else (found.onset_step, found.detected_step, found.cleared)) == fired
