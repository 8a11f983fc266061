"""Advisories in the diagnosis of a configuration and of a log, and before the first step of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.advisories import in_logs
from grpo_doctor.agents import answers
from grpo_doctor.cli.analyze import diagnose_paths
from grpo_doctor.config import Config
from grpo_doctor.diagnosis.verdict import Diagnosis
from grpo_doctor.fleet import locations, unit
from grpo_doctor.preflight import live_objects, words_before
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read
from grpo_doctor.run import RunBuilder
from tests.corpus_path import SHARED, needs

SCRIPT = """# {pin}
from trl import GRPOConfig
args = GRPOConfig(output_dir="out", learning_rate=1e-6, num_generations=8, per_device_train_batch_size=8,
    temperature=0.6, use_vllm=True, vllm_mode="colocate", beta=0.0)
"""


def settled(path: Path, pin: str) -> Diagnosis:
    path.write_text(SCRIPT.format(pin=pin), encoding="utf-8")
    return judge(read(path)[0], str(path))


def analyzed(path: Path, head: str, gap: float, **settings: Any) -> Diagnosis:
    """The diagnosis of a console log of TRL whose trainer and engine differ by ``gap`` nats per token."""
    row = {"loss": 0.01, "reward": 0.3, "sampling/sampling_logp_difference/mean": gap, "learning_rate": 1e-6}
    rows = [str(row | {"reward": 0.3 + step % 7 / 100, "epoch": step / 40}) for step in range(1, 41)]
    path.write_text("\n".join([head, *rows]), encoding="utf-8")
    (diagnosis,) = diagnose_paths([path], Config(settings=settings)).diagnoses
    return diagnosis


def test_a_pinned_version_with_a_known_bug_is_a_finding(tmp_path: Path) -> None:
    diagnosis = settled(tmp_path / "train.py", "trl==0.23.1")
    finding = diagnosis.finding("CFG039")
    assert finding is not None
    assert finding.severity == "warning"
    assert finding.message.startswith("RLA-2026-001 (trl 0.23.1): the vLLM importance correction")
    assert finding.remedies[0].title.startswith("Upgrade to TRL 0.24.0")
    assert [table.rows[0][0] for table in diagnosis.tables if table.title.startswith("Known bugs")] == ["RLA-2026-001"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", 'version = 1\n\n[[package]]\nname = "trl"\nversion = "0.23.1"\nsource = { registry = "x" }\n'),
        ("poetry.lock", '[[package]]\nname = "trl"\nversion = "0.23.1"\noptional = false\n'),
        ("pdm.lock", '[[package]]\nname = "trl"\nversion = "0.23.1"\nrequires_python = ">=3.9"\n'),
        ("pylock.toml", 'lock-version = "1.0"\n[[packages]]\nname = "trl"\nversion = "0.23.1"\n'),
        ("requirements-train.txt", "torch\ntrl==0.23.1\n"),
        ("Dockerfile", "FROM lab/train:torch2.8-trl0.23.1-vllm0.10.2\n"),
    ],
)
def test_reads_the_version_from_a_file_next_to_the_configuration(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    finding = settled(tmp_path / "train.py", "trl").finding("CFG039")
    assert finding is not None
    assert "RLA-2026-001 (trl 0.23.1)" in finding.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.lock", '[[package]]\nname = "trl-extras"\nversion = "0.23.1"\n'),
        (
            "poetry.lock",
            '[[package]]\nname = "trl"\nversion = "0.23.1"\n[[package]]\nname = "trl"\nversion = "0.24.0"\n',
        ),
        ("Dockerfile", "FROM lab/trl-base:2.4.1\n"),
    ],
)
def test_knows_no_version_that_a_file_does_not_pin(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert settled(tmp_path / "train.py", "trl").finding("CFG039") is None


def test_a_tag_in_the_address_of_a_repository_is_a_version(tmp_path: Path) -> None:
    pin = "pip install git+https://github.com/huggingface/trl.git@v0.23.0"
    assert settled(tmp_path / "train.py", pin).finding("CFG039") is not None


def test_without_a_version_one_line_names_the_affected_ones(tmp_path: Path) -> None:
    diagnosis = settled(tmp_path / "train.py", "trl")
    assert diagnosis.finding("CFG039") is None
    assert sum("the version of trl is not known: RLA-2026-001 affects" in note for note in diagnosis.notes) == 1


def test_the_version_of_another_trainer_does_not_count(tmp_path: Path) -> None:
    diagnosis = settled(tmp_path / "train.py", "openrlhf==0.7.1 trl==1.16.0")
    assert diagnosis.finding("CFG039") is None


def test_a_version_and_a_signature_in_a_log_are_a_finding(tmp_path: Path) -> None:
    diagnosis = analyzed(tmp_path / "run.log", "trl==0.23.1", 0.4, use_vllm=True, temperature=0.6)
    finding = diagnosis.finding("CFG039")
    assert finding is not None
    assert "RLA-2026-001 (trl 0.23.1; the log shows it)" in finding.message
    assert finding.severity == "warning"


def test_fleets_and_agents_report_the_advisories_of_a_log(tmp_path: Path) -> None:
    analyzed(path := tmp_path / "run.log", "trl==0.23.1", 0.3)
    (run,) = answers.analyze(str(path))["runs"]
    assert "RLA-2026-001" in str(run)
    judged = unit.judge(locations.find([str(path)]).units[0], unit.Job(Config()))
    assert "CFG039" in [finding.code for finding in judged.lines[0].findings]


def test_a_bug_is_likely_where_the_log_shows_it_and_a_setting_is_not_known(tmp_path: Path) -> None:
    finding = analyzed(tmp_path / "run.log", "trl==1.5.0", 0.4, use_vllm=True).finding("CFG039")
    assert finding is not None
    assert "likely: sleep_mode == true is not known" in finding.message
    assert finding.severity == "warning"


def test_a_log_that_shows_no_signature_rules_the_bug_out(tmp_path: Path) -> None:
    diagnosis = analyzed(tmp_path / "run.log", "trl==0.23.1", 0.001, use_vllm=True, temperature=0.6)
    assert diagnosis.finding("CFG039") is None
    assert not any("RLA-2026-001" in note for note in diagnosis.notes)


def test_reads_versions_from_the_packages_of_a_wandb_run(tmp_path: Path) -> None:
    files = tmp_path / "run-1" / "files"
    files.mkdir(parents=True)
    (files / "requirements.txt").write_text("vllm==0.20.1\ntrl==0.23.1\n", encoding="utf-8")
    builder = RunBuilder("run", "trl-console")
    builder.run.settings = {"use_vllm": True, "temperature": 0.6}
    run = builder.finish()
    run.path = files / "output.log"
    run.path.write_text("", encoding="utf-8")
    assert "RLA-2026-001" in [match.advisory.id for match in in_logs.known_bugs(run, "trl")]
    assert {match.advisory.package for match in in_logs.known_bugs(run, "verl")} == {"vllm"}


def test_installed_versions_are_one_line_each_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_objects, "installed", lambda: {"trl": "0.22.0", "verl": "0.4.0"})
    settings = {
        "num_generations": 8,
        "per_device_train_batch_size": 8,
        "max_completion_length": 256,
        "temperature": 0.9,
    }
    lines = [line for line in words_before(settings | {"reward_funcs": "a"}) if line.startswith("versions: ")]
    assert [line[:40] for line in lines] == ["versions: RLA-2026-008 (trl 0.22.0): the"]


@needs(SHARED / "configs")
def test_no_public_configuration_has_an_advisory_at_error() -> None:
    found = []
    for path in sorted((SHARED / "configs").rglob("*")):
        if path.suffix in (".yaml", ".yml", ".py", ".sh", ".ipynb", ".toml"):
            found += [judge(one, str(path)).finding("CFG039") for one in read(path)]
    assert found
    assert [finding for finding in found if finding is not None and finding.severity == "error"] == []
