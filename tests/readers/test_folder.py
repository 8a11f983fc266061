"""A folder: every file is accounted for, each run counts once, and an unreadable file affects no other."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers import archive, survey
from grpo_doctor.readers.log_names import has_name_of_log

from .make import tfevents


def log(reward: float, *, rows: int = 30, start: int = 1) -> str:
    return "\n".join(
        json.dumps({"step": i, "reward": reward + 0.01 * (i % 7), "loss": 0.1, "grad_norm": 1 + reward})
        for i in range(start, start + rows)
    )


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def fates(folder: Path) -> dict[str, str]:
    return {Path(a.source).relative_to(folder).as_posix(): a.fate for a in survey(folder).answers}


def test_every_file_is_read_or_reported(tmp_path: Path) -> None:
    put(tmp_path, "run/metrics.jsonl", log(0.3))
    put(tmp_path, "run/copy/metrics.csv", "step,reward,loss,grad_norm\n" + "\n".join(
        f"{i},{0.3 + 0.01 * (i % 7)},0.1,1.3" for i in range(1, 31)))  # fmt: skip
    put(tmp_path, "run/eval.json", json.dumps({"accuracy": 0.5, "reward": 0.4}))
    put(tmp_path, "run/args.json", json.dumps({"learning_rate": 1e-5, "reward": 0.1}))
    put(tmp_path, "run/torn.log", b"\x00\x01\x02\x03" * 400)
    put(tmp_path, "run/model.safetensors", b"\x00")
    assert fates(tmp_path) == {
        "run/metrics.jsonl": "read",
        "run/copy/metrics.csv": "second view",
        "run/eval.json": "no log",
        "run/args.json": "no log",
        "run/torn.log": "unreadable",
        "run/model.safetensors": "no log",
    }
    assert survey(tmp_path).words() == "6 files: 1 log, 1 duplicate, 3 ignored, 1 unreadable"


def test_files_next_to_records_are_part_of_their_run(tmp_path: Path) -> None:
    put(tmp_path, "run/records.jsonl", '{"schema":1,"step":1,"reward_mean":0.5}\n')
    put(tmp_path, "run/config.json", "{}")
    put(tmp_path, "model/config.json", "{}")
    assert fates(tmp_path) == {
        "model/config.json": "no log", "run/config.json": "part of a run", "run/records.jsonl": "read",
    }  # fmt: skip


def test_gate_fails_on_an_unreadable_log(tmp_path: Path) -> None:
    put(tmp_path, "good/metrics.jsonl", log(0.3))
    bad = put(tmp_path, "bad/train.log", b"\x00\x01\x02\x03" * 400)
    ended = CliRunner().invoke(app, ["gate", str(tmp_path)])
    assert ended.exit_code == 2
    assert f"{bad}: unreadable: binary data" in ended.output
    assert CliRunner().invoke(app, ["gate", str(bad)]).exit_code == 2


def test_no_file_is_dropped_for_its_number(tmp_path: Path) -> None:
    for i in range(300):
        put(tmp_path, f"{i}/metrics.jsonl", log(0.1 * 1.01**i, rows=4))
    found = survey(tmp_path)
    assert len(found.runs) == 300
    assert [Path(run.source).parent.name for run in found.runs[:12]] == [str(i) for i in range(12)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_devices_are_named_and_not_opened(tmp_path: Path) -> None:
    put(tmp_path, "metrics.jsonl", log(0.3))
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "again.jsonl").symlink_to(tmp_path / "metrics.jsonl")
    why = {Path(a.source).name: a.why for a in survey(tmp_path).answers if a.fate != "read"}
    assert why == {
        "pipe.log": "not a regular file",
        "zero.log": "not a regular file",
        "gone.log": "a broken link (No such file or directory)",
        "metrics.jsonl": "the same file as another of this folder",
    }


def test_event_files_of_several_runs_in_one_folder_stay_apart(tmp_path: Path) -> None:
    for i in range(3):
        rows = [(step, {"train/reward": 0.1 * i + 0.01 * step, "train/loss": 0.5 + i}) for step in range(1, 20)]
        put(tmp_path, f"events.out.tfevents.170000000{i}.host.1.0", tfevents(rows))
    assert [len(run) for run in survey(tmp_path).runs] == [19, 19, 19]


def test_a_copy_that_ends_in_nan_is_not_a_second_view(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": 0.01 * i, "loss": 0.1 * (i % 7), "grad_norm": 0.3} for i in range(1, 61)]
    put(tmp_path, "a/train.jsonl", "\n".join(map(json.dumps, rows)))
    put(
        tmp_path,
        "b/train.jsonl",
        "\n".join(
            json.dumps(r | ({"loss": float("nan"), "grad_norm": float("nan")} if r["step"] > 30 else {})) for r in rows
        ),
    )
    put(tmp_path, "c/some.jsonl", "\n".join(json.dumps(row) for row in rows if row["step"] < 31))
    assert [Path(run.source).parent.name for run in survey(tmp_path).runs] == ["a", "b"]
    assert CliRunner().invoke(app, ["gate", str(tmp_path)]).exit_code == 1


def test_event_files_of_one_run_are_joined(tmp_path: Path) -> None:
    for i, steps in enumerate((range(1, 20), range(18, 40))):
        rows = [(step, {"train/reward": 0.01 * step + 0.001 * i, "train/loss": 0.5}) for step in steps]
        put(tmp_path, f"events.out.tfevents.170000000{i}.host.1.0", tfevents(rows))
    (run,) = survey(tmp_path).runs
    assert (run.steps[0], run.steps[-1], len(run)) == (1, 39, 41)


def test_rollouts_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for step in (1, 2, 10, 11):
        rows = [{"input": "q", "output": f"a{i}", "score": 0.1 * step, "step": step} for i in range(4)]
        put(tmp_path, f"{step}.jsonl", "\n".join(map(json.dumps, rows)))
    (run,) = survey(tmp_path).runs
    assert run.steps.tolist() == [1, 2, 10, 11]


def test_unknown_keys_and_settings_are_refused_with_the_nearest(tmp_path: Path) -> None:
    path = put(tmp_path, "metrics.jsonl", log(0.3).replace('"reward"', '"my_rwd_total"'))
    ended = CliRunner().invoke(app, ["analyze", str(path), "--map", "my_rwd_totl=reward_mean"])
    assert (ended.exit_code, "did you mean 'my_rwd_total'?" in ended.output) == (2, True)
    ended = CliRunner().invoke(app, ["analyze", str(path), "--set", "temprature=1"])
    assert (ended.exit_code, "did you mean temperature?" in ended.output) == (2, True)
    ended = CliRunner().invoke(app, ["analyze", str(path), "--map", "my_rwd_total=reward_men"])
    assert (ended.exit_code, "did you mean 'reward_mean'?" in ended.output) == (2, True)


def test_an_archive_beyond_its_limits_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "metrics.jsonl", log(0.3))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("b.jsonl", "0" * 5_000_000)
    monkeypatch.setattr(archive, "LARGEST", 1 << 20)
    (answer,) = survey(tmp_path).unreadable
    assert "an archive of more than 1 MB of logs" in answer.why
    monkeypatch.setattr(archive, "MEMBERS", 0)
    (answer,) = survey(tmp_path).unreadable
    assert "an archive of 1 files, more than 0" in answer.why


def test_a_member_of_an_archive_stays_in_its_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as out:
        out.writestr("../../escaped.jsonl", log(0.3))
        out.writestr("/rooted.jsonl", log(0.4))
    found = survey(tmp_path / "b.zip")
    assert [Path(run.source).name for run in found.runs] == ["escaped.jsonl", "rooted.jsonl"]
    assert not list(tmp_path.parent.rglob("escaped.jsonl"))
    assert not Path("/rooted.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("metrics.jsonl", True), ("train.log.12.gz", True), ("slurm-12.out", True), ("nohup", True), ("log~", True),
        ("events.out.tfevents.17.host.1.0", True), ("config.json.bak", False), ("train.py", False),
        ("model-00001-of-00002.safetensors", False), ("._metrics.jsonl", False), ("-1" * 120 + "x.py", False),
    ],
)  # fmt: skip
def test_a_name_is_read_unless_it_rules_a_log_out(name: str, read: bool) -> None:
    assert has_name_of_log(name) == read
