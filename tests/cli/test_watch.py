"""``watch`` reports each finding once, when it appears; handles rotation and truncation; and stops one process and no
other."""

import base64
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app
from grpo_doctor.cli.follow import Follower, InPlace, follow
from grpo_doctor.cli.live import Pace
from grpo_doctor.cli.watch import Heartbeat, Stop, Watcher, _kept_current
from grpo_doctor.config import Config, ConfigError
from grpo_doctor.diagnosis.check import Severity
from grpo_doctor.report.model import Options
from grpo_doctor.rollouts import step_of
from tests import aflow_log
from tests.cli.runs import write_run
from tests.rollouts.planted import write


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


def test_rows_written_just_before_a_rotation_are_read(follower: Follower) -> None:
    append(follower.path, "one\n")
    follower.poll()
    append(follower.path, "two\ntorn")
    rename(follower.path)
    append(follower.path, "three\n")
    follower.poll()
    assert follower.copy.read_text() == "one\ntwo\ntorn\nthree\n"


def steps(*, broken_at: int, upto: int) -> list[dict[str, str]]:
    """Rows as in beita6969/colab-grpo's log: one broken rollout, with the caching warning."""
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
def test_gen001_is_reported_at_the_first_poll_after_its_step_and_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], turn: Callable[[Path], None] | None
) -> None:
    text = aflow_log.write(tmp_path / "whole.log", steps(broken_at=5, upto=8)).read_text(encoding="utf-8")
    before, after = text.index("📍 Step 5/500"), text.index("📍 Step 6/500")
    log, folder = tmp_path / "train.log", tmp_path / "copy"
    folder.mkdir()
    watcher = Watcher(Follower(log, folder), Config(), [])
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


def test_a_process_that_has_ended_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process = psutil.Process(ended.pid)
    ended.kill()
    ended.wait()
    (folder := tmp_path / "copy").mkdir()
    log = write_run(tmp_path / "records.jsonl", collapsed=True)
    watcher = Watcher(Follower(log, folder), Config(), [Stop(Severity.ERROR, process)])
    watcher.poll()
    assert f"process {ended.pid} had already ended" in capsys.readouterr().err


def test_another_process_with_the_number_of_the_trainer_lives_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pinned process started at a different time from the one that now has its number."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        pinned = psutil.Process(other.pid)
        began = pinned._ident[1] - 500
        pinned._ident, pinned._create_time = (other.pid, began), began
        (folder := tmp_path / "copy").mkdir()
        log = write_run(tmp_path / "records.jsonl", collapsed=True)
        watcher = Watcher(Follower(log, folder), Config(), [Stop(Severity.ERROR, pinned)])
        watcher.poll()
        assert watcher.stopped
        assert "had already ended" in capsys.readouterr().err
        assert other.poll() is None
        other.terminate()


