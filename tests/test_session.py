"""Actions on a finding, the content of a run folder, and the rows removed on resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_doctor import Finding, LiveDoctor, StepRecord, diagnose
from grpo_doctor.config import ConfigError
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.integrations.session import Folder, Session, actions_of
from grpo_doctor.readers import read
from grpo_doctor.record import read_records
from grpo_doctor.report.charts import panels
from grpo_doctor.run import Sample


class Trainer:
    """Records the requests that it received."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("weights")

    def load(self, path: Path) -> None:
        self.loaded.append(path.name)


def session_of(path: Path, on: str, **changes: Any) -> Session:
    folder = Folder(path)
    folder.begin({"group_size": 8})
    return Session(folder, LiveDoctor({"group_size": 8}), Trainer(), actions_of(on), **changes)


def steps(loss: list[float]) -> list[StepRecord]:
    return [StepRecord(step=i, loss=value, reward_mean=0.5) for i, value in enumerate(loss, 1)]


NAN = [0.1] * 5 + [float("nan")] + [0.1] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("error", "expected SEVERITY=ACTION"),
        ("terrible=stop", "expected SEVERITY=ACTION"),
        ("error=explode", "warn, skip-update, stop, rollback"),
    ],
)
def test_actions_that_cannot_be_read(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        actions_of(words)


def finding(severity: str, role: Any) -> Finding:
    return Finding(
        code="XXX001", name="x", kind="risk", severity=severity, confidence="low", role=role,
        onset_step=1, detected_step=1, last_step=1, message="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("severity", "role", "action"),
    [
        ("info", "note", "warn"),
        ("warning", "symptom", "skip-update"),
        ("error", "cause", "stop"),
        ("critical", "outcome", "stop"),
        ("critical", "note", "stop"),
    ],
)
def test_the_action_of_a_finding(tmp_path: Path, severity: str, role: str, action: str) -> None:
    session = session_of(tmp_path / "run", "warning=skip-update,error=stop")
    assert session.action(finding(severity, role)) == action


def test_a_stop_comes_after_the_record_is_written(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=stop")
    for record in steps(NAN):
        session.push(record, [Sample(step=record.step, response="x")])
        if session.stopped:
            break
    assert session.stopped is not None
    assert session.stopped.why == "GRD001 nan-or-inf at step 6"
    assert [r.step for r in read_records(tmp_path / "run" / "records.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_a_rollback_goes_to_the_last_checkpoint_before_the_onset(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=rollback", save_steps=2)
    for record in steps(NAN[:6]):
        session.push(record, [])
    assert isinstance(session.trainer, Trainer)
    assert session.trainer.loaded == ["step-000004.pt"]
    assert session.stopped is not None
    assert session.stopped.why.endswith("rolled back to the checkpoint of step 4")


def test_looking_ahead_skips_the_update_without_changing_the_checks(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=skip-update")
    for record in steps(NAN[:5]):
        assert session.veto(record) is None
        session.push(record, [])
    before = [f.code for f in session.doctor.findings()]
    broken = steps(NAN)[5]
    assert session.veto(broken) == "GRD001 nan-or-inf"
    assert [f.code for f in session.doctor.findings()] == before
    assert [f.code for f in session.push(broken, [])] == ["GRD001"]


def test_resume_cuts_off_what_comes_after_the_checkpoint_and_what_is_torn(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=warn", save_steps=3)
    for record in steps([0.1] * 5):
        session.push(record, [Sample(step=record.step, response="a"), Sample(step=record.step, response="b")])
    with open(tmp_path / "run" / "records.jsonl", "ab") as file:
        file.write(b'{"schema":1,"step":6,"lo')
    checkpoint, kept, again = session.folder.resume()
    assert again == 2
    assert checkpoint is not None and checkpoint.name == "step-000003.pt"  # noqa: PT018
    assert [(r.step, len(samples)) for r, samples in kept] == [(1, 2), (2, 2), (3, 2)]
    assert (tmp_path / "run" / "samples.jsonl").read_text().count("\n") == 6


def test_old_checkpoints_go_but_the_first_stays(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=warn", save_steps=1, save_total_limit=2)
    for record in steps([0.1] * 5):
        session.push(record, [])
    assert sorted(p.name for p in session.folder.checkpoints.iterdir()) == [
        "step-000001.pt", "step-000004.pt", "step-000005.pt",
    ]  # fmt: skip


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=warn")
    session.push(steps([0.1])[0], [])
    with pytest.raises(ConfigError, match="already contains a run; add --resume"):
        session.folder.begin({})


def test_severities_are_ordered() -> None:
    assert actions_of("error=stop, warning=warn") == {Severity.ERROR: "stop", Severity.WARNING: "warn"}


def test_a_session_reports_what_analyze_finds_in_its_folder(tmp_path: Path) -> None:
    """Two records of one step, a sample and a collapse: findings, columns, tables and figures are the same."""
    session = session_of(tmp_path / "run", "error=warn")
    for record in steps(NAN):
        session.push(record, [Sample(step=record.step, response="a b", reward=0.5)])
        session.push(StepRecord(step=record.step, eval_score=0.1, grad_norm=2.0), [])
    ours, (run,) = session.diagnosis(), read(tmp_path / "run")
    theirs = diagnose(run)
    assert (ours.steps, [f.code for f in ours.findings][:1]) == (len(NAN), ["GRD001"])
    assert (ours.findings, ours.tables, ours.settings) == (theirs.findings, theirs.tables, theirs.settings)
    assert [(p.field, p.alt) for p in panels(ours)] == [(p.field, p.alt) for p in panels(theirs)]
    assert [f.code for f in session.doctor.findings()] == [f.code for f in ours.findings]


def test_a_resume_reports_what_it_does(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=warn", save_steps=2)
    assert session.folder.resume().words() == "no checkpoint: starting at step 1"
    session.push(steps([0.1])[0], [])
    assert session.folder.resume().words() == "no checkpoint: starting at step 1; 1 recorded step will be trained again"
    for record in steps([0.1] * 3):
        session.push(record, [])
    assert session.folder.resume().words() == "resuming after step-000002.pt; 1 later step will be trained again"
    assert session.folder.resume().words() == "resuming after step-000002.pt"


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    session = session_of(tmp_path / "run", "error=warn")
    for start in ("begin", "resume"):
        with pytest.raises(ConfigError, match="another run is writing here"):
            getattr(Folder(tmp_path / "run"), start)(*([{}] if start == "begin" else []))
    session.folder.release()
    assert Folder(tmp_path / "run").resume().steps == []
