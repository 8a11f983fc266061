"""Nothing that fails inside grpo-doctor ends or changes the training that it watches."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="the extra trl is not installed")

from grpo_doctor import LiveDoctor, attach
from grpo_doctor.config import ConfigError
from grpo_doctor.integrations.trl_hooks import Seams
from grpo_doctor.record import read_records
from tests.integrations.test_trl import history
from tests.integrations.tiny_trl import fails_at, make_trainer, reward

pytestmark = pytest.mark.slow
STEPS = 4


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the log of the same training without grpo-doctor."""
    trainer = make_trainer(tmp_path_factory.mktemp("alone"), max_steps=STEPS)
    trainer.train()
    return history(trainer)


def no_space(run: Path, patch: pytest.MonkeyPatch) -> None:
    (run / "samples.jsonl").symlink_to("/dev/full")  # what a step writes first


def broken_check(run: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveDoctor, "push", fails_at(2, LiveDoctor.push))


def broken_look(run: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seams, "before_update", fails_at(2, Seams.before_update))


def broken_report(run: Path, patch: pytest.MonkeyPatch) -> None:
    (run / "report.html").mkdir()


@pytest.mark.parametrize(
    ("harm", "step", "why"),
    [
        pytest.param(no_space, 1, "No space left on device", id="full disk"),
        pytest.param(broken_check, 2, "a fault of the doctor", id="a check that raises"),
        pytest.param(broken_look, 2, "a fault of the doctor", id="a measurement that raises"),
        pytest.param(broken_report, 4, "Is a directory", id="a report that cannot be written"),
    ],
)
def test_a_failure_is_reported_once_and_the_training_continues_unchanged(
    tmp_path: Path,
    alone: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    harm: Callable[[Path, pytest.MonkeyPatch], None],
    step: int,
    why: str,
) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=STEPS)
    attached = attach(trainer, out=tmp_path / "run", on="critical=stop")
    harm(tmp_path / "run", monkeypatch)
    trainer.train()
    said = capsys.readouterr().err
    assert history(trainer) == alone
    assert said.count("UNWATCHED") == 1
    assert f"grpo-doctor failed at step {step}; the training goes on UNWATCHED" in said
    assert why in said
    assert any(f"grpo-doctor failed at step {step} and checked no later step" in n for n in attached.diagnosis().notes)


def test_failed_wiring_is_reported_and_the_training_continues(
    tmp_path: Path, alone: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=STEPS)
    monkeypatch.setattr(Seams, "backbone", fails_at(1, Seams.backbone))
    attach(trainer, out=tmp_path / "run")
    trainer.train()
    assert history(trainer) == alone
    assert capsys.readouterr().err.count("UNWATCHED") == 1


def test_a_closed_stream_ends_neither_the_training_nor_the_watch(
    tmp_path: Path, alone: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    trainer = make_trainer(tmp_path / "out", max_steps=STEPS)
    attached = attach(trainer, out=tmp_path / "run")
    monkeypatch.setattr(sys, "stderr", closed)
    trainer.train()
    monkeypatch.undo()
    assert history(trainer) == alone
    assert attached.watching
    assert len(list(read_records(tmp_path / "run" / "records.jsonl"))) == STEPS


def test_a_reward_function_that_yields_is_seen_and_still_yields(tmp_path: Path, alone: list[dict[str, Any]]) -> None:
    def yielding(prompts: list[Any], completions: list[Any], answer: list[str], **named: Any) -> Iterator[float]:
        yield from reward(prompts, completions, answer, **named)

    yielding.__name__ = "reward"
    trainer = make_trainer(tmp_path / "out", max_steps=STEPS, rewards=yielding)
    attached = attach(trainer, out=tmp_path / "run")
    trainer.train()
    assert history(trainer) == alone
    assert attached.watching
    assert all(r.groups == 2 for r in read_records(tmp_path / "run" / "records.jsonl"))


def test_a_second_attach_writes_to_a_new_folder_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = make_trainer(tmp_path / "a", max_steps=1), make_trainer(tmp_path / "b", max_steps=1)
    (tmp_path / "run").mkdir()
    attach(first, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="already attached"):
        attach(first, out=tmp_path / "other")
    attach(second, out=tmp_path / "run")
    assert f"already contains a run; writing to {tmp_path / 'run-2'}" in capsys.readouterr().err
    first.train()
    second.train()
    assert [len(list(read_records(tmp_path / name / "records.jsonl"))) for name in ("run", "run-2")] == [1, 1]


def test_training_twice_is_two_runs(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=2)
    attach(trainer, out=tmp_path / "run")
    trainer.train()
    trainer.train()
    for name in ("run", "run-2"):
        assert [r.step for r in read_records(tmp_path / name / "records.jsonl")] == [1, 2]
        assert (tmp_path / name / "report.md").exists()
