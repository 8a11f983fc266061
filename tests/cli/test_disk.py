"""Full disks, logs that become folders, runs that were killed early: one line, exit code 2, nothing lost."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
import typer
from typer.testing import CliRunner

from grpo_doctor.cli import app, common
from grpo_doctor.cli.follow import Follower
from grpo_doctor.config import ConfigError
from grpo_doctor.engine.trainer import Trainer
from grpo_doctor.integrations.session import Folder
from tests.cli.runs import write_run
from tests.corpus_path import CORPUS

REPRODUCERS = CORPUS.parent / "reproducers"
ROOM = 4096
"""Bytes that a file may have where the disk is said to be full."""


@pytest.mark.parametrize("words", ["watch LOG --idle 0.1 --interval 0.05", "convert LOG copy.jsonl", "analyze -"])
def test_a_full_disk_is_one_line(words: str, tmp_path: Path) -> None:
    log = write_run(tmp_path / "run.jsonl", collapsed=False)
    assert log.stat().st_size > ROOM
    with log.open("rb") as content:
        done = subprocess.run(
            # -B: a compiled module that does not fit would be kept in half, and break every process after it
            [sys.executable, "-B", "-m", "grpo_doctor", *words.replace("LOG", str(log)).split()],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM)),
            stdin=content, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
            env={**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "File too large" in done.stderr


@pytest.mark.parametrize(
    ("words", "redirect", "code", "told"),
    [
        ("checks", ">/dev/full", 2, "No space left on device"),
        ("gate LOG", ">/dev/full", 2, "No space left on device"),
        ("new-check ENT999 a-b entropy --folder /proc/none", "", 2, "/proc/none"),
        ("analyze LOG", ">&-", 1, ""),
        ("analyze LOG", "2>&-", 1, ""),
    ],
)
def test_streams_that_take_nothing_and_folders_that_cannot_be_made(
    tmp_path: Path, words: str, redirect: str, code: int, told: str
) -> None:
    log = write_run(tmp_path / "run.jsonl", collapsed=True)
    command = f"{sys.executable} -m grpo_doctor {words.replace('LOG', str(log))} {redirect}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (code, bool(told)), done.stderr
    assert told in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize(
    ("error", "users"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/home/me/log"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (FileNotFoundError("s3://bucket/sweep"), True),
        (OSError(errno.EBADF, "Bad file descriptor"), False),
        (FileNotFoundError(errno.ENOENT, "No such file", str(Path(common.__file__).parent / "lost.j2")), False),
    ],
)
def test_an_error_that_no_user_can_fix_is_an_internal_error(error: OSError, users: bool) -> None:
    with pytest.raises(typer.Exit if users else type(error)) as raised, common.plain_errors():
        raise error
    assert getattr(raised.value, "exit_code", common.BROKEN) == (common.WRONG if users else common.BROKEN)


def test_a_checkpoint_on_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("enforce fail at inline_container.cc: unexpected pos 7808 vs 7702")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="could not be written completely"):
        Trainer.save(cast(Trainer, SimpleNamespace(state=dict)), tmp_path / "step-1.pt")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_becomes_a_folder_keeps_what_was_read(tmp_path: Path) -> None:
    (room := tmp_path / "copy").mkdir()
    follower = Follower(tmp_path / "train.log", room)
    follower.path.write_text("one\ntwo\n")
    assert follower.poll()
    follower.path.unlink()
    follower.path.mkdir()
    assert not follower.poll()
    follower.path.rmdir()
    follower.path.write_text("three\nfour\n")
    assert follower.poll()
    follower.close()
    assert follower.copy.read_text() == "one\ntwo\nthree\nfour\n"


def test_a_run_that_was_killed_before_its_settings_were_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run to resume: config.json: No such file or directory$"):
        Folder(tmp_path).settings()


@pytest.mark.skipif(
    not REPRODUCERS.is_dir(), reason=f"the inputs that broke the first version are not at {REPRODUCERS}"
)
def test_inputs_that_broke_the_first_version_end_with_an_exit_code() -> None:
    paths = [path for path in sorted(REPRODUCERS.iterdir()) if path.suffix not in (".sig", ".md")]
    assert len(paths) > 30
    told = {path.name: CliRunner().invoke(app, ["gate", str(path), "--budget-seconds", "60"]) for path in paths}
    assert {name: result.output for name, result in told.items() if result.exit_code not in (0, 1, 2, 3)} == {}
    assert "is not a record; skipped" in told["fold"].output  # one line of thirty, which the gate does not pass over
