"""The stores of loggers: one and the same failing run in each of them, and the same diagnosis."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from grpo_doctor import diagnose
from grpo_doctor.run import Run
from grpo_doctor.sources import ReadError, read

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


STORES = [
    of_trackio, of_swanlab, of_clearml, of_mlflow_itself, of_mlflow, of_tensorboard, of_wandb, of_trainer_state,
    of_lightning, of_parquet,
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
    "store", [of_trackio, of_swanlab, of_clearml, of_mlflow_itself, of_mlflow, of_wandb, of_tensorboard]
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
    assert run.notes == ["line 2 is not a row and was left out"]


def test_zeros_of_clearml_may_be_nan(tmp_path: Path) -> None:
    events = [
        {"type": "training_stats_scalar", "iter": i, "metric": "loss", "variant": "train", "value": i % 2}
        for i in (1, 2, 3)
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(events))
    assert one(path).notes == ["1 of its values are 0, as which ClearML writes a NaN too, unless it is told otherwise"]


def test_an_archive_says_what_to_do(tmp_path: Path) -> None:
    path = Path(shutil.make_archive(str(tmp_path / "session"), "zip", MADE / "clearml"))
    with pytest.raises(ReadError, match="a zip archive: unpack it and name the folder that comes out of it"):
        read(path)


def test_a_torn_store_is_one_line(tmp_path: Path) -> None:
    path = of_mlflow(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:3000] + bytes(len(content) - 6000))
    with pytest.raises(ReadError, match="not a whole SQLite file"):
        read(path)


def test_a_store_is_read_without_a_trace_beside_it(tmp_path: Path) -> None:
    path = of_mlflow(tmp_path)
    read(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
