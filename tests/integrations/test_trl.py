"""``attach`` on a real GRPOTrainer: it sees every step, changes none, and acts before the weights change."""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("trl.trainer.grpo_trainer", reason="the extra trl is not installed")

from grpo_doctor import attach
from grpo_doctor.cli import app
from grpo_doctor.config import ConfigError
from grpo_doctor.integrations.trl_record import merged
from grpo_doctor.record import StepRecord, read_records
from tests.integrations.tiny_trl import constant, make_trainer, poisoned, save_model

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def history(trainer: Any) -> list[dict[str, Any]]:
    """Return the logged metrics without times and alerts."""
    return [
        {k: v for k, v in row.items() if not re.search("time|per_second|grpo_doctor", k)}
        for row in trainer.state.log_history
    ]


def records(out: Path) -> list[StepRecord]:
    return list(read_records(out / "records.jsonl"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"lora": True, "gradient_accumulation_steps": 2, "beta": 0.02}, id="lora, accumulation, KL"),
    ],
)
def test_training_is_the_same_to_every_digit(tmp_path: Path, changes: dict[str, Any]) -> None:
    alone = make_trainer(tmp_path / "alone", max_steps=6, **changes)
    alone.train()
    watched = make_trainer(tmp_path / "watched", max_steps=6, **changes)
    attach(watched, out=tmp_path / "run", on_finding=lambda finding, action: None)
    watched.train()
    assert history(watched) == history(alone)
    written = records(tmp_path / "run")
    assert [r.step for r in written] == list(range(1, 7))
    logged = {row["step"]: row for row in alone.state.log_history if "grad_norm" in row}
    for record in written:
        row = logged[record.step]
        assert record.grad_norm == pytest.approx(row["grad_norm"], rel=1e-5)
        assert record.reward_mean == pytest.approx(row["reward"], rel=1e-5)
        assert record.response_length_mean == pytest.approx(row["completions/mean_length"])
        assert record.truncated_rate == pytest.approx(row["completions/clipped_ratio"])
        assert record.entropy_mean == pytest.approx(row["entropy"], rel=1e-5)
        assert record.learning_rate == pytest.approx(row["learning_rate"], rel=0.1)
        groups = record.groups or 0
        assert (record.zero_variance_groups or 0) / groups == pytest.approx(row["frac_reward_zero_std"])
        assert record.generation_checkpointing is False
        assert record.update_applied is True
    if changes:
        assert written[-1].kl == pytest.approx(logged[6]["kl"], rel=1e-5)
        assert written[0].groups == 4, "two micro-batches of two groups are one step of four"


def test_a_nan_is_reported_before_the_update_and_stop_keeps_the_weights(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=6)
    poisoned(trainer, 3)
    found: list[str] = []
    attached = attach(trainer, out=tmp_path / "run", on="error=stop", on_finding=lambda f, a: found.append(f.code + a))
    trainer.train()
    assert trainer.state.global_step == 3
    assert "GRD001stop" in found
    assert all(bool(p.isfinite().all()) for p in trainer.model.parameters())
    last = records(tmp_path / "run")[-1]
    assert (last.step, last.update_applied) == (3, False)
    assert math.isnan(last.grad_norm or 0.0)
    assert last.update_skipped_reason == "the gradient is NaN"
    finding = attached.diagnosis().finding("GRD001")
    assert attached.diagnosis().cause == "GRD001"
    assert finding is not None
    assert finding.message.startswith("grad_norm and loss have been NaN on 1 step")
    assert (tmp_path / "run" / "report.md").read_text(encoding="utf-8").startswith("#")
    logged = [row["loss"] for row in trainer.state.log_history if row.get("step") == 3 and "loss" in row]
    assert not any(math.isnan(float(loss)) for loss in logged), "TRL prints a NaN loss as a number"


def test_a_gradient_that_no_norm_was_taken_of_is_looked_at(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=2)
    seams = attach(trainer, out=tmp_path / "run").seams
    weight = trainer.model.get_input_embeddings().weight
    weight.grad = torch.zeros_like(weight)
    seams.before_update(None)
    assert seams.local.not_finite is None
    weight.grad[-1, -1] = math.inf
    seams.before_update(None)
    assert seams.local.not_finite == "infinite"
    assert [e.message for e in merged([seams.local], 1, {}).events or ()] == ["the gradient is infinite"]


def test_skipping_an_update_moves_no_weight(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=4)
    poisoned(trainer, 2)
    attach(trainer, out=tmp_path / "run", on="critical=skip-update", on_finding=lambda f, a: None)
    trainer.train()
    moved = {r.step: (r.weight_delta, r.update_applied) for r in records(tmp_path / "run")}
    assert moved[2] == (0.0, False)
    assert max(moved[step][0] or 0.0 for step in (1, 3, 4)) > 0
    assert trainer.state.global_step == 4


def test_rollback_goes_back_to_a_checkpoint_that_trl_saved(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=6, save_strategy="steps", save_steps=1)
    poisoned(trainer, 4)
    attached = attach(trainer, out=tmp_path / "run", on="critical=rollback", on_finding=lambda f, a: None)
    trainer.train()
    assert attached.stopped is not None
    assert attached.stopped.why.endswith("rolled back to the checkpoint of step 3")
    assert trainer.state.global_step == 4


