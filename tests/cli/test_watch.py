"""The watch: each finding once, when it arises; rotation and truncation; one process stopped and no other."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app
from grpo_doctor.cli.watch import Follower, Stop, Watcher
from grpo_doctor.config import Config
from tests import p30
from tests.cli.runs import write_run


def watch(*words: object) -> Result:
    return CliRunner().invoke(app, ["watch", *map(str, words)])


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    (folder := tmp_path / "copy").mkdir()
    return Follower(tmp_path / "train.log", folder)


def append(path: Path, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def rename(path: Path) -> None:
    path.rename(path.with_suffix(".log.1"))


def truncate(path: Path) -> None:
    path.write_text("")


def test_a_file_that_appears_later_and_grows_by_torn_lines(follower: Follower) -> None:
    assert not follower.poll()
    append(follower.path, "one\ntw")
    assert follower.poll()
    assert follower.copy.read_text() == "one\n"
    assert not follower.poll()
    append(follower.path, "o\n")
    assert follower.poll()
    assert follower.copy.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("turn", [rename, truncate])
def test_rotation_and_truncation_lose_and_double_nothing(follower: Follower, turn: Callable[[Path], None]) -> None:
    append(follower.path, "one\ntwo\n")
    follower.poll()
    turn(follower.path)
    if turn is truncate:
        follower.poll()
    append(follower.path, "3\n")
    follower.poll()
    append(follower.path, "four\n")
    follower.poll()
    assert follower.copy.read_text() == "one\ntwo\n3\nfour\n"


def test_what_was_written_just_before_a_rotation_is_read(follower: Follower) -> None:
    append(follower.path, "one\n")
    follower.poll()
    append(follower.path, "two\ntorn")
    rename(follower.path)
    append(follower.path, "three\n")
    follower.poll()
    assert follower.copy.read_text() == "one\ntwo\ntorn\nthree\n"


def steps(*, broken_at: int, upto: int) -> list[dict[str, str]]:
    """Rows in the manner of document 002's log: one broken rollout, with the caching warning."""
    return [
        {
            "step": str(step),
            "n_groups": "3",
            "n_dsl": "6",
            "n_fallback": "6" if step == broken_at else "0",
            "cache_warning": "1" if step == broken_at else "0",
            "zero_var_groups": "2",
            "mean_reward": "0.1" if step == broken_at else "0.6",
            "update": "1" if step == broken_at - 1 else "0",
        }
        for step in range(1, upto + 1)
    ]


@pytest.mark.parametrize("turn", [None, rename, truncate])
def test_gen001_is_told_at_the_first_poll_after_its_step_and_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], turn: Callable[[Path], None] | None
) -> None:
    text = p30.write(tmp_path / "whole.log", steps(broken_at=5, upto=8)).read_text(encoding="utf-8")
    before, after = text.index("📍 Step 5/500"), text.index("📍 Step 6/500")
    log, folder = tmp_path / "train.log", tmp_path / "copy"
    folder.mkdir()
    watcher = Watcher(log, folder, Config(), [], [])
    told = []
    for part in (text[:before], text[before:after], text[after:]):
        if turn and log.exists():
            turn(log)
            watcher.poll()
        append(log, part)
        watcher.poll()
        told.append("GEN001 generation-in-train-mode-with-checkpointing since step 5" in capsys.readouterr().out)
    assert told == [False, True, False]


def test_only_the_given_process_is_stopped(tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleep) as trainer, subprocess.Popen(sleep) as other:
        log = tmp_path / "records.jsonl"
        writer = threading.Timer(0.5, write_run, [log], {"collapsed": True})
        writer.start()
        result = watch(
            log, "--interval", 0.1, "--on", f"error=stop:{trainer.pid}", "--report", f"json={tmp_path}/r.json"
        )
        assert result.exit_code == 1
        assert f"stopped process {trainer.pid} because of" in result.stdout
        assert trainer.wait(10) == -15
        assert other.poll() is None
        other.terminate()
        writer.join()
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["runs"][0]["verdict"] == "failing"


def test_a_process_that_has_ended_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    from grpo_doctor.check import Severity

    (folder := tmp_path / "copy").mkdir()
    log = write_run(tmp_path / "records.jsonl", collapsed=True)
    watcher = Watcher(log, folder, Config(), [Stop(Severity.ERROR, ended.pid)], [])
    watcher.poll()
    assert f"process {ended.pid} has ended already" in capsys.readouterr().err


def test_exec_is_told_each_finding_without_a_shell(tmp_path: Path) -> None:
    log, told = write_run(tmp_path / "records.jsonl", collapsed=True), tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'a').write(os.environ['GRPO_DOCTOR_CODE'] + chr(10))"
    result = watch(log, "--interval", 0.05, "--idle", 0.1, "--exec", f'{sys.executable} -c "{script}"')
    assert result.exit_code == 1
    codes = told.read_text().split()
    assert "GRD001" in codes
    assert len(codes) == len(set(codes))


def test_a_healthy_log_ends_with_0_and_a_log_without_metrics_with_3(tmp_path: Path) -> None:
    good = write_run(tmp_path / "records.jsonl", collapsed=False)
    assert watch(good, "--interval", 0.05, "--idle", 0.1).exit_code == 0
    (other := tmp_path / "other.log").write_text("nothing to see\n")
    assert watch(other, "--interval", 0.05, "--idle", 0.1).exit_code == 3


def test_findings_do_not_come_twice(tmp_path: Path) -> None:
    lines = watch(
        write_run(tmp_path / "r.jsonl", collapsed=True), "--interval", 0.05, "--idle", 0.3
    ).stdout.splitlines()
    codes = [line.split()[1] for line in lines if not line.startswith(" ")]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--on", "error=stop:0"], "0 is not the process id of a trainer"),
        (["--on", "error=stop:1"], "1 is not the process id of a trainer"),
        (["--on", "error=stop:-5"], "write --on SEVERITY=stop:PID"),
        (["--on", "awful=stop:99"], "write --on SEVERITY=stop:PID"),
        (["--on", f"error=stop:{os.getpid()}"], "is not the process id of a trainer"),
        (["--exec", "no-such-command-here"], "no such command"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, words: list[str], why: str) -> None:
    result = watch(tmp_path / "x.log", *words)
    assert result.exit_code == 2
    assert why in result.output


def test_interrupt_ends_it_in_order(tmp_path: Path) -> None:
    log = write_run(tmp_path / "records.jsonl", collapsed=True)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "grpo_doctor", "watch", str(log), "--interval", "0.1"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(2)
        process.communicate(timeout=20)
    assert first.split()[0] in ("critical", "error", "warning", "info")
    assert process.returncode == 1
