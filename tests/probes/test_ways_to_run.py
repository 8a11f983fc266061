"""Every way to run probes: a transformers model, TRL from a config file, the engine before it trains, a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from grpo_doctor.cli import app
from grpo_doctor.probes import Adapter, AdapterError, run_probes, transformers_adapter
from tests.probes.open_notes import open_notes
from tests.probes.reference import PROMPTS, Reference, make_model, make_tokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and its tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_transformers_model_is_proven_fit_for_rl(saved: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
    reference = transformers.AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32)
    diagnosis = run_probes(transformers_adapter(model.eval(), tokenizer, reference=reference, prompts=PROMPTS))
    assert [f"{f.code}: {f.message}" for f in diagnosis.findings] == []
    assert (diagnosis.verdict, open_notes(diagnosis)) == ("healthy", [])
    assert {"TOK001", "TOK004", "GEN001", "GEN004", "GEN007", "KL006", "PAD004"} <= set(diagnosis.coverage.passed_codes)


def test_a_transformers_model_that_samples_through_a_filter() -> None:
    tokenizer = make_tokenizer()
    diagnosis = run_probes(transformers_adapter(make_model(tokenizer), tokenizer, prompts=PROMPTS, top_k=3))
    assert [f.code for f in diagnosis.findings] == ["GEN004"]


def test_a_tokenizer_without_a_template_needs_an_adapter_of_ones_own() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(AdapterError, match="no chat template"):
        transformers_adapter(make_model(tokenizer), tokenizer)


@pytest.mark.parametrize(("coefficient", "code"), [(0.01, 0), (-1.0, 1)])
def test_trl_from_a_file_of_arguments_and_a_model(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coefficient: float, code: int
) -> None:
    pytest.importorskip("trl")
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "grpo_config.json"
    values = {"output_dir": str(tmp_path / "out"), "num_generations": 2, "per_device_train_batch_size": 4}
    values |= {"max_completion_length": 8, "bf16": False, "entropy_coef": coefficient, "gradient_checkpointing": False}
    config.write_text(json.dumps(values), encoding="utf-8")
    words = [
        "probe",
        str(config),
        "--trl",
        str(saved),
        "--no-color",
        "-f",
        "json",
        "--select",
        "PAD001",
        "--select",
        "ENT006",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    (found,) = json.loads(result.stdout[result.stdout.index("{") :])["runs"]
    assert found["cause"] == ("ENT006" if code else None)
    assert [p.name for p in tmp_path.iterdir()] == ["grpo_config.json"]  # neither output_dir nor anything next to it


def test_an_unknown_trl_argument_is_reported_with_the_nearest_name(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    config = tmp_path / "grpo_config.json"
    config.write_text('{"num_generation": 4}', encoding="utf-8")
    result = CliRunner().invoke(app, ["probe", str(config), "--trl", str(saved)])
    assert result.exit_code == 2
    assert "no argument 'num_generation'; 'num_generations'?" in " ".join(result.output.split())


def test_a_trl_config_that_is_not_a_table_is_exit_code_2(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    config = tmp_path / "grpo_config.json"
    config.write_text("[1]", encoding="utf-8")
    result = CliRunner().invoke(app, ["probe", str(config), "--trl", str(saved)])
    assert result.exit_code == 2
    assert "not a table of GRPOConfig arguments" in result.output


def test_a_device_moves_every_model_and_one_that_is_not_there_is_reported() -> None:
    trainer = Reference()
    assert run_probes(trainer.adapter("render", "mask"), device="cpu").verdict == "healthy"
    assert next(trainer.model.parameters()).device.type == "cpu"
    with pytest.raises(AdapterError, match="device nowhere: "):
        run_probes(Adapter(model=trainer.model), device="nowhere")


SMALL = ("model=embedded-small", "generation_batch_size=16", "num_generations=4", "max_completion_length=12")


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "code"), [(None, 0), ("mask-assumes-right-padding", 1)])
def test_run_proves_its_own_plumbing_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--probe", "--steps", "1", *(part for value in SMALL for part in ("--set", value))]
    arguments += ["--inject", fault] if fault else []
    result = CliRunner().invoke(app, ["run", *arguments])
    if fault is None:
        assert "probes: 30 of 31 passed" in result.stdout, result.stdout + result.stderr
        assert list(tmp_path.glob("runs/*/records.jsonl"))
    else:
        assert result.exit_code == code, result.stdout + result.stderr
        assert "PAD002" in result.stdout
        assert not list(tmp_path.glob("runs/*/records.jsonl"))
