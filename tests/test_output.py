"""Outputs: whole files, devices, pipes, links, and never over an input."""

import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.cli import PIPE_CLOSED, app
from grpo_doctor.report import output
from tests.cli.runs import write_run

COMMAND = (sys.executable, "-m", "grpo_doctor")


def command(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return write_run(tmp_path / "log.jsonl", collapsed=False)


def test_file_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    (path := tmp_path / "report").write_text("old")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12346)
    before = path.stat()
    output.replace(path, "new")
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        output.replace(tmp_path / "a" / "report", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a" / "report").stat().st_mode) == 0o640


def test_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    (path := tmp_path / "report").write_text("old")

    def halves() -> None:
        with output.replacing(path) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        halves()
    assert [p.name for p in tmp_path.iterdir()] == ["report"]
    assert path.read_text() == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_device_is_written_to_and_stays_a_device(tmp_path: Path, log: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_bytes(b"")
    except PermissionError:
        pytest.skip("this container makes no device nodes")
    assert command("analyze", log, "-o", device, "--report", f"html={device}").exit_code == 0
    assert command("convert", log, device, "--to", "jsonl").exit_code == 0
    assert command("share", log, "-o", device).exit_code == 0
    assert command("gate", log, "--report", f"json={device}").exit_code == 0
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.jsonl", "null"]


@pytest.mark.timeout(60)
def test_fifo_gives_the_report_to_its_reader(tmp_path: Path, log: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    assert command("analyze", log, "-f", "json", "-o", fifo).exit_code == 0
    reader.join()
    assert read[0].startswith("{")
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def test_link_that_the_user_named_is_written_through(tmp_path: Path, log: Path) -> None:
    (target := tmp_path / "target.txt").write_text("old")
    (link := tmp_path / "link.txt").symlink_to(target)
    assert command("analyze", log, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().startswith(" HEALTHY")


def test_a_link_at_an_output_path_is_refused(tmp_path: Path, log: Path) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    (tmp_path / "log.jsonl.shared").symlink_to(victim)
    result = command("share", log)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "is a symbolic link" in result.stderr
    assert victim.read_text() == "precious"
    (tmp_path / "adapter.py").symlink_to(tmp_path / "absent.py")
    result = command("new-adapter")
    assert result.exit_code == 2
    assert "adapter.py already exists" in result.stderr
    assert not (tmp_path / "absent.py").exists()


def test_planted_draft_is_not_followed(tmp_path: Path, log: Path) -> None:
    (victim := tmp_path / "victim").write_text("precious")
    for name in ("log.jsonl.shared.part", "report.html.part", "out.jsonl.part"):
        (tmp_path / name).symlink_to(victim)
    assert command("share", log).exit_code == 0
    assert command("analyze", log, "--report", "html=report.html").exit_code == 0
    assert command("convert", log, "out.jsonl").exit_code == 0
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "log.jsonl", "-o", "log.jsonl"),
        ("analyze", "log.jsonl", "-o", "hard.jsonl"),
        ("analyze", "log.jsonl", "-o", "soft.jsonl"),
        ("analyze", ".", "-o", "log.jsonl"),
        ("analyze", "log.jsonl", "--config", "own.toml", "--report", "json=own.toml"),
        ("gate", "log.jsonl", "--report", "html=log.jsonl"),
        ("gate", "log.jsonl", "--baseline", "log.jsonl", "--write-baseline"),
        ("convert", "log.jsonl", "log.jsonl"),
        ("convert", "log.jsonl", "hard.jsonl"),
        ("share", "log.jsonl", "-o", "log.jsonl"),
        ("compare", "log.jsonl", "log.jsonl", "-o", "log.jsonl"),
        ("settings", "trl.yaml", "--report", "json=trl.yaml"),
        ("fleet", ".", "-o", "log.jsonl", "-f", "json"),
    ],
    ids=" ".join,
)
def test_input_is_never_written_over(tmp_path: Path, log: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "hard.jsonl").hardlink_to(log)
    (tmp_path / "soft.jsonl").symlink_to(log)
    (tmp_path / "own.toml").write_text("")
    (tmp_path / "trl.yaml").write_text("trainer: grpo\nnum_generations: 8\nbeta: 0.04\nmax_completion_length: 256\n")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    result = command(*words)
    assert result.exit_code == 2, result.output
    assert re.search(r"would overwrite the input", result.stderr), result.stderr
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_two_gates_at_once_both_write(log: Path) -> None:
    words = (*COMMAND, "gate", str(log), "--baseline", "b.json", "--write-baseline", "--report", "html=r.html")
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)]
    assert [(one.communicate()[1], one.returncode) for one in both] == [(b"grpo-doctor: wrote r.html\n", 0)] * 3
    assert {p.name for p in log.parent.iterdir()} == {"log.jsonl", "b.json", "r.html"}


def test_many_threads_replace_one_file(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(20):
                output.replace(tmp_path / "report", str(number) * 5000)
        except BaseException as error:  # noqa: BLE001 - whatever it is fails the test
            failed.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(set((tmp_path / "report").read_text())) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("words", [["convert"], ["convert", "--to", "csv"], ["gate"], ["analyze", "-f", "json"]])
def test_closed_pipe_ends_a_command_quietly(log: Path, words: list[str]) -> None:
    write_run(log, collapsed=False, steps=3000)
    running = subprocess.Popen((*COMMAND, *words, str(log)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait() == PIPE_CLOSED
