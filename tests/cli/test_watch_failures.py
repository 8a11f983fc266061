"""``watch`` with uncooperative targets: processes that ignore signals, servers that return garbage."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app
from grpo_doctor.cli.follow import Follower
from grpo_doctor.cli.notify import _post
from grpo_doctor.cli.watch import Stop, Watcher
from grpo_doctor.config import Config
from grpo_doctor.diagnosis.check import Severity
from tests.cli.runs import write_run

WATCH = import_module("grpo_doctor.cli.watch")
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True)\nwhile True: time.sleep(1)"
PROMPT = "import time; print(flush=True)\nwhile True: time.sleep(1)"


@contextmanager
def trainer(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running process that ends with the block."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def watch(log: Path, *words: object) -> Result:
    return CliRunner().invoke(app, ["watch", str(log), "--interval", "0.05", "--idle", "0.3", *map(str, words)])


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(WATCH, "GRACE", 0.3)
    return write_run(tmp_path / "records.jsonl", collapsed=True)


def test_a_process_that_ignores_sigterm_is_reported_and_the_watch_goes_on(log: Path) -> None:
    with trainer(DEAF) as process:
        result = watch(log, "--on", f"error=stop:{process.pid}")
        assert process.poll() is None
    assert result.exit_code == 1
    assert f"stopped process {process.pid}" not in result.output
    (line,) = [line for line in result.stderr.splitlines() if "did not end within 0.3 s" in line]
    assert f"process {process.pid} got SIGTERM because of" in line
    assert "still watching; use --kill-after SECONDS to send SIGKILL" in line


def test_a_process_that_ignores_sigterm_is_killed_where_that_is_asked_for(log: Path) -> None:
    with trainer(DEAF) as process:
        result = watch(log, "--on", f"error=stop:{process.pid}", "--kill-after", "0.2")
        assert process.wait(10) == -signal.SIGKILL
    assert f"killed process {process.pid} because of" in result.stdout
    assert "it was still running 0.2 s after SIGTERM" in result.stdout


def test_a_zombie_process_counts_as_ended(log: Path) -> None:
    with trainer(PROMPT) as process:
        result = watch(log, "--on", f"error=stop:{process.pid}")
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert f"stopped process {process.pid} because of" in result.stdout


def test_a_process_that_ends_later_ends_the_watch(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder := tmp_path / "copy").mkdir()
    with trainer(DEAF) as process:
        watcher = Watcher(Follower(log, folder), Config(), [Stop(Severity.ERROR, psutil.Process(process.pid))])
        watcher.poll()
        assert not watcher.stopped
        process.kill()
        process.wait()
        watcher.poll()
    assert watcher.stopped
    assert f"process {process.pid} has ended after SIGTERM" in capsys.readouterr().out


def test_a_process_of_another_user_is_reported_and_the_watch_goes_on(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Foreign:
        pid = os.getppid()

        def terminate(self) -> None:
            raise psutil.AccessDenied(self.pid)

    (folder := tmp_path / "copy").mkdir()
    watcher = Watcher(Follower(log, folder), Config(), [Stop(Severity.ERROR, Foreign())])
    watcher.poll()
    assert not watcher.stopped
    assert "no permission to stop process" in capsys.readouterr().err


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a server that returns these bytes, one item per connection, and what it received."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    got.append(connection.recv(1 << 16))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", got
        listener.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"GARBAGE\x1b[2J\xff\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"",
    ],
)
def test_a_server_that_answers_garbage_is_one_line(log: Path, answer: bytes) -> None:
    with answering(*[answer] * 50) as (address, got):
        result = watch(log, "--notify", f"http://{address}/hook?key=1")
    assert result.exit_code == 1, result.output
    assert got
    assert "Traceback" not in result.output
    told = [line for line in result.stderr.splitlines() if "--notify http://" in line]
    assert told or b"Content-Length: 9" in answer
    assert all(len(line) < 400 and "\x1b" not in line and "key=1" not in line for line in told)


DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FOUND = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_a_redirect_to_the_same_host_carries_the_key() -> None:
    with answering(FOUND % b"/other", DONE) as (address, got):
        assert _post(f"http://{address}/", {}, {"Authorization": "Basic a2V5"}) == (b"ok", None)
    assert [b"Basic a2V5" in request for request in got] == [True, True]


def test_a_redirect_to_another_host_does_not_carry_the_key() -> None:
    with answering(DONE) as (other, there), answering(FOUND % f"http://{other}/".encode()) as (address, here):
        assert _post(f"http://{address}/", {}, {"Authorization": "Basic a2V5"}) == (b"ok", None)
    assert [b"Basic a2V5" in request for request in (*here, *there)] == [True, False]
