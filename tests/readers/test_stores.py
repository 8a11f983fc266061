"""The stores of loggers: the same failing run in each of them gives the same diagnosis."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from grpo_doctor import diagnose
from grpo_doctor.readers import ReadError, read, survey
from grpo_doctor.run import Run

from .made.write import CONFIG, rows
from .make import known, tfevents, wandb

MADE = Path(__file__).parent / "made"


def of_trackio(folder: Path) -> Path:
    return MADE / "trackio.db.gz"


def of_swanlab(folder: Path) -> Path:
    shutil.copytree(MADE / "files", folder / "files")
    return Path(shutil.copy(MADE / "run.swanlab", folder))


def of_clearml(folder: Path) -> Path:
    return MADE / "clearml" / "metrics.jsonl"


def of_mlflow_itself(folder: Path) -> Path:
    return MADE / "mlflow.db.gz"


def of_mlflow(folder: Path) -> Path:
    """The tables of MLflow's schema that are read."""
    path = folder / "mlflow.db"
    with sqlite3.connect(path) as store:
        store.execute(
            "create table metrics (key varchar(250) not null, value float not null, timestamp bigint not null, "
            "run_uuid varchar(32) not null, step bigint not null, is_nan boolean not null)"
        )
        store.execute("create table params (key varchar(250), value varchar(8000), run_uuid varchar(32))")
        for name, value in CONFIG.items():
            store.execute("insert into params values (?, ?, 'r1')", (name, str(value)))
        for step, row in rows():
            for key, value in row.items():
                is_nan = value != value
                at = 1_700_000_000_000 + step
                store.execute(
                    "insert into metrics values (?,?,?,?,?,?)", (key, 0.0 if is_nan else value, at, "r1", step, is_nan)
                )
    store.close()
    return path


def of_tensorboard(folder: Path) -> Path:
    path = folder / "events.out.tfevents.1.host.1.0"
    path.write_bytes(tfevents(rows(), {"args": json.dumps(CONFIG)}))
    return path


def of_wandb(folder: Path) -> Path:
    path = folder / "run-1.wandb"
    path.write_bytes(wandb([{**row, "train/global_step": step} for step, row in rows()], CONFIG))
    return path


def of_trainer_state(folder: Path) -> Path:
    path = folder / "trainer_state.json"
    history = [{key.removeprefix("train/"): v for key, v in row.items()} | {"step": step} for step, row in rows()]
    path.write_text(json.dumps({"log_history": history, "max_steps": 30}))
    return path


def of_lightning(folder: Path) -> Path:
    path = folder / "metrics.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = [{"step": step, **{k.removeprefix("train/"): v for k, v in row.items()}} for step, row in rows()]
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def of_parquet(folder: Path) -> Path:
    path = folder / "history.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"_step": step, **row} for step, row in rows()]), path)
    return path


def of_wandb_itself(folder: Path) -> Path:
    return MADE / "run.wandb"


def of_tensorboard_itself(folder: Path) -> Path:
    return MADE / "events.out.tfevents.1.host.1.0"


def of_transformers_itself(folder: Path) -> Path:
    return MADE / "trainer_state.json"


def of_lightning_itself(folder: Path) -> Path:
    return MADE / "metrics.csv"


STORES = [
    of_trackio, of_swanlab, of_clearml, of_mlflow_itself, of_mlflow, of_tensorboard, of_wandb, of_trainer_state,
    of_lightning, of_parquet, of_wandb_itself, of_tensorboard_itself, of_transformers_itself, of_lightning_itself,
]  # fmt: skip


def one(path: Path) -> Run:
    (run,) = read(path)
    return run


@pytest.mark.parametrize("store", STORES)
def test_one_run_in_every_store(tmp_path: Path, store: Callable[[Path], Path]) -> None:
    run = one(store(tmp_path))
    assert run.steps.tolist() == list(range(1, 31))
    columns = known(run)
    assert columns["reward_mean"] == pytest.approx([max(0.05, 0.6 - 0.02 * step) for step in range(1, 31)])
    expected = [row["train/grad_norm"] for _, row in rows()]
    assert columns["grad_norm"] == pytest.approx(expected)


