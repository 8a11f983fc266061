"""``grpo-doctor fleet`` from end to end: a sweep on disk, its table, its reports, and what a second call reads
again."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.advisories.in_logs import diagnose_with_advisories
from grpo_doctor.cli import app
from grpo_doctor.cli.common import CLEAN, FINDINGS, UNJUDGED, WRONG
from grpo_doctor.fleet import document, unit
from grpo_doctor.fleet.locations import Unit
from grpo_doctor.fleet.store import Answered
from tests.cli.runs import write_run as write_records
from tests.fleet.sweeps import PLANTED, write_run, write_sweep

pytest.importorskip("duckdb", reason="duckdb is not installed; it is in the extra fleet")

RUNS = 30
SETTINGS = (PLANTED, "kl_coef", "temperature", "seed")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("sweep"), RUNS, np.random.default_rng(1), SETTINGS)


@pytest.fixture(scope="module")
def database(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep, read once for all tests that only query it."""
    path = tmp_path_factory.mktemp("database") / "fleet.duckdb"
    assert fleet(str(sweep), "--db", str(path), "-j", "1").exit_code == FINDINGS
    return path


def fleet(*words: str) -> Result:
    return CliRunner().invoke(app, ["fleet", *words])


def told(*words: str) -> Any:
    result = fleet(*words, "-f", "json")
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def report(database: Path) -> Any:
    return told("--db", str(database), "--plan", "0.05")


def test_names_the_setting_that_decides_first_and_no_other(database: Path, report: Any) -> None:
    assert [e["setting"] for e in report["effects"] if e["separates"]] == [PLANTED]
    assert report["effects"][0]["setting"] == PLANTED
    assert report["untried"]["seed"] == "a random seed"
    assert [v["value"] for v in report["effects"][0]["values"]] == ["1e-06", "3e-06", "1e-05"]
    text = fleet("--db", str(database)).stdout
    assert f"{PLANTED} separates:" in text
    assert text.splitlines()[0].startswith(f"{RUNS} runs: ")


def test_one_line_a_run_worst_first_and_grouped_by_cause(database: Path, report: Any) -> None:
    verdicts = [run["verdict"] for run in report["runs"]]
    assert len(verdicts) == RUNS
    failing = verdicts.count("failing")
    assert verdicts[:failing] == ["failing"] * failing
    assert {run["cause"] for run in report["runs"][:failing]} == {"GRD001"}
    assert (report["causes"][0]["code"], report["causes"][0]["runs"]) == ("GRD001", failing)
    full = fleet("--db", str(database), "--full").stdout
    assert "more (--full)" not in full
    assert all(run["name"] in full for run in report["runs"])


def test_json_holds_to_its_schema(report: Any) -> None:
    schema = json.loads((Path(document.__file__).parent / "fleet.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, schema)


def test_csv_cells_are_not_formulas() -> None:
    cells = ["=1+2", "+A1", "-A1", "@SUM(A1)", "\t=1", "-1e-6", "+5", "-inf", "a=1", "", None, -1.5]
    text = document.table(Answered(["=head", *"bcdefghijkl"], [tuple(cells)]))
    head, row = csv.reader(io.StringIO(text))
    assert head[0] == "'=head"
    assert row == ["'=1+2", "'+A1", "'-A1", "'@SUM(A1)", "'\t=1", "-1e-6", "+5", "-inf", "a=1", "", "", "-1.5"]


def test_csv_and_parquet_hold_a_row_a_run_with_a_column_a_setting(database: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(fleet("--db", str(database), "-f", "csv").stdout)))
    assert len(rows) == RUNS
    assert {row["settings.learning_rate"] for row in rows} == {"1e-06", "3e-06", "1e-05"}
    parquet = pytest.importorskip("pyarrow.parquet")
    fleet("--db", str(database), "--report", f"parquet={tmp_path / 'it' / 'fleet.parquet'}")
    assert parquet.read_table(tmp_path / "it" / "fleet.parquet").num_rows == RUNS


def test_users_ask_their_own_questions(database: Path) -> None:
    asked = fleet(
        "--db", str(database), "-f", "json",
        "--sql", "select settings.learning_rate as lr, avg((verdict = 'failing')::int) as share from runs group by lr",
    )  # fmt: skip
    assert asked.exit_code == CLEAN
    shares = {row["lr"]: row["share"] for row in json.loads(asked.stdout)}
    assert max(shares, key=lambda lr: shares[lr]) == 1e-5
    assert "median(onset_step)" in fleet("--db", str(database), "--sql", "select median(onset_step) from runs").stdout


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("drop table files", "one read-only statement"),
        ("select 1; select 2", "one read-only statement"),
        ("insert into files values ('a', 'b', 'c')", "one read-only statement"),
        ("copy runs to '/tmp/x.csv'", "one read-only statement"),
        ("select * from read_text('/etc/hostname')", "Permission Error"),
        ("select * from nothing", "Catalog Error"),
    ],
)
def test_a_query_that_modifies_data_is_refused_in_one_line(database: Path, sql: str, why: str) -> None:
    result = fleet("--db", str(database), "--sql", sql)
    assert (result.exit_code, result.stdout) == (WRONG, "")
    assert why in result.stderr.splitlines()[-1]


