"""Wrong use of the command line: one clear line each, with what to do, and the exit code that is documented."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app

from .runs import write_run

FILES = {
    "bin.bin": bytes(range(256)) * 400,
    "torn.gz": b"\x1f\x8bnope",
    "broken.py": b"def (",
    "broken.yaml": b"a: [1",
    "nothing.py": b"print(1)",
    "config.py": b"args = GRPOConfig(num_generations=8)",
    "adapter.py": b"x = 1",
    "raises.py": b'raise RuntimeError("boom")',
    "list.toml": b"select = 3",
    "no.toml": b"= 1",
    "unknown.toml": b"slect = ['GEN']",
    "table.toml": b"[tool.grpo-doctor]\nfail-on = 'error'",
    "threshold.toml": b"[thresholds.GEN099]\na = 1",
    "base.json": b"{}",
}
TABLE = """
2 analyze none.log | none.log: No such file or directory
2 analyze bin.bin | bin.bin: binary data in an unsupported format
2 analyze torn.gz | torn.gz: Compressed file ended
3 analyze config.py | `grpo-doctor preflight config.py` reads configurations
3 analyze folder | folder: no training log found; pass the log file itself
2 analyze ok.jsonl -f pdf | unknown report format 'pdf'; there are
2 analyze ok.jsonl --run 9 | --run 9: the input has 1 run: ok.jsonl
2 analyze ok.jsonl --run 0 | --run 0: the input has 1 run: ok.jsonl
2 analyze ok.jsonl --map a | --map a: write --map NAME=VALUE
2 analyze ok.jsonl --map a=b | 'b' is not a record field
2 analyze ok.jsonl --map a=reward_men | did you mean 'reward_mean'
2 analyze ok.jsonl --map a=reward | did you mean 'reward_mean'
2 analyze ok.jsonl --map a=reward_mean | --map a=reward_mean: no log has this key
2 analyze ok.jsonl --set beta | --set beta: write --set NAME=VALUE
2 analyze ok.jsonl --set learning_rate=abc | --set learning_rate=abc: expected a number
2 analyze ok.jsonl --set learnin_rate=1 | no check uses this setting; did you mean learning_rate?
2 analyze ok.jsonl --select NOPE | no check, name or family is called 'NOPE'
2 analyze ok.jsonl --ignore NOPE | no check, name or family is called 'NOPE'
2 analyze ok.jsonl --fail-on never | choose info, warning, error or critical
2 analyze ok.jsonl --config list.toml | list.toml: Expected `array`, got `int`
2 analyze ok.jsonl --config no.toml | no.toml: not TOML
2 analyze ok.jsonl --config none.toml | none.toml: No such file or directory
2 analyze ok.jsonl --config unknown.toml | unknown key 'slect'; did you mean 'select'?
2 analyze ok.jsonl --config threshold.toml | thresholds.GEN099: no check has this code
2 analyze ok.jsonl -o folder | folder: cannot be written: Is a directory
2 analyze ok.jsonl -o /proc/no/x.html | /proc/no/x.html: cannot be written
2 analyze ok.jsonl --report html | --report html: write --report html=FILE
2 analyze ok.jsonl --report pdf=x | unknown report format 'pdf'
2 analyze ok.jsonl --figures ok.jsonl | ok.jsonl: figures cannot be written
2 gate none.log | none.log: No such file or directory
3 gate folder | folder: no training log found
2 gate ok.jsonl --require NOPE | --require NOPE: unknown check
2 gate ok.jsonl --baseline none.json | none.json: No such file or directory; create it with --write-baseline
2 gate ok.jsonl --baseline base.json | base.json: not a grpo-doctor baseline
2 gate ok.jsonl --write-baseline | --write-baseline needs --baseline FILE
2 explain NOPE | no check is called 'NOPE'
2 explain GEN01 | did you mean GEN0
2 checks NOPE | no check, name or family is called 'NOPE'
2 settings none.py | none.py: No such file or directory
2 settings broken.py | broken.py: not Python: line 1
2 settings broken.yaml | broken.yaml: not YAML: line 2: did not find expected ',' or ']'
2 settings folder | folder: contains no configuration file
3 settings nothing.py | No reinforcement learning settings found (searched for
2 probe none.py | no such file; `grpo-doctor probe --init none.py` writes one to fill in
2 probe adapter.py | adapter.py: defines no entry point, model or tokenizer; entry points are
2 probe raises.py | raises.py raised RuntimeError
2 probe --discover none.py | none.py: cannot be read
2 probe --discover broken.py | broken.py: not valid Python
2 probe --discover nothing.py | no function looks like an entry point; `grpo-doctor probe --init adapter.py` lists the entry points
2 new-adapter adapter.py | adapter.py already exists; --force overwrites it
2 new-check bad name family | expected a code such as ENT050
2 convert none.log | none.log: No such file or directory
2 share none.log | none.log: cannot be read
2 share ok.jsonl -o folder | folder: cannot be written: Is a directory
2 fleet | pass run folders, or the --db file of an earlier call
2 fleet none | none: No such file or directory
2 fleet ok.jsonl --sql 'drop table runs' | one read-only statement
2 fleet ok.jsonl --sql selct | --sql: Parser Error
2 run --inject nosuch | --inject nosuch: unknown fault; `grpo-doctor lab faults` lists all faults
2 run --set max_steps=abc | Expected `int`, got `str`
2 run --resume none | none: No such file or directory
2 init --folder /proc/no | cannot be written
2 analyze | Missing argument
2 analyze ok.jsonl --nosuch | No such option: --nosuch
2 analyse ok.jsonl | Did you mean 'analyze'?
2 analyze ok.jsonl --report out.html | --report out.html: write --report html=out.html
2 analyze ok.jsonl --report out | --report out: write --report FORMAT=out
2 analyze ok.jsonl --config table.toml | table.toml: write the keys without [tool.grpo-doctor]; only pyproject.toml has this table
"""
"""Exit code, words of the command, and what its one line says."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("misuse")
    (folder / "folder").mkdir()
    write_run(folder / "ok.jsonl", collapsed=False)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_wrong_use_is_one_clear_line(place: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "300")
    asked, _, says = line.partition(" | ")
    code, *words = shlex.split(asked)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == int(code), result.output
    assert says.strip() in result.output
    assert "Traceback" not in result.output
    told = [one for one in result.stderr.splitlines() if one.startswith("grpo-doctor: ")]
    parser = "Usage: " in result.stderr
    assert parser or int(code) == 3 or len(told) == len(result.stderr.splitlines()) <= 2, result.stderr