def test_every_store_gives_the_same_diagnosis(tmp_path: Path) -> None:
    told: dict[str, Any] = {}
    for store in STORES:
        folder = tmp_path / store.__name__
        folder.mkdir()
        run = one(store(folder))
        run.settings = dict(CONFIG)
        diagnosis = diagnose(run)
        told[store.__name__] = (diagnosis.verdict, diagnosis.cause, sorted(f.code for f in diagnosis.findings))
    assert len({str(said) for said in told.values()}) == 1, told


@pytest.mark.parametrize(
    "store",
    [of_trackio, of_swanlab, of_clearml, of_mlflow_itself, of_mlflow, of_wandb, of_tensorboard, of_wandb_itself],
)
def test_the_settings_are_read_with_the_run(tmp_path: Path, store: Callable[[Path], Path]) -> None:
    settings = one(store(tmp_path)).settings
    assert {"group_size": 8, "learning_rate": 1e-6, "temperature": 1}.items() <= settings.items()


def test_several_runs_of_a_store_are_named(tmp_path: Path) -> None:
    path = of_mlflow(tmp_path)
    with sqlite3.connect(path) as store:
        store.execute("insert into metrics select key, value * 2, timestamp, 'r2', step, is_nan from metrics")
    store.close()
    assert [run.source for run in read(path)] == [f"{path} (r1)", f"{path} (r2)"]


def test_clearml_names_a_metric_by_its_title_and_its_side(tmp_path: Path) -> None:
    points = [("reward", "train", 0.5), ("loss", "loss", 0.1), ("actor", "grad_norm", 2.0), ("accuracy", "eval", 0.25)]
    events = [
        {"type": "training_stats_scalar", "iter": 3, "metric": metric, "variant": variant, "value": value}
        for metric, variant, value in points
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps([*events, {"type": "plot", "iter": 3}]) + '\n[{"type": "training_sta')
    run = one(path)
    assert run.steps.tolist() == [3]
    assert {name: column[0] for name, column in known(run).items()} == {
        "reward_mean": 0.5, "loss": 0.1, "grad_norm": 2.0, "eval_score": 0.25,
    }  # fmt: skip
    assert run.notes == ["line 2 is not a row and was skipped"]


def test_zeros_of_clearml_may_be_nan(tmp_path: Path) -> None:
    events = [
        {"type": "training_stats_scalar", "iter": i, "metric": "loss", "variant": "train", "value": i % 2}
        for i in (1, 2, 3)
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(events))
    assert one(path).notes == ["1 of its values are 0, which is also how ClearML stores NaN by default"]


def test_an_archive_is_read_as_its_folder_is(tmp_path: Path) -> None:
    path = Path(shutil.make_archive(str(tmp_path / "session"), "zip", MADE / "clearml"))
    (there,), (here,) = read(path), read(MADE / "clearml")
    assert there.source == f"{path}/metrics.jsonl"
    told = [repr((list(run.rows()), run.settings, run.notes)) for run in (there, here)]  # NaN is not NaN
    assert told[0] == told[1]


class AimMetric:
    """The used part of a metric of Aim's library (3.29): ``data.items()`` gives step and (value, epoch, time)."""

    def __init__(self, name: str, points: list[tuple[int, float]], subset: str = "") -> None:
        self.name, self.data, self.context = name, self, self
        self._points, self._subset = points, subset

    def items(self) -> list[tuple[int, tuple[float, float, float]]]:
        return [(step, (value, math.nan, 0.0)) for step, value in self._points]

    def to_dict(self) -> dict[str, str]:
        return {"subset": self._subset} if self._subset else {}


class AimRun:
    hash = "04d9b8b6"

    def __getitem__(self, key: Any) -> dict[str, Any]:
        return {"hparams": {"learning_rate": 1e-6, "num_generations": 8}}

    def metrics(self) -> list[AimMetric]:
        steps = range(3)
        return [
            AimMetric("reward", [(step, 0.25 * step) for step in steps], "train"),
            AimMetric("loss", [(step, 0.5) for step in steps]),
            AimMetric("accuracy", [(2, 0.75)], "eval"),
            AimMetric("__system__cpu", [(0, 40.0)]),
        ]