def test_all_cut_and_masked_is_not_an_entropy_collapse(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=10, max_completion_length=2, mask_truncated_completions=True)
    attached = attach(trainer, out=tmp_path / "run", on_finding=lambda f, a: None)
    trainer.train()
    all_cut = [r for r in records(tmp_path / "run") if r.truncated_rate == 1]
    assert len(all_cut) >= 5
    assert {r.entropy_mean for r in all_cut} == {None}
    codes = {f.code for f in attached.diagnosis().findings}
    assert not {"ENT001", "SHP001"} & codes
    assert "LEN003" in codes


def test_rows_without_a_rollout_are_unknown_and_not_zero(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=6, num_iterations=2)
    attach(trainer, out=tmp_path / "run", on_finding=lambda f, a: None)
    trainer.train()
    known = [r.reward_mean is not None for r in records(tmp_path / "run")]
    assert known == [True, False] * 3
    assert all(r.response_length_mean is None for r in records(tmp_path / "run")[1::2])
    fresh, stale = records(tmp_path / "run")[::2], records(tmp_path / "run")[1::2]
    assert [r.ratio_first_minibatch for r in fresh] == pytest.approx([0.0] * 3, abs=1e-4)
    assert {r.ratio_first_minibatch for r in stale} == {None}
    assert max(r.ratio_max or 0.0 for r in stale) > 1.01, "the policy has moved since the rollout"
    declared = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    given = [declared[f"{name}_logprobs"] for name in ("old", "reference", "sampling")]
    assert given == [True, False, False]


def test_a_sharded_head_is_skipped_and_reported(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=2)
    attached = attach(trainer, out=tmp_path / "run", on_finding=lambda f, a: None)
    trainer.model.lm_head.weight.ds_id = 0  # ZeRO-3 marks the parameters that it has taken apart
    trainer.train()
    del trainer.model.lm_head.weight.ds_id
    assert {r.logit_max for r in records(tmp_path / "run")} == {None}
    assert all(r.entropy_mean is not None for r in records(tmp_path / "run")), "TRL's own is exact"
    assert any("the output head is sharded" in note for note in attached.diagnosis().notes)
    assert "the output head is sharded" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("normalised", [False, True])
def test_an_rloo_trainer_is_not_held_to_what_only_groups_of_grpo_obey(tmp_path: Path, normalised: bool) -> None:
    def wide(completions: list[Any], **_: Any) -> list[float]:
        return [10.0 * (len(c[0]["content"]) % 3) for c in completions]

    trainer = make_trainer(tmp_path / "out", kind="RLOO", rewards=wide, normalize_advantages=normalised, max_steps=4)
    attached = attach(trainer, out=tmp_path / "run", on_finding=lambda f, a: None)
    trainer.train()
    assert attached.settings["normaliser"] == ("batch" if normalised else "none")
    most = max(r.advantage_max or 0.0 for r in records(tmp_path / "run"))
    assert normalised or most > 1.5, "beyond what a group of four can give"
    assert "ADV007" not in {f.code for f in attached.diagnosis().findings}


def test_a_trainer_without_groups_is_refused_with_what_watches_it(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    from grpo_doctor.engine.tiny import make_model

    trainer = Trainer(make_model(0), TrainingArguments(str(tmp_path), report_to="none", use_cpu=True))
    with pytest.raises(
        ConfigError, match=r"not Trainer; for other trainers use trainer\.add_callback\(DoctorCallback\(\)\)"
    ):
        attach(trainer, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="attach needs a TRL GRPOTrainer or RLOOTrainer, not object"):
        attach(object(), out=tmp_path / "run")


def test_a_finding_about_settings_is_printed_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=2)
    attach(trainer, out=tmp_path / "run")
    trainer.train()
    lines = [line for line in capfd.readouterr().err.splitlines() if "CFG026" in line]
    assert len(lines) == 1
    assert lines[0].startswith("grpo-doctor: settings: CFG026 ")


def test_a_constant_reward_gives_no_signal(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "out", max_steps=12, rewards=constant)
    attached = attach(trainer, out=tmp_path / "run", on_finding=lambda f, a: None)
    trainer.train()
    written = records(tmp_path / "run")
    assert {r.live_groups for r in written} == {0}
    assert "ADV003" in {f.code for f in attached.diagnosis().findings}
    verdicts = [row["grpo_doctor/verdict"] for row in trainer.state.log_history if "grpo_doctor/verdict" in row]
    assert len(verdicts) == 12, "one in each logged row"
    assert verdicts[0] < verdicts[-1] == attached.diagnosis().worst


def test_run_trains_with_trl(tmp_path: Path) -> None:
    words = [
        "run",
        "--engine",
        "trl",
        "--steps",
        "3",
        "--out",
        str(tmp_path / "run"),
        "--set",
        "generation_batch_size=8",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 3), done.output
    written = records(tmp_path / "run")
    assert [r.step for r in written] == [1, 2, 3]
    assert all(r.valid_rate is not None for r in written)
    assert json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["framework"] == "trl"


def test_the_script_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.trainer.grpo_config import GRPOConfig

    section = (ROOT / "docs" / "frameworks" / "trl.md").read_text(encoding="utf-8")
    script = section.split("```python\n")[1].split("```")[0]
    assert len([line for line in script.splitlines() if line.strip()]) <= 15
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trl.GRPOConfig", functools.partial(GRPOConfig, use_cpu=True, bf16=False))
    save_model(tmp_path / "models" / "policy")
    turns = [{"prompt": [{"role": "user", "content": "custom"}]}] * 2
    Path("prompts.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    exec(compile(script, "trl.md", "exec"), {"__name__": "__main__"})
    assert len(records(tmp_path / "runs" / "policy")) == 6, "three epochs of two prompts"
    assert (tmp_path / "runs" / "policy" / "report.html").exists()
