"""Framework and kind of training by evidence: one case for each kind of file that was once misread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.preflight.configuration import Configuration
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read
from tests.corpus_path import SHARED, needs

CASES = SHARED / "cases" / "settings"
needs_cases = needs(CASES)


def only(folder: Path, name: str, text: str) -> Configuration:
    (path := folder / name).write_text(text, encoding="utf-8")
    (found,) = read(path)
    return found


FAILED: list[tuple[str, str, str, str, dict[str, Any]]] = [
    (
        "a.py",
        "from trl import GRPOConfig\nBASE = 'unsloth/Qwen3-4B'\nGRPOConfig(num_generations=8)\n",
        "TRL",
        "rl",
        {"group_size": 8},
    ),
    (
        "orch.toml",
        "batch_size = 128\ngroup_size = 16\n[model]\nname = 'a/b'\n[train.sampling]\nmax_completion_tokens = 128\n"
        "[[train.env]]\nname = 'x'\n",
        "prime-rl",
        "rl",
        {"group_size": 16, "max_new_tokens": 128, "minibatches": 1},
    ),
    (
        "orch.toml",
        "batch_size = 1024\nrollouts_per_prompt = 16\n[environment]\nid = 'x'\n[sampling]\nmax_tokens = 832\n",
        "prime-rl",
        "rl",
        {"group_size": 16, "max_new_tokens": 832},
    ),
    (
        "train.toml",
        "[monitor.wandb]\nproject = 'x'\n[model]\nname = 'a/b'\n[model.ac]\nfreq = 1\n[optim]\nlr = 1e-6\n"
        "max_norm = 0.1\n",
        "prime-rl",
        "rl",
        {"learning_rate": 1e-6, "max_grad_norm": 0.1},
    ),
    (
        "a.sh",
        "deepspeed --module openrlhf.cli.train_dpo --pretrain a/b --learning_rate 5e-7 --beta 0.1\n",
        "OpenRLHF preference training",
        "preference",
        {"learning_rate": 5e-7, "dpo_beta": 0.1},
    ),
    (
        "a.yaml",
        "base_model: a/b-7B\nrl: grpo\ntrl: {beta: 0.0, num_generations: 8}\nmicro_batch_size: 1\n",
        "axolotl",
        "rl",
        {"group_size": 8, "per_device_train_batch_size": 1},
    ),
    (
        "a.yaml",
        "grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 6}\npolicy: {max_total_sequence_length: 4096}\n",
        "NeMo-RL",
        "rl",
        {"group_size": 6, "rollout_prompts": 2},
    ),
    (
        "a.sh",
        "python -m my.train actor.optimizer.lr=5e-6 gconfig.n_samples=8 train_dataset.batch_size=132\n",
        "AReaL",
        "rl",
        {"group_size": 8, "rollout_prompts": 132, "learning_rate": 5e-6},
    ),
    (
        "a.py",
        "c = GRPOConfig(gamma=0.99, lambda_gae=0.95, learning_rate=1e-6, kl_coef=0.1, num_epochs=2)\n",
        "hand-written trainer",
        "rl",
        {"learning_rate": 1e-6, "group_size": None, "epsilon": None, "unknown_settings": None},
    ),
    (
        "a.py",
        "from trl import GRPOConfig\nc = GRPOConfig(gamma=0.99, lambda_gae=0.95, learning_rate=1e-6, kl_coef=0.1)\n",
        "TRL",
        "rl",
        {"group_size": 8, "unknown_settings": "gamma, lambda_gae, kl_coef"},
    ),
    (
        "a.yaml",
        "grpo: {lr: 1.0e-6, num_trajectories: 16, clip_ratio: 0.2, rollout_temperature: 1.3}\npolicy: {temperature: 0.8}\n",
        "hand-written trainer",
        "rl",
        {"temperature": 1.3, "group_size": 16},
    ),
    (
        "a.py",
        "@dataclass\nclass GRPOConfig:\n    group_size: int = 8\n    lr: float = 1e-6\n"
        "def main(group_size: int = typer.Option(1)):\n    train(GRPOConfig(group_size=group_size))\n",
        "hand-written trainer",
        "rl",
        {"group_size": 1, "learning_rate": 1e-6},
    ),
    (
        "a.yaml",
        "rollout: {num_generations: 8, repeat_times: 2}\nlr: 1.0e-6\nkl_coef: 0.001\n",
        "hand-written trainer",
        "rl",
        {"group_size": 16},
    ),
    (
        "a.yaml",
        "DPOConfig: {beta: 0.1, learning_rate: 5.0e-7, per_device_train_batch_size: 2}\nmodel_name_or_path: a/b\n",
        "TRL preference training",
        "preference",
        {"dpo_beta": 0.1, "learning_rate": 5e-7, "algorithm": "dpo"},
    ),
    (
        "a.yaml",
        "base_model: a/b\nrl: dpo\nrl_beta: 0.0\nmicro_batch_size: 2\nlearning_rate: 5e-6\n",
        "axolotl",
        "preference",
        {"dpo_beta": 0.0, "per_device_train_batch_size": 2},
    ),
    (
        "a.sh",
        "swift rlhf --rlhf_type kto --model a/b --beta 0.2 --learning_rate 1e-6 --per_device_train_batch_size 4\n",
        "ms-swift",
        "preference",
        {"dpo_beta": 0.2, "algorithm": "kto", "kl_coef": None},
    ),
    (
        "a.yaml",
        "model: {model_name: a/b-1B}\ntraining:\n  trainer_type: TRL_GRPO\n  learning_rate: 1e-6\n"
        "  reward_functions: [f]\n  grpo: {num_generations: 6, max_completion_length: 256}\n",
        "Oumi",
        "rl",
        {"group_size": 6, "learning_rate": 1e-6, "max_new_tokens": 256},
    ),
]


@pytest.mark.parametrize(("name", "text", "framework", "kind", "expected"), FAILED)
def test_reads_what_was_read_wrongly(
    tmp_path: Path, name: str, text: str, framework: str, kind: str, expected: dict[str, Any]
) -> None:
    found = only(tmp_path, name, text)
    assert (found.framework.name, found.run_type) == (framework, kind)
    assert {key: found.settings.get(key) for key in expected} == expected


@needs_cases
@pytest.mark.parametrize(
    ("name", "framework", "expected"),
    [
        ("m1.yaml", "axolotl", {"kl_coef": 0.0, "max_new_tokens": 2048}),
        ("m3.yaml", "axolotl", {"per_device_train_batch_size": 1, "group_size": 8, "learning_rate": 1e-6}),
        ("m4.sh", "AReaL", {"group_size": 8, "learning_rate": 5e-6, "rollout_prompts": 132}),
        ("m7.yaml", "hand-written trainer", {"temperature": 1.3, "group_size": 16}),
        ("m8.yaml", "NeMo-RL", {"group_size": 6, "rollout_prompts": 2}),
        ("m10.py", "TRL PPO", {"kl_reward_coef": 0.2, "kl_target": 6, "num_iterations": 4}),
    ],
)
def test_reads_the_failing_cases(name: str, framework: str, expected: dict[str, Any]) -> None:
    (found,) = read(CASES / name)
    assert (found.framework.name, found.run_type) == (framework, "rl")
    assert {key: found.settings.get(key) for key in expected} == expected


@needs_cases
def test_an_argument_that_is_given_twice_is_an_error() -> None:
    (found,) = read(CASES / "m6.py")
    errors = [(f.code, f.lines) for f in judge(found, "m6.py").findings if f.severity == "error"]
    assert errors == [("CFG047", [6])]


def test_preference_training_is_judged_with_the_right_remedy(tmp_path: Path) -> None:
    text = "base_model: a/b-7B\nadapter: lora\nrl: dpo\nrl_beta: 0.1\nmicro_batch_size: 2\nlearning_rate: 5e-7\n"
    diagnosis = judge(only(tmp_path, "a.yaml", text), "a.yaml")
    (finding,) = [f for f in diagnosis.findings if f.severity == "warning"]
    assert (finding.code, finding.remedies[0].id) == ("CFG054", "raise-learning-rate")
    assert diagnosis.verdict == "suspect"


def test_a_script_that_does_not_parse_is_an_error_although_nothing_of_it_is_read(tmp_path: Path) -> None:
    text = "from trl import GRPOConfig\nc = GRPOConfig(num_generations=8, learning_rate=1e-6\nprint(c)\n"
    diagnosis = judge(only(tmp_path, "a.py", text), "a.py")
    (finding,) = [f for f in diagnosis.findings if f.severity == "error"]
    assert (finding.code, finding.lines) == ("CFG047", [2])
    assert "was never closed" in finding.message


def test_the_evidence_names_every_framework_that_has_some(tmp_path: Path) -> None:
    found = only(tmp_path, "a.yaml", "rl: grpo\ntrl: {num_generations: 8}\nmicro_batch_size: 1\n")
    scores = {of: sum(clue.weight for clue in found.clues if clue.of == of) for of in ("axolotl", "TRL")}
    assert scores["axolotl"] > scores["TRL"] > 0


def test_a_line_without_a_backslash_is_named_by_its_line_in_the_document(tmp_path: Path) -> None:
    text = "name: job\nrun: |\n  set -e\n  trl grpo --num_generations 8 \\\n    --beta 0.1\n    --learning_rate 1e-6\n"
    diagnosis = judge(only(tmp_path, "a.yaml", text), "a.yaml")
    assert [(f.code, f.lines) for f in diagnosis.findings if f.severity == "error"] == [("CFG047", [6])]
    listed = "commands:\n  - pip install trl\n  - |\n    trl grpo --num_generations 8 \\\n      --beta 0.1\n      --learning_rate 1e-6\nlast: 1\n"
    found = only(tmp_path, "b.yaml", listed)
    assert (found.lines["group_size"], found.lines["cannot_run"]) == (4, 6)
