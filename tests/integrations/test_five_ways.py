"""One TRL training, watched in five ways: each reports the same about what it can see, and what it cannot see. The
fifth, a trackio store, needs trackio: `make test-hooks` installs it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("trl.trainer.grpo_trainer", reason="the extra trl is not installed")
pytest.importorskip("tensorboard", reason="the extra dev installs it; transformers writes event files with it")

from grpo_doctor import Diagnosis, attach
from grpo_doctor.cli import app
from grpo_doctor.cli.follow import follow
from grpo_doctor.cli.watch import Watcher
from grpo_doctor.config import Config
from grpo_doctor.integrations.hf_callback import DoctorCallback
from tests.integrations.tiny_trl import constant, make_trainer

pytestmark = pytest.mark.slow
STEPS = 14
TRACKIO = find_spec("trackio") is not None
DEAD = "ADV003"
"""All rewards are equal: the fault of the training, which every one of the five ways must report."""


def of_what_was_written(path: Path, folder: Path) -> Diagnosis:
    """Return what `watch` reports on a log, a folder or a store."""
    folder.mkdir()
    watcher = Watcher(follow(path, folder), Config(), [])
    watcher.poll()
    watcher.reader.close()
    watcher.examine()
    (diagnosis,) = [d for d in watcher.diagnoses if d.run_type == "rl"]
    return diagnosis


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Diagnosis]:
    here = tmp_path_factory.mktemp("five")
    if TRACKIO:
        import_module("trackio.sqlite_storage")
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):  # each has its own copy of the environment
            if name.startswith("trackio") and hasattr(module, "TRACKIO_DIR"):
                patch.setattr(module, "TRACKIO_DIR", here / "trackio")
        patch.setenv("TENSORBOARD_LOGGING_DIR", str(here / "tensorboard"))
        console = io.StringIO()
        trainer = make_trainer(
            here / "out", max_steps=STEPS, rewards=constant, run_name="five",
            report_to=["tensorboard", "trackio"] if TRACKIO else ["tensorboard"],
        )  # fmt: skip
        attached = attach(trainer, out=here / "attached")
        callback = DoctorCallback(here / "callback")
        trainer.add_callback(callback)
        with contextlib.redirect_stdout(console):
            trainer.train()
    (here / "train.log").write_text(console.getvalue(), encoding="utf-8")
    (events,) = here.rglob("events.out.tfevents.*")  # where they lie depends on the version of transformers
    stores = [p for p in here.rglob("*.db") if "trackio" in str(p)]
    assert len(stores) == TRACKIO
    found = {
        "attach": attached.diagnosis(),
        "callback": callback.diagnosis(),
        "console": of_what_was_written(here / "train.log", here / "1"),
        "tensorboard": of_what_was_written(events.parent, here / "2"),
    }
    for store in stores:
        found["trackio"] = of_what_was_written(store, here / "3")
    return found


def test_the_diagnosis_is_the_same(five: dict[str, Diagnosis]) -> None:
    said = {name: (d.verdict, d.cause, d.last_step, d.steps) for name, d in five.items()}
    assert set(said.values()) == {("failing", said["attach"][1], STEPS, STEPS)}, said
    assert all(d.finding(DEAD) is not None for d in five.values())


def test_onsets_are_the_same(five: dict[str, Diagnosis]) -> None:
    found = {name: d.finding(DEAD) for name, d in five.items()}
    onsets = {name: None if f is None else (f.onset_step, f.severity, f.role) for name, f in found.items()}
    assert len(set(onsets.values())) == 1, onsets


def test_each_reports_what_it_could_not_see(five: dict[str, Diagnosis]) -> None:
    skipped = {name: {s["code"] for s in d.coverage.skipped} for name, d in five.items()}
    logits, masks = "SHP001", "PAD002"
    assert not {logits, masks} & skipped["attach"]
    for name in five.keys() - {"attach"}:
        assert {logits, masks} <= skipped[name], name


def test_the_commands_report_agrees(five: dict[str, Diagnosis], tmp_path: Path) -> None:
    source = Path(five["console"].source)
    result = CliRunner().invoke(app, ["watch", str(source), "--interval", "0.05", "--idle", "0.1"])
    assert result.exit_code == 1
    assert DEAD in result.stdout
    assert "FAILING" in result.stdout


@pytest.mark.skipif(not TRACKIO, reason="make test-hooks installs trackio 0.43")
def test_alerts_reach_the_tracker(five: dict[str, Any]) -> None:
    import sqlite3

    with sqlite3.connect(f"file:{five['trackio'].source}?mode=ro", uri=True) as store:
        titles = [title for (title,) in store.execute("select title from alerts")]
    assert any(DEAD in title for title in titles)


@pytest.mark.skipif(not TRACKIO, reason="make test-hooks installs trackio 0.43")
def test_a_finding_of_watch_is_an_alert_in_the_store(five: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    import trackio.sqlite_storage

    store = Path(five["trackio"].source)
    monkeypatch.setattr(trackio.sqlite_storage, "TRACKIO_DIR", store.parent)

    def alerts() -> list[tuple[str, str, str]]:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as held:
            return held.execute("select run_name, title, level from alerts order by id").fetchall()

    before = alerts()
    CliRunner().invoke(app, ["watch", str(store), "--interval", "0.05", "--idle", "0.1", "--notify", "trackio"])
    new = alerts()[len(before) :]
    assert {(run, level) for run, _, level in new} == {("five", "error")}
    assert any(DEAD in title for _, title, _ in new)
    monkeypatch.setattr(trackio.sqlite_storage, "TRACKIO_DIR", store.parent.parent)
    result = CliRunner().invoke(
        app, ["watch", str(store), "--interval", "0.05", "--idle", "0.1", "--notify", "trackio"]
    )
    assert "is not in the trackio folder" in result.output
