"""No file affects another one: time, memory, and internal errors of grpo-doctor."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app
from grpo_doctor.limits import Budget, OverBudgetError, allow, spending, spent
from grpo_doctor.readers import read
from grpo_doctor.readers.formats import completions, jsonl, notebook
from grpo_doctor.readers.input import Input
from tests.cli.runs import write_run


@pytest.fixture(autouse=True)
def _as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    allow(Budget())


def command(*words: object) -> Result:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert "Traceback" not in result.output
    allow(Budget())
    return result


def test_work_outside_of_an_input_has_no_budget() -> None:
    allow(Budget(0.0, 0.0))
    spent(1 << 40)


def test_an_input_within_another_counts_towards_that() -> None:
    allow(Budget(0.0, 1.0))
    with spending():
        allow(Budget())
        with spending(), pytest.raises(OverBudgetError, match="given up after 0 seconds; --budget-seconds allows more"):
            spent()


def test_time_is_an_option_an_environment_variable_and_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_run(tmp_path / "run.jsonl", collapsed=False)
    words = f"grpo-doctor: {log}: given up after 0 seconds"
    assert command("analyze", log).exit_code == 0
    by_option = command("analyze", log, "--budget-seconds", "0")
    (tmp_path / "grpo-doctor.toml").write_text("budget-seconds = 0.0")
    by_setting = command("gate", log)
    assert command("gate", log, "--budget-seconds", "60").exit_code == 0
    (tmp_path / "grpo-doctor.toml").unlink()
    monkeypatch.setenv("GRPO_DOCTOR_BUDGET_SECONDS", "0")
    for result in (by_option, by_setting, command("gate", log)):
        assert (result.exit_code, words in result.stderr) == (2, True)


def test_a_file_that_exceeds_its_budget_does_not_affect_others(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    write_run(folder / "good.jsonl", collapsed=False)
    row = b'{"step": 1, "reward": 0.5, "loss": 0.1, "note": "' + b"x" * 2000 + b'"},\n'
    with gzip.open(folder / "large.log.gz", "wb") as file:
        file.write(b'{"log_history": [\n' + row * 2000 + row[:-2] + b"]}")
    result = command("gate", folder, "--budget-megabytes", "16")
    assert (result.exit_code, result.stdout.split()[0]) == (2, "pass")
    assert "large.log.gz: unreadable: a document of 3 MB, which must be read as a whole, needs more" in result.stderr
    assert "--budget-megabytes allows more" in result.stderr
    assert command("gate", folder).stdout.count("good.jsonl") == 1


ENDLESS = (
    "create view metrics as with recursive n(id) as (select 1 union all select id + 1 from n) "
    "select id, 'a' run_id, 'a' run_name, id step, '{}' metrics from n order by -id"
)
LARGE = (
    "create view metrics as select 1 id, 'a' run_id, 'a' run_name, 1 step, "
    "(select group_concat(hex(zeroblob(100000000))) from (values (1), (2), (3))) metrics"
)
COMPUTED = (
    "create table metrics(id integer primary key, run_id, run_name, step, "
    "metrics as (hex(zeroblob(100000000))) virtual)"
)


@pytest.mark.parametrize("made", [ENDLESS, LARGE, COMPUTED], ids=["endless", "large", "computed"])
def test_rows_that_a_store_computes_are_not_read(tmp_path: Path, made: str) -> None:
    store = tmp_path / "trackio.db"
    with sqlite3.connect(store) as db:
        db.execute("create table configs(run_id, run_name, config)")
        db.execute(made)
        if made == COMPUTED:
            db.execute("insert into metrics(run_id, run_name, step) values ('a', 'a', 1)")
    result = command("analyze", store)
    assert (result.exit_code, "a database without a metrics table" in result.stdout) == (3, True), result.output


def test_reading_a_store_ends_at_its_time_limit(tmp_path: Path) -> None:
    store = tmp_path / "trackio.db"
    with sqlite3.connect(store) as db:
        db.execute("create table configs(run_id, run_name, config)")
        db.execute("create table metrics(id, run_id, run_name, step, metrics)")
        db.executemany("insert into metrics values (?, 'a', 'a', ?, '{}')", [(n, n) for n in range(2000)])
    result = command("analyze", store, "--budget-seconds", "0")
    assert (result.exit_code, "given up after 0 seconds" in result.stderr) == (2, True)


def test_a_store_with_damaged_pages_is_unreadable(tmp_path: Path) -> None:
    store = tmp_path / "trackio.db"
    with sqlite3.connect(store) as db:
        db.execute("create table configs(run_id, run_name, config)")
        db.execute("create table metrics(id integer primary key, run_id, run_name, step, metrics)")
        rows = [(f'{{"reward": {n}, "note": "{"x" * 500}"}}', n) for n in range(100)]
        db.executemany("insert into metrics(run_id, run_name, metrics, step) values ('a', 'a', ?, ?)", rows)
    whole = bytearray(store.read_bytes())
    whole[8192:8200] = b"\xff" * 8
    store.write_bytes(whole)
    result = command("analyze", store)
    assert (result.exit_code, "not a complete SQLite file" in result.stderr) == (2, True), result.output


def test_a_list_longer_than_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    values = pyarrow.nulls(20_000_000, pyarrow.int8())
    lists = pyarrow.ListArray.from_arrays(pyarrow.array([0, len(values)], pyarrow.int32()), values)
    table = pyarrow.table({"step": [1], "reward": [0.5], "completion": lists})
    pyarrow.parquet.write_table(table, tmp_path / "bomb.parquet", compression="zstd")
    assert (tmp_path / "bomb.parquet").stat().st_size < 2000
    result = command("analyze", tmp_path / "bomb.parquet", "--budget-megabytes", "512")
    assert (result.exit_code, "a column of lists of 95 MB" in result.stderr) == (2, True), result.output


@pytest.mark.parametrize("others", [0, 20_000])
def test_rows_with_a_repeated_text_are_read_in_small_blocks(tmp_path: Path, others: int) -> None:
    """Alone, and in a column of many texts, whose size does not indicate the longest one."""
    words = ["x" * 2_000_000, *(f"{n}" * 100 for n in range(others))]
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([*range(1, others + 1), *[0] * 5000], "int32"), words)
    table = pyarrow.table({"step": [1] * len(texts), "reward": [0.5] * len(texts), "note": texts})
    limit = {"dictionary_pagesize_limit": 1 << 30}
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=["note"], **limit)
    group = pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0)
    assert completions._rows_at_once(Input(tmp_path / "a.parquet", {}), group, 0) * 2_000_000 <= 1 << 28


def test_texts_that_come_once_are_read_many_at_once(tmp_path: Path) -> None:
    table = pyarrow.table({"response": [f"{n} " * 300 for n in range(50_000)], "reward": [0.5] * 50_000})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    group = pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0)
    assert group.column(0).total_uncompressed_size > 5e7
    assert completions._rows_at_once(Input(tmp_path / "a.parquet", {}), group, 0) == 4096


def test_rows_of_every_batch_and_row_group_are_read(tmp_path: Path) -> None:
    rows = range(1, 10_001)
    table = pyarrow.table(
        {"step": rows, "reward": [0.5 + n / 30_000 for n in rows], "lengths": [[n] * (n % 700) for n in rows]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "run.parquet", row_group_size=6000)
    (run,) = read(tmp_path / "run.parquet")
    assert (len(run), run.steps[-1]) == (10_000, 10_000)


@pytest.mark.parametrize("line", [b"\n", b"   \n", b"\r\n", b" "])
def test_a_small_file_of_many_megabytes_of_blanks_is_passed_over(tmp_path: Path, line: bytes) -> None:
    row = b'{"step": %d, "reward": 0.5}\n'
    with zstandard.open(tmp_path / "a.jsonl.zst", "wb") as file:
        file.write(row % 1)
        for _ in range(50):
            file.write(line * ((1 << 20) // len(line)))
        file.write(b"\n" + row % 2 + row % 3)
    (run,) = read(tmp_path / "a.jsonl.zst")
    assert len(run) == 3
    assert run.lines[-1] == 3 + 1 + line.count(b"\n") * 50 * ((1 << 20) // len(line))


def test_the_head_of_a_file_of_blank_lines_is_looked_at_in_linear_time() -> None:
    assert [token.group(2) for token in notebook._TOKEN.finditer("\n" * (1 << 20))] == [None]
    assert [token.group(2) for token in notebook._TOKEN.finditer("text\n  <table border=1>")] == [None, "table"]


SCRIPTS = {
    "a.sh": "X=1\n" * 4000 + "python train.py --lr 1\n",
    "a.yaml": "".join(f"k{n}: {n}\n" for n in range(4000)),
    "a.json": "{" + ",".join(f'"k{n}": {n}' for n in range(4000)) + "}",
    "a.py": "k = 8\nargs = GRPOConfig(num_generations=k)\n",
    "a.log": "x\n" * 4000,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_reading_settings_ends_at_the_time_limit_of_an_input(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SCRIPTS[name])
    result = command("settings", tmp_path / name, "--budget-seconds", "0")
    assert (result.exit_code, "given up after 0 seconds" in result.stderr) == (2, True), result.output
    assert f"{name}: given up" in result.stderr


@pytest.mark.parametrize("filler", ["\n", " \n", "B\n", "A"])
def test_a_script_in_a_here_document_is_found_in_linear_time(tmp_path: Path, filler: str) -> None:
    (tmp_path / "a.sh").write_text(f"X=$(cat <<A\n{filler * (60_000 // len(filler))})\npython train.py --lr 1e-6\n")
    assert command("settings", tmp_path / "a.sh", "--budget-seconds", "20").exit_code in (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("select count(*) from range(1000000) a, range(1000000) b where a.range % 7 = b.range % 11", "stopped after"),
        ("select range, repeat('x', 200) from range(1000000000)", ""),
    ],
)
def test_a_fleet_query_ends_at_its_time_or_memory_limit(tmp_path: Path, sql: str, says: str) -> None:
    write_run(tmp_path / "a.jsonl", collapsed=False)
    result = command("fleet", tmp_path, "--sql", sql, "--budget-seconds", "1", "--budget-megabytes", "200")
    assert result.exit_code == 2, result.output
    assert "grpo-doctor: --sql: " in result.stderr
    assert says in result.stderr


def test_an_internal_error_is_reported_and_affects_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_on_bad(file: Input) -> None:
        raise KeyError("unforeseen")

    write_run(tmp_path / "good.jsonl", collapsed=False)
    (tmp_path / "bad.jsonl").write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.5}\n')
    monkeypatch.setattr(jsonl, "read", break_on_bad)
    words = "bad.jsonl: this is a bug in grpo-doctor, not in your run: KeyError: 'unforeseen' (test_budget.py:"
    for what in ([tmp_path], [tmp_path / "bad.jsonl", tmp_path / "good.jsonl"]):
        result = command("gate", *what)
        assert (result.exit_code, words in result.stderr) == (4, True), result.stderr
        assert result.stdout.split()[0] == "pass"
    assert command("analyze", tmp_path / "bad.jsonl").exit_code == 4