def test_a_command_receives_each_finding_without_a_shell(tmp_path: Path) -> None:
    log, told = write_run(tmp_path / "records.jsonl", collapsed=True), tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'a').write(os.environ['GRPO_DOCTOR_CODE'] + chr(10))"
    result = watch(log, "--interval", 0.05, "--idle", 0.1, "--notify", f'{sys.executable} -c "{script}"')
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
    told = [
        line.split()[1]
        for line in lines[: lines.index("")]
        if line.startswith(("critical", "error", "warning", "info"))
    ]
    assert "GRD001" in told
    assert len(told) == len(set(told))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--on", "error=stop:0"], "0 is not the process id of a trainer"),
        (["--on", "error=stop:1"], "1 is not the process id of a trainer"),
        (["--on", "error=stop:-5"], "expected SEVERITY=stop:PID"),
        (["--on", "awful=stop:99"], "expected SEVERITY=stop:PID"),
        (["--on", f"error=stop:{os.getpid()}"], "is not the process id of a trainer"),
        (["--notify", "no-such-command-here"], "command not found"),
        (["--notify", "wandb:me/run"], "expected wandb:ENTITY/PROJECT/RUN"),
        (["--notify", "trackio"], "needs trackio: pip install trackio"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, words: list[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio.sqlite_storage", None)
    result = watch(tmp_path / "x.log", *words)
    assert result.exit_code == 2
    assert why in result.output


def test_interrupt_ends_it_in_order(tmp_path: Path) -> None:
    log = write_run(tmp_path / "records.jsonl", collapsed=True)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "grpo_doctor", "watch", str(log), "--interval", "0.1"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs are deaf to it
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert first.split()[0] in ("critical", "error", "warning", "info")
    assert process.returncode == 1


def rewritten(path: Path, text: str) -> None:
    """Rewrite a file as trainers do: write a new one and rename it."""
    draft = path.with_suffix(".part")
    draft.write_text(text)
    draft.replace(path)


def overwritten(path: Path, text: str) -> None:
    path.write_text("")
    path.write_text(text)


@pytest.mark.parametrize("write", [rewritten, overwritten])
def test_a_log_that_is_written_again_is_not_counted_twice(
    follower: Follower, write: Callable[[Path, str], None]
) -> None:
    text = ""
    for line in ("step,loss", "1,0.5", "2,0.4", "3,0.3"):
        text += line + "\n"
        if write is overwritten:
            follower.path.write_text("")
            follower.poll()
        write(follower.path, text)
        follower.poll()
    assert follower.copy.read_text() == text
    append(follower.path, "4,0.2\n")
    follower.poll()
    assert follower.copy.read_text() == text + "4,0.2\n"


def test_a_table_that_is_rotated_continues_after_its_head(follower: Follower) -> None:
    append(follower.path, "step,loss\n1,0.5\n2,0.4\n")
    follower.poll()
    rename(follower.path)
    append(follower.path, "step,loss\n")
    follower.poll()
    append(follower.path, "3,0.3\n")
    follower.poll()
    assert follower.copy.read_text() == "step,loss\n1,0.5\n2,0.4\nstep,loss\n3,0.3\n"


def test_the_end_of_a_file_that_had_just_begun_again(follower: Follower) -> None:
    append(follower.path, "one\ntwo\n")
    follower.poll()
    truncate(follower.path)
    follower.poll()
    append(follower.path, "three")
    follower.close()
    assert follower.copy.read_text() == "one\ntwo\nthree\n"


def test_folders_and_stores_are_read_in_place(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\0")
    (tmp_path / "train.log").write_text("step 1\n")
    ways = {
        name: type(follow(tmp_path / name, tmp_path)) for name in ("run", "store.db", "trainer_state.json", "train.log")
    }
    assert ways == {"run": InPlace, "store.db": InPlace, "trainer_state.json": InPlace, "train.log": Follower}


def test_a_folder_is_read_again_when_a_file_in_it_changes(tmp_path: Path) -> None:
    reader = InPlace(tmp_path)
    assert not reader.poll()
    append(tmp_path / "a.jsonl", "{}\n")
    assert reader.poll()
    assert not reader.poll()
    append(tmp_path / "a.jsonl", "{}\n")
    assert reader.poll()


def test_a_folder_is_watched_and_ends_with_a_report(tmp_path: Path) -> None:
    (run := tmp_path / "run").mkdir()
    write_run(run / "records.jsonl", collapsed=True)
    result = watch(run, "--interval", 0.05, "--idle", 0.1)
    assert result.exit_code == 1
    assert "GRD001" in result.stdout
    assert "FAILING" in result.stdout, "it closes with the report"
    assert "step 60" in result.stdout, "a line says where the run stands although no terminal is there"


def test_a_file_that_never_comes_is_reported_at_once_and_is_wrong_use(tmp_path: Path) -> None:
    result = watch(tmp_path / "no.log", "--interval", 0.05, "--idle", 0.1)
    assert result.exit_code == 2
    assert f"{tmp_path / 'no.log'}: does not exist yet; waiting" in result.output
    assert f"{tmp_path / 'no.log'}: the file never appeared" in result.output


def test_the_heartbeat_reports_progress_and_silence(tmp_path: Path) -> None:
    log, now, said = write_run(tmp_path / "records.jsonl", collapsed=False, steps=10), [0.0], list[str]()
    (tmp_path / "config.json").write_text('{"max_steps": 40}')
    (folder := tmp_path / "copy").mkdir()
    watcher = Watcher(Follower(log, folder), Config(), [])
    watcher.say = said.append
    heart = Heartbeat(watcher, 60.0, lambda: now[0])
    for seconds, more in ((0.0, 10), (30.0, 0), (60.0, 0), (90.0, 20), (120.0, 0)):
        now[0] = seconds
        if more > 10:
            write_run(log, collapsed=False, steps=more)
        heart.tick(watcher.poll())
    assert len(said) == 3
    assert said[0].startswith(f"step 10/40, no new step yet, {log}  reward 0.54")
    assert said[1].endswith("no new data for 60 s")
    assert said[2].startswith("step 20/40, ")
    assert "steps/min" in said[2]


def test_pace() -> None:
    now = [0.0]
    pace = Pace(10, lambda: now[0])
    assert (pace.left(0, 100), pace.left(10, 100)) == ("starting", "no new step yet")
    now[0] = 60.0
    assert pace.left(20, 100) == "8 min left, 10 steps/min"
    assert pace.left(40, 50) == "20 s left, 30 steps/min"
    assert pace.left(20, None) == "10 steps/min"


@contextmanager
def listening(answer: bytes) -> Iterator[tuple[str, list[tuple[str | None, dict[str, Any]]]]]:
    """Yield the address of a server that returns this answer, and the authorization and body of the requests that it
    received."""
    got: list[tuple[str | None, dict[str, Any]]] = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Authorization"], json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


def test_a_webhook_receives_json_and_an_unreachable_one_ends_nothing(tmp_path: Path) -> None:
    log = write_run(tmp_path / "records.jsonl", collapsed=True)
    dead = "http://127.0.0.1:9/dead?key=1"
    with listening(b"") as (url, got):
        result = watch(log, "--interval", 0.05, "--idle", 0.1, "--notify", f"{url}/hook", "--notify", dead)
    assert result.exit_code == 1
    assert "GRD001" in {told["code"] for _, told in got}
    assert all(told["text"].startswith(told["severity"]) for _, told in got)
    assert "--notify http://127.0.0.1:9/dead: " in result.output


def test_findings_become_alerts_of_a_run_of_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_run(tmp_path / "records.jsonl", collapsed=True)
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    for answer, refused in (
        (b'{"data": {"notifyScriptableRunAlert": {"success": true}}}', False),
        (b'{"errors": [{"message": "run not found"}]}', True),
    ):
        with listening(answer) as (url, got):
            monkeypatch.setenv("WANDB_BASE_URL", url)
            result = watch(log, "--interval", 0.05, "--idle", 0.1, "--notify", "wandb:me/grpo/a1b2")
        assert result.exit_code == 1
        assert ("run not found" in result.output) is refused
        assert "k" * 40 not in result.output
        said = [body["variables"] for _, body in got]
        assert {(v["entity"], v["project"], v["run"]) for v in said} == {("me", "grpo", "a1b2")}
        assert "grpo-doctor: GRD001 nan-or-inf" in [v["title"] for v in said]
        assert {v["level"] for v in said} <= {"WARN", "ERROR"}
        assert {key for key, _ in got} == {"Basic " + base64.b64encode(b"api:" + b"k" * 40).decode()}


def test_the_key_of_a_wandb_login_is_taken_where_none_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_doctor.cli import notify

    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="set WANDB_API_KEY or run"):
        notify.channel("wandb:me/grpo/a1b2")
    (held := tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {'k' * 40}\n", encoding="utf-8")
    held.chmod(0o600)
    assert callable(notify.channel("wandb:me/grpo/a1b2"))


def test_a_webhook_that_answers_drop_by_drop_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_doctor.cli import notify

    monkeypatch.setattr(notify, "LIMIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes the connection and never answers
        send = notify.channel(f"http://127.0.0.1:{server.getsockname()[1]}/")
        told = dict.fromkeys(("code", "name", "severity", "onset_step", "message", "log"), "x")
        failed = send(told)
    assert failed is not None


def test_a_page_is_kept_current_while_the_run_goes_on(tmp_path: Path) -> None:
    log, page = write_run(tmp_path / "r.jsonl", collapsed=True), tmp_path / "live.html"
    (folder := tmp_path / "copy").mkdir()
    watcher = Watcher(follow(log, folder), Config(), [])
    kept = _kept_current(watcher, lambda new: None, [f"html={page}"], Options(), log)
    watcher.poll()
    kept(True)
    assert 'http-equiv="refresh" content="5"' in page.read_text(encoding="utf-8")
    assert watch(log, "--interval", 0.05, "--idle", 0.1, "--report", f"html={page}").exit_code == 1
    assert 'http-equiv="refresh"' not in page.read_text(encoding="utf-8")


def test_a_folder_of_rollouts_next_to_the_log_is_followed_and_each_file_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "made", "math", "loop")
    (rollouts := tmp_path / "run" / "rollouts").mkdir(parents=True)
    read: list[str] = []

    def named(name: str, folder: str) -> int | None:
        read.append(name)
        return step_of(name, folder)

    monkeypatch.setattr("grpo_doctor.readers.formats.completions.step_of", named)
    watcher = Watcher(InPlace(tmp_path / "run"), Config(), [])
    told = ""
    for step in range(1, 31):
        row = {"step": step, "loss": 0.1 / step, "reward": 0.3 + step / 100, "kl": 0.01}
        append(tmp_path / "run" / "train.jsonl", json.dumps(row) + "\n")
        shutil.copy(tmp_path / "made" / f"{step}.jsonl", rollouts)
        if step % 10 == 0:
            assert watcher.poll()
            told += capsys.readouterr().out
    assert told.count("DIV005 responses-repeat-themselves since step 1") == 1
    assert sorted(read) == sorted(f"{step}.jsonl" for step in range(1, 31))
    append(rollouts / "30.jsonl", "")
    os.utime(rollouts / "30.jsonl", (0, 0))
    assert watcher.poll()
    assert read.count("30.jsonl") == 2
    (diagnosis,) = watcher.diagnoses
    assert {"loss", "repetition_rate"} <= diagnosis.run.columns.keys()
