"""Views of one run: a copy counts once, and a run that diverges from another one is judged separately."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.readers import survey, views
from grpo_doctor.readers.views import distinct
from grpo_doctor.run import Run

Row = dict[str, Any]


def rows(count: int = 200) -> list[Row]:
    rng = np.random.default_rng(0)
    return [
        {
            "step": step,
            "reward": round(0.3 + 0.002 * step + 0.02 * float(rng.standard_normal()), 4),
            "loss": round(0.1 + 0.02 * float(rng.standard_normal()), 5),
            "kl": round(0.01 + 0.0001 * step, 5),
        }
        for step in range(1, count + 1)
    ]


def put(folder: Path, name: str, told: list[Row]) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "log.jsonl").write_text("\n".join(map(json.dumps, told)) + "\n", encoding="utf-8")


COLLAPSED = {"reward": 0.0, "kl": 900.0}


@pytest.mark.parametrize("command", ["gate", "analyze", "fleet"])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda told: told[:190] + [row | COLLAPSED for row in told[190:]], id="same steps"),
        pytest.param(
            lambda told: told[:190] + [row | COLLAPSED | {"step": row["step"] + 10} for row in told[190:]], id="goes on"
        ),
        pytest.param(
            lambda told: (
                [{key: row[key] for key in ("step", "reward", "kl")} for row in told[:190]]
                + [{"step": row["step"]} | COLLAPSED for row in told[190:]]
            ),
            id="fewer columns",
        ),
    ],
)
def test_a_copy_of_a_healthy_run_that_collapses_at_its_end_is_judged(tmp_path: Path, command: str, other: Any) -> None:
    told = rows()
    put(tmp_path, "a", told)
    put(tmp_path, "b", other(told))
    result = CliRunner().invoke(app, [command, str(tmp_path)])
    assert result.exit_code == 1, result.output
    assert "2 files: 2 logs" in result.stderr


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        pytest.param((), 1, id="none"),
        pytest.param((7, 60, 120), 1, id="single rows"),
        pytest.param((60, 61, 62), 2, id="a block"),
        pytest.param((199,), 2, id="the last row"),
        pytest.param(range(0, 200, 10), 2, id="one in ten"),
    ],
)
def test_rows_that_differ_in_a_block_or_at_the_end_make_two_runs(tmp_path: Path, changed: Any, runs: int) -> None:
    told = rows()
    put(tmp_path, "a", told)
    put(tmp_path, "b", [row | ({"reward": 9.0} if i in changed else {}) for i, row in enumerate(told)])
    assert len(survey(tmp_path).runs) == runs


def test_an_earlier_part_of_a_run_and_a_thinner_view_are_not_counted_again(tmp_path: Path) -> None:
    told = rows()
    put(tmp_path, "a", told)
    put(tmp_path, "checkpoint-100", told[:100])
    put(tmp_path, "every-ten", [{"step": row["step"], "reward": row["reward"]} for row in told[9::10]])
    (run,) = survey(tmp_path).runs
    assert len(run) == 200


@pytest.mark.parametrize("command", ["gate", "analyze", "fleet"])
def test_a_column_that_only_a_view_holds_is_judged(tmp_path: Path, command: str) -> None:
    told = rows()
    put(tmp_path, "a", told)
    broken = [{key: row[key] for key in ("step", "reward", "loss")} for row in told]
    put(tmp_path, "b", [row | {"grad_norm": 0.5 if row["step"] < 150 else float("nan")} for row in broken])
    result = CliRunner().invoke(app, [command, str(tmp_path)])
    assert result.exit_code == 1, result.output
    assert "GRD001" in result.stdout


def test_runs_with_noise_are_almost_never_compared_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    monkeypatch.setattr(views, "same_run", lambda one, other: compared.append(1))
    runs = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        run = Run(f"{seed}/log.jsonl")
        run.steps = np.arange(1, 101)
        run.columns = {name: 0.5 + 0.1 * rng.standard_normal(100) for name in ("reward_mean", "loss", "grad_norm")}
        runs.append(run)
    assert len(distinct(runs)[0]) == 400
    assert len(compared) < 400, "each with each would be 79,800"
