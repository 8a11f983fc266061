"""The command: which runs are BASE and NEW, exit codes, formats, and `gate --against`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from grpo_doctor.cli import app
from grpo_doctor.record import RecordWriter
from grpo_doctor.run import Run
from tests.cli.runs import write_run
from tests.compare.pairs import reward, run


def grpo_doctor(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def written(folder: Path, made: Run) -> Path:
    """A folder as written by `grpo-doctor run`."""
    folder.mkdir(parents=True)
    with RecordWriter(folder / "records.jsonl") as writer:
        for record in made.records():
            writer.write(record)
    (folder / "config.json").write_text(json.dumps(made.settings), encoding="utf-8")
    return folder


@pytest.fixture
def seeds(tmp_path: Path) -> dict[str, Path]:
    """Two seeds of one setting, and two of another that is worse."""
    return {
        f"{name}{seed}": written(
            tmp_path / f"{name}{seed}",
            run({"learning_rate": rate, "seed": seed}, reward_mean=reward(10 * seed + len(name), gain=gain)),
        )
        for name, rate, gain in (("base", 1e-5, 0.6), ("other", 2e-5, 0.0))
        for seed in range(2)
    }


def told(*words: object) -> list[dict[str, Any]]:
    result = grpo_doctor("compare", *words, "-f", "json")
    found: list[dict[str, Any]] = json.loads(result.stdout)["comparisons"]
    return found


def test_exit_codes(tmp_path: Path, seeds: dict[str, Path]) -> None:
    assert grpo_doctor("compare", seeds["base0"], seeds["base1"]).exit_code == 0
    assert grpo_doctor("compare", seeds["base0"], seeds["other0"]).exit_code == 1
    assert grpo_doctor("compare", seeds["other0"], seeds["base0"]).exit_code == 0
    assert grpo_doctor("compare", seeds["base0"], tmp_path / "absent").exit_code == 2
    result = grpo_doctor("compare", seeds["base0"])
    assert result.exit_code == 2
    assert "contains only one setting; name a second run to compare" in result.output
    (tmp_path / "none.log").write_text("nothing here\n")
    result = grpo_doctor("compare", seeds["base0"], tmp_path / "none.log")
    assert result.exit_code == 3
    assert "Cannot compare, because no training metrics were found in" in result.output


def test_a_new_finding_at_fail_on_fails_if_success_is_not_worse(tmp_path: Path) -> None:
    good, bad = write_run(tmp_path / "good.jsonl", collapsed=False), write_run(tmp_path / "bad.jsonl", collapsed=True)
    assert grpo_doctor("compare", good, bad, "--fail-on", "critical").exit_code == 1
    assert grpo_doctor("compare", bad, bad).exit_code == 0


def test_runs_of_equal_settings_are_seeds_of_one(seeds: dict[str, Path]) -> None:
    (found,) = told(seeds["base0"], seeds["other0"], seeds["other1"], "--base", seeds["base1"])
    assert [len(found[side]["runs"]) for side in ("base", "new")] == [2, 2]
    assert (found["verdict"], found["single_seed"]) == ("worse", False)
    assert [s["name"] for s in found["settings"]] == ["learning_rate"]


def test_one_file_of_several_runs_is_compared_with_its_first(tmp_path: Path) -> None:
    betas = {"a": 0.1, "b": 0.2, "c": 0.3}
    rows = [f"{name},{epoch},{0.1 * epoch},{beta}" for name, beta in betas.items() for epoch in (1, 2, 3)]
    path = tmp_path / "epochs.csv"
    path.write_text("\n".join(["run,epoch,adv_std,kl_beta", *rows]) + "\n", encoding="utf-8")
    found = [(c["base"]["name"], c["new"]["name"]) for c in told(path)]
    assert found == [(f"{path} (a)", f"{path} (b)"), (f"{path} (a)", f"{path} (c)")]
    (one,) = told(f"{path}#c", f"{path}#2")
    assert (one["base"]["name"], one["new"]["name"]) == (f"{path} (c)", f"{path} (b)")
    result = grpo_doctor("compare", path, f"{path}#2")
    assert result.exit_code == 2
    assert f"contains 3 settings ({path} (a), {path} (b), {path} (c)); name one file, or one run" in result.output
    result = grpo_doctor("compare", f"{path}#c", f"{path}#d")
    assert result.exit_code == 2
    assert "contains no run 'd'; its runs: a, b, c" in result.output


def test_logs_that_declare_nothing_are_compared_one_by_one(tmp_path: Path) -> None:
    logs = [write_run(tmp_path / f"{name}.jsonl", collapsed=False) for name in "abc"]
    assert len(told(*logs)) == 2


def test_reports_and_a_checkpoint_that_is_none(tmp_path: Path, seeds: dict[str, Path]) -> None:
    pair = (seeds["base0"], seeds["other0"])
    out = tmp_path / "out"
    result = grpo_doctor("compare", *pair, "--report", f"html={out}/c.html", "--report", f"junit={out}/c.xml")
    assert result.exit_code == 1
    assert {path.name for path in out.iterdir()} == {"c.html", "c.xml"}
    result = grpo_doctor("compare", *pair, "--weights", tmp_path / "a", tmp_path / "b")
    assert result.exit_code == 2
    assert "No such file" in result.output


def test_the_gate_holds_a_run_against_another(tmp_path: Path, seeds: dict[str, Path]) -> None:
    same = grpo_doctor("gate", seeds["base1"], "--against", seeds["base0"])
    assert same.exit_code == 0
    assert "records.jsonl: no difference" in same.stdout
    worse = grpo_doctor("gate", seeds["other0"], "--against", seeds["base0"])
    assert worse.exit_code == 1
    assert "FAIL" in worse.stdout
    assert "CMP001 run-comparison" in worse.stdout
    bad = write_run(tmp_path / "bad.jsonl", collapsed=True)
    assert grpo_doctor("gate", bad).exit_code == 1
    assert grpo_doctor("gate", bad, "--against", bad).exit_code == 0
    assert grpo_doctor("gate", seeds["base0"], "--against", tmp_path / "absent").exit_code == 2
    assert grpo_doctor("gate", seeds["base0"], "--against", tmp_path).exit_code == 2
    (tmp_path / "none.log").write_text("nothing here\n")
    assert grpo_doctor("gate", seeds["base0"], "--against", tmp_path / "none.log").exit_code == 3
