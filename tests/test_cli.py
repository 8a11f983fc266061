"""The command line: bad input is one clear line and an exit code, never a traceback and never silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grpo_doctor import Diagnosis, Run, cli
from grpo_doctor.advisories import in_logs
from grpo_doctor.cli import app
from grpo_doctor.diagnosis import examine
from grpo_doctor.record import RecordWriter
from grpo_doctor.testing import records_of


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def healthy(path: Path) -> Path:
    with RecordWriter(path) as writer:
        for record in records_of(reward_mean=[0.3 + 0.01 * i for i in range(40)], loss=[0.01] * 40):
            writer.write(record)
    return path


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("empty.log", b"", 3, "the file is empty"),
        ("text.log", b"nothing but words here\n" * 200, 3, "recognised"),
        ("binary.bin", bytes(range(256)) * 400, 2, "binary data in an unsupported format"),
        ("nginx.log", b'127.0.0.1 - - [10/Oct/2025:13:55:36] "GET / HTTP/1.1" 200 612\n' * 200, 3, ""),
    ],
)
def test_input_that_cannot_be_judged(tmp_path: Path, name: str, content: bytes, code: int, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    exit_code, out, err = run("analyze", str(path))
    assert exit_code == code
    assert said in out + err
    if code == 2:
        assert len(err.strip().splitlines()) == 1
        assert name in err


def test_a_missing_file(tmp_path: Path) -> None:
    assert run("analyze", str(tmp_path / "none.log")) == (
        2, "", f"grpo-doctor: {tmp_path / 'none.log'}: No such file or directory\n",
    )  # fmt: skip


def test_an_unreadable_file() -> None:
    exit_code, out, err = run("analyze", "/proc/self/mem")  # no one can read it, not even root
    assert (exit_code, out) == (2, "")
    assert err.startswith("grpo-doctor: /proc/self/mem: ")
    assert len(err.strip().splitlines()) == 1


def test_a_line_of_fifty_megabytes_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    with open(path, "wb") as file:
        file.write(b"step: 1 " + b"x" * 50_000_000 + b"\n")
    code = (  # VmHWM restarts with the program; ru_maxrss is inherited from the parent process
        "import re, sys\nfrom typer.testing import CliRunner\nfrom grpo_doctor.cli import app\n"
        "r = CliRunner().invoke(app, ['analyze', sys.argv[1]])\n"
        "status = open('/proc/self/status', encoding='utf-8').read()\n"
        "print(r.exit_code, int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) // 1024)\nprint(r.output)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    exit_code, megabytes = map(int, done.stdout.splitlines()[0].split())
    assert exit_code == 3
    assert megabytes < 200
    assert "Traceback" not in done.stdout + done.stderr


def test_only_the_damaged_record_is_lost_and_named(tmp_path: Path) -> None:
    path = healthy(tmp_path / "records.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b'{"schema":1,"step":"six"}\n', *lines[6:]]))
    (tmp_path / "config.json").write_text('{"seed": ', encoding="utf-8")
    exit_code, out, _ = run("analyze", str(path))
    assert exit_code == 0
    assert f"{len(lines) - 1} rows" in out
    assert "line 6 is not a record; skipped" in out
    assert "config.json: not JSON, so its settings were not read" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fail-on", "never"], "--fail-on never: choose info, warning, error or critical"),
        (["--output-format", "pdf"], "unknown report format 'pdf'"),
        (["--select", "entropy-colapse"], "no check, name or family is called 'entropy-colapse'"),
        (["--map", "a"], "--map a: write --map NAME=VALUE"),
        (["--map", "a=b"], "'b' is not a record field"),
        (["--report", "json"], "--report json: write --report json=FILE"),
        (["--config", "nowhere.toml"], "nowhere.toml: No such file or directory"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    exit_code, out, err = run("analyze", str(healthy(tmp_path / "records.jsonl")), *arguments)
    assert (exit_code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("slect = ['GEN']\n", "unknown key 'slect'; did you mean 'select'?"),
        ("select = 'GEN'\n", "select"),
        ("[thresholds.GEN099]\na = 1\n", "no check has this code"),
        ("[thresholds.ADV003]\nhalve = 1\n", "no such threshold"),
        (
            '[thresholds.ENT001]\nspent_below_share = "a lot"\n',
            "thresholds.ENT001.spent_below_share: takes a number, not 'a lot'",
        ),
        ("[thresholds.ADV003]\nrows = 2.5\n", "thresholds.ADV003.rows: takes a whole number, not 2.5"),
        ("[thresholds.ADV003]\nrows = 0\n", "takes a whole number of at least 1, not 0"),
        ("[thresholds.ADV003]\nhalf = nan\n", "takes a number, not nan"),
        ("budget-seconds = nan\n", "budget-seconds nan: write a number of 0 or more"),
        ("budget-megabytes = -1\n", "budget-megabytes -1: write a number of 0 or more"),
        ("not toml", "not TOML"),
        (f"select = {'[' * 5000}", "not TOML: maximum recursion depth exceeded"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path: Path, toml: str, said: str) -> None:
    (tmp_path / "grpo-doctor.toml").write_text(toml, encoding="utf-8")
    arguments = ["analyze", str(healthy(tmp_path / "records.jsonl")), "--config", str(tmp_path / "grpo-doctor.toml")]
    exit_code, _, err = run(*arguments)
    assert exit_code == 2
    assert said in err
    assert "grpo-doctor.toml" in err


@pytest.mark.parametrize("toml", ["tool = 5\n", "[tool]\ngrpo-doctor = 5\n"])
def test_pyproject_whose_tables_are_none_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(toml, encoding="utf-8")
    exit_code, _, err = run("analyze", str(healthy(tmp_path / "records.jsonl")))
    assert exit_code == 2
    assert "is not a table; write [tool.grpo-doctor]" in err
    assert err.count("\n") == 1


def test_settings_change_a_threshold(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with RecordWriter(path) as writer:
        for record in records_of(zero_variance_share="0.4x20", reward_mean="0.6x20"):
            writer.write(record)
    config = tmp_path / "mine.toml"
    config.write_text(
        "select = ['ADV003']\nfail-on = 'warning'\n[thresholds.ADV003]\nhalf = 0.3\nmost = 0.35\n", encoding="utf-8"
    )
    exit_code, out, _ = run("analyze", str(path), "--select", "ADV003")
    assert exit_code == 0
    assert "Only the selected checks ran (ADV003). No problem found" in " ".join(out.split())
    assert "Only the selected" not in run("analyze", str(path), "--ignore", "ADV003")[1]
    assert run("analyze", str(path), "--config", str(config))[0] == 1
    assert run("analyze", str(path), "--config", str(config), "--fail-on", "error")[0] == 0


def test_a_healthy_run_exits_with_0_and_several_with_the_worst(tmp_path: Path) -> None:
    good = healthy(tmp_path / "records.jsonl")
    assert run("analyze", str(good))[0] == 0
    assert run("analyze", str(good), str(tmp_path / "none.log"))[0] == 2
    empty = tmp_path / "empty.log"
    empty.touch()
    assert run("analyze", str(good), str(empty))[0] == 3


def test_verbose_shows_what_was_read_as_what(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    line = "iter {} | loss=0.1 | mean_rew 0.53 | ent 1.2 | approx_kl 3e-4 | len 88.1\n"
    path.write_text("group_size = 8\n" + "".join(line.format(i) for i in range(12, 15)), encoding="utf-8")
    code, said, _ = run("analyze", "--verbose", str(path))
    told = " ".join(said.split())
    assert code == 3
    assert "key-value-console, rl, 3 steps (12 to 14)" in told
    assert "read as: loss → loss, mean_rew → reward_mean, ent → entropy_mean, len → response_length_mean" in told
    assert "settings in the log: group_size=8" in told
    assert "log keys not used: approx_kl" in told


def test_explain_prints_the_page_by_code_and_by_name() -> None:
    for word in ("GEN001", "gen001", "generation-in-train-mode-with-checkpointing"):
        exit_code, out, _ = run("explain", word)
        assert exit_code == 0
        for heading in ("What it sees", "Known false alarms", "What else it could be", "Steps"):
            assert heading in out
    exit_code, _, err = run("explain", "GEN01")
    assert (exit_code, "did you mean" in err, "GEN001" in err) == (2, True, True)


def test_checks_lists_filters_and_prints_json() -> None:
    listed = json.loads(run("checks", "--json")[1])
    assert {"code", "name", "family", "severity", "title"} == listed[0].keys()
    assert {c["family"] for c in json.loads(run("checks", "update", "--json")[1])} == {"update"}
    assert "UPD001" in run("checks", "update")[1]
    assert "nats per token" in run("checks", "--fields")[1]


def test_a_newcomer_adds_a_check_in_one_file_and_one_test(tmp_path: Path) -> None:
    done = run("new-check", "ENT950", "entropy-halved", "entropy", "--folder", str(tmp_path / "mine"),
               "--tests", str(tmp_path / "tests"))  # fmt: skip
    assert done[0] == 0, done
    assert (tmp_path / "mine" / "entropy" / "entropy_halved.py").is_file()
    (tmp_path / "grpo-doctor.toml").write_text("checks = ['mine']\n", encoding="utf-8")
    config = ["--config", str(tmp_path / "grpo-doctor.toml"), "--trust-checks"]
    path = tmp_path / "records.jsonl"
    with RecordWriter(path) as writer:
        for record in records_of(entropy_mean="1.0 0.4x10"):
            writer.write(record)
    report = json.loads(run("analyze", str(path), "-f", "json", "--select", "ENT950", *config)[1])
    assert report["runs"][0]["findings"][0]["message"] == "Entropy is 0.4 nats, less than 50% of the 1 at the start."
    again = run("new-check", "GEN001", "x-y", "entropy", "--folder", str(tmp_path))
    assert (again[0], "already exists" in again[2]) == (2, True)


def test_version() -> None:
    assert run("--version")[1].startswith("grpo-doctor 0.")


@pytest.mark.parametrize("command", ["analyze", "gate"])
def test_an_internal_error_affects_one_run_and_is_not_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    first, second = healthy(tmp_path / "a.jsonl"), healthy(tmp_path / "b.jsonl")
    judge = examine.diagnose

    def fails_on_one(run: Run, **known: Any) -> Diagnosis:
        if run.source == str(first):
            raise ZeroDivisionError("made for the test")
        return judge(run, **known)

    monkeypatch.setattr(in_logs, "diagnose", fails_on_one)
    code, out, err = run(command, str(first), str(second))
    assert code == 4
    assert "b.jsonl" in "".join(out.split())  # the path is wrapped
    assert "this is a bug in grpo-doctor, not in your run: ZeroDivisionError: made for the test (test_cli.py:" in err
    assert "Traceback" not in err


def test_a_bug_of_ours_anywhere_is_reported_as_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["grpo-doctor", "checks"])
    monkeypatch.setattr(cli, "app_of", lambda names: lambda words: 1 / 0)
    monkeypatch.setattr(cli, "with_command", lambda words: words)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 4
    assert "checks: this is a bug in grpo-doctor" in capsys.readouterr().err