def aim_repository(folder: Path) -> Path:
    """The files that identify a repository, and one that must not be taken for a log."""
    store = folder / ".aim"
    (store / "meta").mkdir(parents=True)
    (store / "meta" / "000008.log").write_bytes(b"\0\1\2reward\0")
    with sqlite3.connect(store / "run_metadata.sqlite") as names:
        names.execute("CREATE TABLE run_tag (run_id INTEGER, tag_id INTEGER)")
    names.close()
    return store / "run_metadata.sqlite"


def with_aim(monkeypatch: pytest.MonkeyPatch, indexed: list[AimRun], known_runs: int) -> None:
    repository = SimpleNamespace(iter_runs=lambda: iter(indexed), list_all_runs=lambda: ["h"] * known_runs)
    monkeypatch.setitem(sys.modules, "aim", SimpleNamespace(Repo=lambda path: repository))


def test_a_repository_of_aim_is_read_by_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = aim_repository(tmp_path)
    with_aim(monkeypatch, [AimRun()], 2)
    found = survey(tmp_path)
    assert [(answer.source, answer.fate) for answer in found.answers] == [(str(path), "read")]
    (run,) = found.runs
    assert (run.source, run.format, run.steps.tolist()) == (f"{path} (04d9b8b6)", "aim", [0, 1, 2])
    columns = known(run)
    assert columns["reward_mean"] == [0.0, 0.25, 0.5]
    assert columns["eval_score"] == [None, None, 0.75]
    assert {"group_size": 8, "learning_rate": 1e-6}.items() <= run.settings.items()
    assert run.notes == ["runs of this repository that are not indexed and not read: 1; run aim storage reindex"]


def test_a_repository_of_aim_that_is_not_indexed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = aim_repository(tmp_path)
    with_aim(monkeypatch, [], 3)
    with pytest.raises(ReadError, match=r"has no indexed run \(3 not indexed\): run aim storage reindex"):
        read(path)


def test_a_repository_of_aim_that_is_damaged_is_an_unreadable_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str) -> None:
        raise RuntimeError("Corruption: bad block contents\nat 0x7f")

    path = aim_repository(tmp_path)
    monkeypatch.setitem(sys.modules, "aim", SimpleNamespace(Repo=broken))
    with pytest.raises(ReadError, match=r"library aim cannot read: RuntimeError: Corruption: bad block contents$"):
        read(path)


def test_a_repository_of_aim_without_its_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = aim_repository(tmp_path)
    monkeypatch.setitem(sys.modules, "aim", None)
    for place in (tmp_path, tmp_path / ".aim"):
        (answer,) = survey(place).answers
        assert (answer.source, answer.fate) == (str(path), "unreadable")
        assert answer.why.startswith("an Aim repository, which needs the library aim: pip install aim (")


def test_a_torn_store_is_one_line(tmp_path: Path) -> None:
    path = of_mlflow(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:3000] + bytes(len(content) - 6000))
    with pytest.raises(ReadError, match="not a complete SQLite file"):
        read(path)


def test_a_store_is_read_without_a_trace_next_to_it(tmp_path: Path) -> None:
    path = of_mlflow(tmp_path)
    read(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(("code", "ended"), [(1, True), (0, False)])
def test_the_console_in_a_wandb_file_gives_the_end_of_the_run(tmp_path: Path, code: int, ended: bool) -> None:
    """The last row may be written after the traceback; a program that went on does not fail."""
    raised = ["Traceback (most recent call last):\n", '  File "a.py", line 3, in main\n', "ValueError: no tokens\n"]
    path = tmp_path / "run-1.wandb"
    path.write_bytes(wandb([{**row, "train/global_step": step} for step, row in rows()], CONFIG, raised, code))
    run = read(path)[0]
    assert (run.ending is not None) is ended
    assert run.ending is None or run.ending.described == "a traceback: ValueError: no tokens, in main (a.py, line 3)"
