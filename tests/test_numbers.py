"""Every number of a first sentence is in the log: recomputed here from the columns, without the code that judges."""

from __future__ import annotations

from msgspec.structs import replace

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.testing import make_run
from tests.properties import strange_numbers


def test_a_wrong_number_is_noticed() -> None:
    run = make_run(reward_mean=[0.2 + 0.3 * (i > 20) + 0.01 * (i % 3) for i in range(40)])
    found = diagnose(run)
    assert found.headline.startswith("The policy improved: the reward rose from 0.21 to 0.509.")
    assert strange_numbers(found) == []
    assert strange_numbers(replace(found, headline="The reward rose from 0.21 to 0.57.")) == ["0.57"]
