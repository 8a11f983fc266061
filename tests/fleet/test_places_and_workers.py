"""Locations of runs and their readers: units, remote file systems, settings in names, workers that die."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from grpo_doctor.config import Config
from grpo_doctor.fleet import workers
from grpo_doctor.fleet.declared import settings_of
from grpo_doctor.fleet.locations import Unit, find, stamp
from grpo_doctor.fleet.unit import Job, decode, encode, judge
from grpo_doctor.fleet.workers import mapped
from grpo_doctor.readers import ReadError
from tests.fleet.sweeps import write_run

LAYOUTS = {
    "trl": ["a/trainer_state.json", "a/runs/Dec01/events.out.tfevents.1", "a/checkpoint-5/trainer_state.json"],
    "wandb": ["run-1/files/output.log", "run-1/run-1.wandb", "run-2/files/output.log"],
    "hydra": ["2026-01-01/10-00-00/train.log", "2026-01-01/11-00-00/train.log"],
    "flat": [f"run{number}.log" for number in range(20)],
    "two beside each other": ["train.log", "metrics.csv"],
}
UNITS = {
    "trl": ["a", "a/runs/Dec01"],
    "wandb": ["run-1", "run-2"],
    "hydra": ["2026-01-01/10-00-00", "2026-01-01/11-00-00"],
    "flat": [f"run{number}" for number in range(20)],
    "two beside each other": ["."],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_unit_holds_what_may_be_one_run(tmp_path: Path, layout: str) -> None:
    for name in LAYOUTS[layout]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("step 1 loss 0.1\n", encoding="utf-8")
    found = find([str(tmp_path)])
    assert sorted(os.path.relpath(unit.name, tmp_path) for unit in found.units) == sorted(UNITS[layout])
    assert sum(len(unit.logs) for unit in found.units) == len(LAYOUTS[layout])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo-lr1e-6-beta0.04-seed3/train.log", {"learning_rate": 1e-6, "kl_coef": 0.04, "seed": 3}),
        ("lr=1e-5,beta=0.1/train.log", {"learning_rate": 1e-5, "kl_coef": 0.1}),
        ("train_00001_1_lr=0.001,rho=0.5/result.json", {"learning_rate": 0.001, "rho": 0.5}),
        ("w6_G3_rho3.00_seed42.log", {"w": 6, "G": 3, "rho": 3.0, "seed": 42}),
        ("Qwen2.5-0.5B/train.log", {}),
        ("model-7/checkpoint-500/trainer_state.json", {}),
    ],
)
def test_names_say_settings_as_sweepers_write_them(name: str, expected: dict[str, float]) -> None:
    found = settings_of({}, [], name)
    assert {key: pytest.approx(value) if isinstance(value, float) else value for key, value in expected.items()} == {
        key: float(value) if isinstance(expected.get(key), float) else value for key, value in found.items()
    }


def test_the_log_counts_before_the_configuration_and_that_before_the_name(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("lr: 2.0e-6\ntrainer:\n  reward_fn: exact\n  layers: [1, 2]\n", "utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "qwen2", "hidden_size": 64}', "utf-8")
    configurations = [tmp_path / "config.yaml", tmp_path / "config.json", tmp_path / "gone.json"]
    found = settings_of({"kl_coef": 0.1}, configurations, "lr1e-5-beta0.2-seed3/x.log")
    assert found == {"kl_coef": 0.1, "learning_rate": 2e-6, "trainer.reward_fn": "exact", "seed": 3}


def test_secrets_of_a_configuration_do_not_leave_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("wandb_api_key: 0123456789abcdef0123456789abcdef01234567\n", "utf-8")
    assert "0123456789abcdef" not in str(settings_of({}, [tmp_path / "config.yaml"], ""))


# -- elsewhere ---------------------------------------------------------------------------------------------------


def test_an_address_of_fsspec_is_read_like_a_folder(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        write_run(tmp_path / name, collapsed=name == "two", rng=rng, learning_rate=1e-6)
    (tmp_path / "notes.pdf").write_text("no log", encoding="utf-8")
    store = fsspec.filesystem("memory")
    store.put(str(tmp_path), "/bucket/sweep", recursive=True)
    found = find(["memory://bucket/sweep"])
    assert sorted(unit.name for unit in found.units) == ["memory://bucket/sweep/one", "memory://bucket/sweep/two"]
    assert [(a.source, a.fate) for a in found.answers] == [("memory://bucket/sweep/notes.pdf", "no log")]
    lines = {line.source: line for _, document in mapped(found.units, Job(Config())) for line in decode(document).lines}
    assert {source: line.verdict for source, line in lines.items()} == {
        "memory://bucket/sweep/one/records.jsonl": "healthy",
        "memory://bucket/sweep/two/records.jsonl": "failing",
    }
    assert all(line.settings["learning_rate"] == 1e-6 for line in lines.values())


def test_an_address_that_holds_nothing_is_reported() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(ReadError, match="memory://nowhere"):
        find(["memory://nowhere"])


# -- workers -----------------------------------------------------------------------------------------------------


def dies(unit: Unit, job: Job) -> bytes:
    """A worker that one unit kills every time, and another unit only the first time."""
    mark = Path(unit.name).parent / "met"
    if "always" in unit.name or ("once" in unit.name and not mark.exists()):
        mark.touch()
        os._exit(9)
    return encode(judge(unit, job))


def test_a_worker_that_dies_loses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("always", "once", "good1", "good2", "good3", "good4")
    for name in names:
        write_run(tmp_path / name, collapsed=False, rng=np.random.default_rng(0), steps=12)
    monkeypatch.setattr(workers, "work", dies)
    units = [Unit(str(tmp_path / name), [stamp(tmp_path / name / "records.jsonl")], []) for name in names]
    lines = {Path(unit.name).name: decode(document).lines for unit, document in mapped(units, Job(Config()), jobs=2)}
    assert sorted(lines) == sorted(names)
    assert [line.verdict for line in lines.pop("always")] == ["broken"]
    assert {line.verdict for told in lines.values() for line in told}.isdisjoint({"broken", "unreadable"})