def test_a_second_call_reads_only_what_changed(
    sweep: Path, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, kept = tmp_path / "sweep", tmp_path / "fleet.duckdb"
    for name in ("run-0000", "run-0001", "run-0002"):
        shutil.copytree(sweep / name, here / name)
    read: list[str] = []
    whole = unit.judge

    def counted(unit: Unit, job: unit.Job) -> unit.Judged:
        read.append(unit.name)
        return whole(unit, job)

    monkeypatch.setattr("grpo_doctor.fleet.workers.judge", counted)

    def again() -> list[str]:
        read.clear()
        fleet(str(here), "--db", str(kept))
        return [Path(name).name for name in read]

    assert sorted(again()) == ["run-0000", "run-0001", "run-0002"]
    assert again() == []
    (here / "run-0001" / "records.jsonl").touch()
    assert again() == [], "the time changed, the content did not"
    with (here / "run-0001" / "records.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"schema":1,"step":41,"loss":0.1}\n')
    assert again() == ["run-0001"]
    (here / "run-0002" / "config.json").write_text('{"learning_rate": 0.5}', encoding="utf-8")
    assert again() == ["run-0002"], "a setting changed"
    shutil.rmtree(here / "run-0000")
    assert (again(), len(told("--db", str(kept))["runs"])) == ([], 2)
    read.clear()
    fleet(str(here), "--db", str(kept), "--ignore", "GRD001")
    assert len(read) == 2, "other checks, other findings"


def test_each_line_opens_the_page_of_its_run(sweep: Path, tmp_path: Path) -> None:
    result = fleet(str(sweep / "run-0000"), str(sweep / "run-0001"), "--out", str(tmp_path))
    assert result.exit_code in (CLEAN, FINDINGS)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    pages = sorted((tmp_path / "runs").iterdir())
    assert len(pages) == 2
    assert all(f'href="runs/{path.name}"' in page for path in pages)
    assert "2 files: 2 logs</p>" in page
    assert "<article" in pages[0].read_text(encoding="utf-8")


def test_worker_processes_give_the_same_output(sweep: Path) -> None:
    few = [str(sweep / f"run-{number:04}") for number in range(3)]
    assert told(*few, "-j", "2") == told(*few, "-j", "1")


def test_a_failing_run_is_one_line_and_affects_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_records(tmp_path / "good" / "records.jsonl", collapsed=False)
    write_records(tmp_path / "breaks" / "records.jsonl", collapsed=False)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "events.out.tfevents.1").write_bytes(b"\x00\x01\x02" * 99)

    def failing(run: Any, *how: Any) -> Any:
        if "breaks" in run.source:
            raise ZeroDivisionError("division by zero")
        return diagnose_with_advisories(run, *how)

    monkeypatch.setattr(unit, "diagnose_with_advisories", failing)
    report = told(str(tmp_path), "-j", "1")
    assert {Path(run["source"]).parent.name: run["verdict"] for run in report["runs"]} == {
        "good": "healthy", "breaks": "broken", "torn": "unreadable",
    }  # fmt: skip
    assert any("ZeroDivisionError: division by zero" in run["headline"] for run in report["runs"])


def test_exit_codes_and_errors_in_one_line(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    for words, code, why in [
        ([], WRONG, "pass run folders"),
        ([str(tmp_path / "nowhere")], WRONG, "No such file or directory"),
        ([str(tmp_path / "empty")], UNJUDGED, ""),
        ([str(sweep / "run-0000"), "-f", "sarif"], WRONG, "unknown fleet report 'sarif'"),
        ([str(sweep / "run-0000"), "-f", "parquet"], WRONG, "parquet cannot be printed"),
        (["nonsense://somewhere"], WRONG, "nonsense"),
        ([str(sweep / "run-0000"), "--db", str(sweep / "run-0000" / "config.json")], WRONG, "--db"),
    ]:
        result = fleet(*words)
        assert (result.exit_code, why in result.stderr) == (code, True), result.stderr
        assert "Traceback" not in result.stderr
    command = [sys.executable, "-m", "grpo_doctor", "fleet", "nowhere"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (WRONG, "grpo-doctor: nowhere: No such file or directory\n")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = fleet(str(sweep / "run-0000"))
    assert result.exit_code == WRONG
    assert "from a checkout: pip install '.[fleet]'" in result.stderr


def test_many_runs_of_analyze_are_pointed_here(sweep: Path) -> None:
    runs = [str(sweep / f"run-{number:04}") for number in range(7)]
    assert "grpo-doctor fleet" in CliRunner().invoke(app, ["analyze", *runs]).stdout
    assert "grpo-doctor fleet" not in CliRunner().invoke(app, ["analyze", *runs[:2]]).stdout


def test_a_setting_without_effect_keeps_both_runs(tmp_path: Path) -> None:
    for name, rate in (("a", 1e-6), ("b", 1e-5), ("c", 1e-6)):
        write_run(tmp_path / name, collapsed=False, rng=np.random.default_rng(3), learning_rate=rate)
    report = told(str(tmp_path))
    assert len(report["runs"]) == 2, "a and c are one run twice"
    assert "in every metric although learning_rate differs" in " ".join(run["twin"] for run in report["runs"])
    assert report["files"] == {"read": 2, "second view": 1}


def test_a_copy_that_ends_in_nan_is_a_separate_run(tmp_path: Path) -> None:
    rows = [{"step": i, "reward": 0.01 * i, "loss": 0.1 * (i % 7), "grad_norm": 0.3} for i in range(1, 61)]
    for name, broke_at in (("a", 61), ("b", 31), ("c", 31)):
        (tmp_path / name).mkdir()
        said = [row | ({"loss": math.nan, "grad_norm": math.nan} if row["step"] >= broke_at else {}) for row in rows]
        (tmp_path / name / "train.jsonl").write_text("\n".join(map(json.dumps, said)), encoding="utf-8")
    report = told(str(tmp_path))
    assert [(run["verdict"], run["cause"]) for run in report["runs"]] == [("failing", "GRD001"), ("healthy", None)]
    assert report["files"] == {"read": 2, "second view": 1}
