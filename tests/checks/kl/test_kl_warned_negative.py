"""KL009: TRL's PPO warns that its KL estimate is negative."""

from pathlib import Path

import pytest

from grpo_doctor.diagnosis.examine import diagnose
from grpo_doctor.readers import read
from grpo_doctor.readers.known_warnings import sign
from grpo_doctor.record import Event
from grpo_doctor.testing import find, run_check

SAID = (
    "ppo_trainer.py:1100: UserWarning: KL divergence is starting to become negative: {} - this might be a precursor\n"
)


def test_one_warning_is_enough_and_clears() -> None:
    event = [Event(kind="log-warning", message=sign(SAID.format(-1.66)) or "")]
    found = find("KL009", reward_mean="0.1x9", events=[None, event, *[None] * 7])
    assert (found.severity, found.onset_step, found.cleared) == ("warning", 2, True)
    assert found.message == (
        "The trainer warned of a negative KL estimate on 1 row. The true KL is never negative, "
        "so the scored text is not the sampled text."
    )
    other = [Event(kind="log-warning", message="Caching is incompatible with gradient checkpointing")]
    assert run_check("KL009", reward_mean="0.1x3", events=[None, other, None]) is None


@pytest.mark.parametrize(
    "before", ["", "The average ratio of batch (12.26) exceeds threshold 10.00. Skipping batch.\n"]
)
def test_the_warning_alone_gives_a_run_with_its_value(tmp_path: Path, before: str) -> None:
    (path := tmp_path / "a.log").write_text(before + SAID.format(-2.44) + "  warnings.warn(\n")
    (run,) = read(path)
    assert run.columns["kl_sequence"][-1] == -2.44
    assert ("ratio_mean" in run.columns) == bool(before)
    diagnosis = diagnose(run)
    assert (diagnosis.verdict, diagnosis.cause) == ("suspect", "KL009")


def test_next_to_metrics_it_is_not_a_row(tmp_path: Path) -> None:
    row = "{'loss': 0.1, 'reward': 0.5, 'kl': 0.1, 'epoch': 0.1}\n"
    (path := tmp_path / "a.log").write_text(row + SAID.format(-2.44) + row.replace("0.1}", "0.2}"))
    (run,) = read(path)
    assert len(run) == 2
    assert "kl_sequence" not in run.columns
