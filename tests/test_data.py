"""The logs of `tests.data`, which every checkout contains: their diagnosis, which is the same in every way of
reading."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.cli import app
from grpo_doctor.readers import read
from tests import aflow_log, metamorphic
from tests.compare.pairs import compared
from tests.data import ENGINE, MADE_FAILING, TRL
from tests.properties import disagreements

CAUSES = {
    "constant-reward": "REW001",
    "kl-dominates": "KL002",
    "lr-too-high": "CFG002",
    "nan-at-step": "GRD001",
    "stale-rollout-weights": "GEN002",
    "train-mode-generation": "GEN001",
    "truncation": "LEN003",
}
"""Faults that a log proves: the check that heads the report."""
SUSPECT = {"rank-advantages": "ADV005", "two-sample-groups": "ADV001"}
"""Faults with which the run still learns: the check that names them."""


def records(fault: str) -> list[dict[str, Any]]:
    with gzip.open(ENGINE[fault], "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def said_of(path: Path) -> Diagnosis:
    (run,) = read(path)
    return diagnose(run)


def rewards(path: Path) -> list[float]:
    (run,) = read(path)
    return [float(x) for x in run.columns["reward_mean"]]


@pytest.mark.parametrize("fault", CAUSES)
def test_a_fault_of_the_engine_is_recognised_by_its_log(fault: str) -> None:
    diagnosis = said_of(ENGINE[fault])
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", CAUSES[fault])


@pytest.mark.parametrize("run", MADE_FAILING)
@pytest.mark.parametrize("name", ["train.log", "trainer_state.json", "events.out.tfevents.0"])
def test_each_log_of_a_trl_run_shows_its_problem(run: str, name: str) -> None:
    diagnosis = said_of(TRL[run] / name)
    assert diagnosis.verdict in ("failing", "suspect")
    told = diagnosis.finding(MADE_FAILING[run])
    assert told is not None
    assert told.message.removesuffix(".") in diagnosis.headline


@pytest.mark.parametrize("fault", SUSPECT)
def test_a_fault_with_which_the_run_learns_is_a_warning(fault: str) -> None:
    diagnosis = said_of(ENGINE[fault])
    assert diagnosis.verdict == "suspect"
    assert [f.severity for f in diagnosis.findings if f.code == SUSPECT[fault]] == ["warning"]


@pytest.mark.parametrize("fault", ENGINE)
def test_rows_and_rewards_of_a_log_of_the_engine(fault: str) -> None:
    assert rewards(ENGINE[fault]) == [float(row["reward_mean"]) for row in records(fault)]


@pytest.mark.parametrize("fault", ENGINE)
def test_no_report_of_these_logs_denies_itself(fault: str) -> None:
    assert disagreements(said_of(ENGINE[fault])) == []


@pytest.mark.parametrize("fault", ["flipped-entropy", "rank-advantages"])
def test_metamorphic_changes_keep_the_diagnosis(fault: str, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    log.write_bytes(gzip.decompress(ENGINE[fault].read_bytes()))
    assert list(metamorphic.properties(log, tmp_path)) == []


def test_the_console_the_state_and_the_events_of_trl_hold_the_same_rewards() -> None:
    for folder in (TRL["learns"], TRL["never-pays"]):
        state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        wanted = [row["reward"] for row in state["log_history"] if "reward" in row]
        printed = re.findall(r"'reward': '?([^,']+)'?,", (folder / "train.log").read_text(encoding="utf-8"))
        assert len(wanted) >= 24
        assert rewards(folder / "trainer_state.json") == wanted
        assert rewards(folder / "train.log") == [float(x) for x in printed] == pytest.approx(wanted, rel=1e-3)
        assert rewards(folder / "events.out.tfevents.0") == [float(np.float32(x)) for x in wanted]


@pytest.mark.parametrize("name", ["train.log", "trainer_state.json", "events.out.tfevents.0"])
def test_logs_written_by_trl_get_the_same_verdict_in_every_form(name: str) -> None:
    learns, never = (said_of(TRL[run] / name) for run in ("learns", "never-pays"))
    assert (learns.verdict, learns.cause) == ("healthy", None)
    assert never.verdict == "failing"
    assert disagreements(learns) == disagreements(never) == []


def test_a_log_of_another_trainer_of_the_same_run_has_the_same_cause(tmp_path: Path) -> None:
    rows = [
        {
            "step": str(row["step"]), "n_groups": str(row["groups"]), "n_dsl": str(row["groups"] * row["group_size"]),
            "n_fallback": str(round(row["fallback_rate"] * row["groups"] * row["group_size"])),
            "zero_var_groups": str(row["zero_variance_groups"]), "mean_reward": str(row["reward_mean"]),
            "update": str(int(row["live_groups"] > 0)), "cache_warning": str(int(row["generation_training_mode"])),
        }
        for row in records("train-mode-generation")
    ]  # fmt: skip
    diagnosis = said_of(aflow_log.write(tmp_path / "console.log", rows))
    assert (diagnosis.verdict, diagnosis.cause) == ("failing", "GEN001")


def test_the_gate_lets_a_warning_pass_and_stops_a_collapse() -> None:
    for fault, code in (("two-sample-groups", 0), ("train-mode-generation", 1)):
        assert CliRunner().invoke(app, ["gate", str(ENGINE[fault])]).exit_code == code


def test_a_run_without_any_reward_is_worse() -> None:
    base, new = (read(ENGINE[fault])[0] for fault in ("two-sample-groups", "constant-reward"))
    assert compared(base, new).verdict == "worse"
