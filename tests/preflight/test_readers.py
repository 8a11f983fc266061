"""Values as the syntaxes define them: variables, arithmetic, defaults, references between names, other parts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import grpo_doctor
from grpo_doctor.preflight import words_before
from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read
from grpo_doctor.readers import ReadError


def settings_of(folder: Path, name: str, text: str) -> dict[str, Any]:
    (path := folder / name).write_text(text, encoding="utf-8")
    return read(path)[0].settings


@pytest.mark.parametrize(
    ("text", "k"),
    [
        ("trl grpo --num_generations 8", 8),
        ("trl grpo --num_generations=8 # --num_generations 4", 8),
        ("K=8\ntrl grpo --num_generations $K", 8),
        ("trl grpo --num_generations ${K:-8}", 8),
        ("trl grpo --num_generations ${A:-${K:-8}}", 8),
        ("K=8\ntrl grpo --num_generations ${A:-${K:-4}}", 8),
        ("A=2\nK=$((A * 4))\ntrl grpo --num_generations ${K}", 8),
        ('ARGS=(\n  --beta 0.1  # why\n  --num_generations 8\n)\ntrl grpo "${ARGS[@]}"', 8),
        ("trl grpo \\\n  --beta 0.1 \\\n  --num_generations 8", 8),
        ("trl grpo --beta 0.1 --num_generations 8 2>&1 | tee log", 8),
        ("trl grpo --num_generations 4 --beta 0.1 --num_generations 8", 8),
        ("read -r -d '' words <<EOF\ngrpo \\\n  --beta 0.1 \\\n  --num_generations 8\nEOF\ntrl $words", 8),
        ("read -r -d '' ARGS << 'END'\n--beta 0.1\n--num_generations 8\nEND\ntrl grpo $ARGS", 8),
        ("trl grpo --beta 0.1 --num_generations $1", None),
        ('K=8\nif [ -n "$1" ]; then K=4; fi\ntrl grpo --beta 0.1 --num_generations $K', 8),
        ('if [ "a" = "b" ] || x; then K=4; fi\ntrl grpo --beta 0.1 --num_generations ${K:-8}', 4),
        (
            "X=no\nA=(--num_generations 8)\nif [[ ${X,,} == yes || $X == 1 ]]; then A+=(--num_generations 4); fi\n"
            'trl grpo "${A[@]}"',
            8,
        ),
        ("run() {\n  local k=$1; shift\n  trl grpo --num_generations $k $@\n}\nrun 8 --beta 0.1", 8),
        ("function run {\n  trl grpo --beta 0.1 --num_generations ${K}\n}\nK=8\nrun", 8),
        ("run() { trl grpo --beta 0.1 --num_generations 8; }", 8),
        ("KS=(8)\ntrl grpo --beta 0.1 --num_generations ${KS[$SLURM_ARRAY_TASK_ID]}", 8),
        ("KS=(4 8)\ntrl grpo --beta 0.1 --num_generations ${KS[1]}", 8),
        ("declare -A KS=([a]=4 [b]=8)\ntrl grpo --beta 0.1 --num_generations ${KS[b]}", 8),
        ('c=a:8\ntrl grpo --beta 0.1 --num_generations "${c##*:}"', 8),
        ("c=8:a\ntrl grpo --beta 0.1 --num_generations ${c%%:*}", 8),
        ('IFS=, read -r a k <<< "x,8"\ntrl grpo --beta 0.1 --num_generations $k', 8),
        ('A="--beta 0.1"\nA+=" --num_generations 8"\ntrl grpo $A', 8),
        ('K=8\ncat > "c_$K.yaml" <<E\nnum_generations: ${K}\nE\ntrl grpo --beta 0.1 --config c_$K.yaml', 8),
        ("K=8\ncase $1 in\n-k) K=$2;;\nesac\ntrl grpo --beta 0.1 --num_generations $K", 8),
        ('K=""\ncase $1 in\n-k) K="$2";;\nesac\nK=${K:-8}\ntrl grpo --beta 0.1 --num_generations $K', 8),
        ("case $o in\nk) K=$OPTARG;;\nesac\nK=${K:-8}\ntrl grpo --beta 0.1 --num_generations $K", 8),
        ('K=""\nif [ -f "$1" ]; then K=$(jq .k "$1"); fi\ntrl grpo --beta 0.1 --num_generations ${K:-8}', 8),
        ('K=""\nif [ -f "$1" ]; then K=$(jq .k "$1"); fi\ntrl grpo --beta 0.1 --num_generations $K', None),
        (
            'K=""\ncase $1 in\n-k) K="$2";;\nesac\nif [ -f a ]; then K=$(jq .k a); fi\ntrl grpo --num_generations ${K:-8}',
            8,
        ),
        ("cat << E\ntrl grpo --num_generations 4\nE\ntrl grpo --beta 0.1 --num_generations 8", 8),
        ("```bash\ntrl grpo --beta 0.1 --num_generations 8\n```\n", 8),
        ("vllm serve --num_generations 4\ntrl grpo --num_generations 8", 8),
        ("python3 - <<'EOF'\nfrom trl import GRPOConfig\nGRPOConfig(num_generations=8)\nEOF\n", 8),
        ("python -c 'GRPOConfig(num_generations=8)'", 8),
        ("export NUM_GENERATIONS=8\nexport LEARNING_RATE=1e-6\npython train.py", 8),
        ("GROUP_SIZE=4\nLR=1e-5\ntrl grpo --num_generations 8", 8),
        ("cat > c.yaml <<E\nnum_generations: 8\nE\ntrl grpo --beta 0.1 --config c.yaml", 8),
        (
            'A="data.a=1 actor_rollout_ref.rollout.n=8"\npython3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=4 $A',
            8,
        ),
        (
            'A="data.a=1 actor_rollout_ref.rollout.n=8"\npython3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=4 "$A"',
            4,
        ),
    ],
)
def test_shell(tmp_path: Path, text: str, k: int | None) -> None:
    assert settings_of(tmp_path, "a.sh", text).get("group_size") == k


@pytest.mark.parametrize(
    "text",
    [
        "for k in 4 8; do\n  trl grpo --beta 0.1 --num_generations $k\ndone",
        'KS="4 8"\nfor k in $KS; do trl grpo --beta 0.1 --num_generations $k; done',
        'KS=(4 8)\nfor k in "${KS[@]}"; do K=$k; trl grpo --beta 0.1 --num_generations "$K"; done',
        "KS=(4 8)\ntrl grpo --beta 0.1 --num_generations ${KS[$SLURM_ARRAY_TASK_ID]}",
        'for c in "a,4" "b,8"; do\nIFS="," read -r n k <<< "$c"\ntrl grpo --beta 0.1 --num_generations $k\ndone',
        "for c in a:4 b:8; do trl grpo --beta 0.1 --num_generations ${c#*:}; done",
        "if a; then K=4; else K=8; fi\ntrl grpo --beta 0.1 --num_generations $K",
        "run() { trl grpo --beta 0.1 --num_generations $1; }\nfor k in 4 8; do run $k; done",
    ],
)
def test_one_of_several_values_is_noted_and_judged_by_nothing(tmp_path: Path, text: str) -> None:
    batch = " --per_device_train_batch_size 3 --num_processes 1"  # a whole number of neither group
    (path := tmp_path / "a.sh").write_text(text.replace("--beta 0.1", f"--beta 0.1{batch}"), encoding="utf-8")
    (found,) = read(path)
    assert found.settings["group_size"] == 4
    assert "one of 4, 8" in found.swept["group_size"]
    told = judge(found, str(path))
    assert not {"CFG017", "CFG001", "CFG032"} & {finding.code for finding in told.findings}
    path.write_text("trl grpo --beta 0.1 --num_generations 4" + batch, encoding="utf-8")
    assert "CFG017" in {finding.code for finding in judge(read(path)[0], str(path)).findings}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", "python -m verl.trainer.main_ppo -m data.seed=1 actor_rollout_ref.rollout.n=4,8"),
        (
            "a.yaml",
            "method: grid\nparameters:\n  num_generations: {values: [4, 8]}\n  max_completion_length: {value: 9}",
        ),
        ("a.py", "for k in [4, 8]:\n    GRPOConfig(num_generations=k, beta=0.1)"),
        ("a.py", "KS = [4, 8]\nfor k in KS:\n    K = k\n    GRPOConfig(num_generations=K, beta=0.1)"),
    ],
)
def test_a_sweep_is_one_of_several_values_in_any_syntax(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (found,) = read(tmp_path / name)
    assert "one of 4, 8" in found.swept["group_size"]


def test_a_fork_of_verl_with_its_own_rollout_is_not_judged_by_verls_batch(tmp_path: Path) -> None:
    text = "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1 "
    text += "actor_rollout_ref.rollout.n=1 actor_rollout_ref.actor.ppo_mini_batch_size=1200 "
    (path := tmp_path / "a.sh").write_text(text, encoding="utf-8")
    assert {"CFG018", "CFG001"} <= {finding.code for finding in judge(read(path)[0], str(path)).findings}
    path.write_text(text.replace("-m verl", "-m torch.distributed.run -m verl"), encoding="utf-8")
    assert {"CFG018", "CFG001"} <= {finding.code for finding in judge(read(path)[0], str(path)).findings}
    path.write_text(text + "++world.replicas=4", encoding="utf-8")
    (found,) = read(path)
    assert not {"CFG018", "CFG001"} & {finding.code for finding in judge(found, str(path)).findings}
    assert found.settings["group_size"] == 1  # as the command says, of whatever its responses are
    path.write_text(text.replace("actor_rollout_ref.rollout.n=1 ", "") + "++world.replicas=4", encoding="utf-8")
    assert "own world" in read(path)[0].unresolved["group_size"]
    path.write_text(text + "++judge.model=a ++wandb_args.name=b", encoding="utf-8")  # none of which rolls out
    assert {"CFG018", "CFG001"} <= {finding.code for finding in judge(read(path)[0], str(path)).findings}
    path.write_text(text.replace("verl.trainer.main_ppo", "agents.trainer.verl.train"), encoding="utf-8")
    (found,) = read(path)
    assert found.framework.name == "verl"
    assert not {"CFG018", "CFG001"} & {finding.code for finding in judge(found, str(path)).findings}
    assert found.settings["group_size"] == 1


@pytest.mark.parametrize(
    ("name", "text", "kind", "expected"),
    [
        (
            "a.yaml",
            "train_cfgs:\n  num_generations: 10\n  beta: 0.01\n  actor_lr: 2.e-5\n  critic_lr: 5.e-6\n"
            "  epsilon: 0.2\n  per_device_train_batch_size: 1\n",
            "rl",
            {"group_size": 10, "learning_rate": 2e-5},
        ),
        (
            "a.yaml",
            "policy_lm: gpt2\nrollout_size: 128\nbatch_size: 8\ncritic_lr: 2e-5\nlr: 1.0e-4\nlm_lr: 1.0e-6\n"
            "max_new_tokens: 32\n",
            "rl",
            {"learning_rate": 1e-6},
        ),
        (
            "a.sh",
            "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo agent.num_chains=8 "
            "agent.use_agent=True data.train_batch_size=64",
            "rl",
            {"group_size": 8},
        ),
        (
            "a.sh",
            "python -m open_instruct.grpo_fast --number_samples_per_prompt 4 --beta 0.01",
            "rl",
            {"group_size": 4},
        ),
        (
            "a.yaml",
            "method:\n  name: ppoconfig\n  num_rollouts: 128\n  chunk_size: 128\n  init_kl_coef: 0.05\n"
            "train:\n  lr_init: 1.0e-4\n",
            "rl",
            {"learning_rate": 1e-4},
        ),
        (
            "a.sh",
            "python -m some.quickstart ppo actor.path=gpt2 actor.optimizer.lr=1e-4 ppo.gen.max_new_tokens=8 "
            "dataset.max_prompt_len=128",
            "rl",
            {},
        ),
        (
            "a.sh",
            "python -m openrlhf.cli.eval_ray --n_samples_per_prompt 1 --actor_learning_rate 1e-6 "
            "--advantage_estimator group_norm --rollout_batch_size 8",
            "evaluation",
            {},
        ),
        (
            "a.sh",
            "python -m openrlhf.cli.train_ppo_ray --n_samples_per_prompt 1 --actor_learning_rate 1e-6 "
            "--advantage_estimator group_norm --training_mode eval_only",
            "evaluation",
            {},
        ),
        (
            "a.sh",
            "python -m verl.trainer.main algorithm.adv_estimator=grpo worker.rollout.n=5 "
            "worker.actor.model.model_path=stabilityai/stable-diffusion-3.5-medium",
            "none",
            {},
        ),
        ("a.yaml", "trainer: {beta: 0.04, clip_range: 0.2}\nmodel: {vqvae: {V: 4096}}\nlr: 1e-6\n", "none", {}),
        ("a.yaml", "grpo: {group_size: 4, kl_coeff: 0.005}\nvae_name: sd\nlr: 1e-6\n", "none", {}),
        # arguments of any trainer, in a file that says which
        (
            "train_dpo.py",
            "TrainingArguments(learning_rate=1e-6, per_device_train_batch_size=2)",
            "preference",
            {"learning_rate": 1e-6},
        ),
        (
            "a.yaml",
            "vae_path: a\ngroup_size: 4\nkl_coeff: 0.005\nmax_new_tokens: 512\n",  # a model that reads and draws
            "rl",
            {"group_size": 4},
        ),
        (
            "a.yaml",
            "algorithm: {group_size: 1, adv_type: gae, loss_type: actor_critic, kl_beta: 0.0}\n"
            "actor: {optim: {lr: 3e-4}, model: {model_name: mlp_policy}}\nrunner: {task_type: embodied}\n",
            "none",
            {},
        ),
        ("a.py", "import gymnasium as gym\ngroup_size = 16\nclip_eps = 0.2\nAdam(lr=3e-4)\n", "none", {}),
        ("a.py", "import gym, trl\nGRPOConfig(num_generations=8, beta=0.1)\n", "rl", {"group_size": 8}),
        (
            "grpo_sft.yaml",
            "tokenizer: {_component_: a}\ncheckpointer: {_component_: b}\nmodel: {_component_: c}\nbatch_size: 2\n"
            "optimizer: {lr: 1e-5}\ngradient_accumulation_steps: 1\n",
            "supervised",
            {},
        ),
        (
            "a.sh",
            "swift rlhf --rlhf_type gkd --model a --teacher_model b --beta 1 --learning_rate 1e-5 "
            "--per_device_train_batch_size 1",
            "supervised",
            {},
        ),
        (
            "a.py",
            "run([python, '-u', script, '--num_generations', '1', '--temperature', '0', '--model', 'm'])",
            "none",
            {},
        ),
        ("a.json", '{"K": 4, "kept": 2}', "none", {}),
        (
            "a.ipynb",
            '{"cells": [{"cell_type": "code", "source": "%%writefile $d/a.yaml\\ntraining: {trainer_type: TRL_GRPO, '
            'learning_rate: 5e-7, per_device_train_batch_size: 2, grpo: {num_generations: 4, max_completion_length: 8}}"}]}',
            "rl",
            {"group_size": 4, "learning_rate": 5e-7, "epsilon": None},
        ),
        ("train_dpo.py", "draw(num_samples_per_prompt=1)\nlr = 1e-6\n", "preference", {}),
        ("grpo_exp.py", "@dataclass\nclass GRPOConfig(Own):\n    group_size: int = 4\n", "rl", {"group_size": 4}),
        (
            "a.py",
            "import trlx\nfrom trlx.data import default_ppo_config\n"
            "config.optimizer = OptimizerConfig(name='adamw', kwargs=dict(lr=5e-6))\n",
            "rl",
            {"learning_rate": 5e-6},
        ),
        (
            "a.sh",
            "python run_grpo.py --model a --lr 1e-6 --num_generations 5 --kl_coef 0.001",
            "rl",
            {"group_size": 5, "learning_rate": 1e-6, "framework": "hand-written trainer"},
        ),
    ],
    ids=str,
)
def test_names_that_authors_give(tmp_path: Path, name: str, text: str, kind: str, expected: dict[str, Any]) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    (found,) = read(path)
    assert found.run_type == kind
    assert {key: found.settings.get(key) for key in expected} == expected


VERL = "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n data.train_batch_size=16 "


@pytest.mark.parametrize(
    ("end", "told_of"),
    [
        ("\\", "line 2 ends in a backslash"),
        ("\\\n\n", "line 2 ends in a backslash"),
        ("\\\n# actor_rollout_ref.rollout.n=8 \\\n", "line 2 ends in a backslash"),
        ("\\\n# actor_rollout_ref.rollout.n=8 \\\n data.tra", "line 4 ends inside the name of a setting"),
        ("\\\n --out", "line 3 ends inside the name of a setting"),
        ("\\\n --", "line 3 ends inside the name of a setting"),
    ],
)
def test_settings_omitted_by_an_excerpt_have_no_default(tmp_path: Path, end: str, told_of: str) -> None:
    (path := tmp_path / "a.sh").write_text(VERL, encoding="utf-8")
    assert {"CFG018", "CFG001"} <= {finding.code for finding in judge(read(path)[0], str(path)).findings}
    path.write_text(VERL + end, encoding="utf-8")
    (found,) = read(path)
    told = judge(found, str(path))
    assert not {"CFG018", "CFG001"} & {finding.code for finding in told.findings}
    assert found.assumed == {}
    assert f"{told_of}: the rest is missing, so defaults are not applied" in told.notes


@pytest.mark.parametrize(("end", "torn"), [("", True), ("\nfi", False), ("; fi", False), ("\n# fi", True)])
def test_a_script_that_ends_within_a_branch_is_an_excerpt(tmp_path: Path, end: str, torn: bool) -> None:
    branch = f'if [ "$1" = a ]; then\n  x=1\nelif [ "$1" = b ]; then\n  {VERL}actor_rollout_ref.actor.optim.lr=1e-6'
    (path := tmp_path / "a.sh").write_text(branch + end, encoding="utf-8")
    (found,) = read(path)
    assert (found.assumed == {}) == torn
    assert any("ends inside an unclosed `if`" in note for note in found.notes) == torn


def test_arguments_that_the_shell_does_not_pass_are_named(tmp_path: Path) -> None:
    (path := tmp_path / "a.sh").write_text(VERL + "\n actor_rollout_ref.rollout.n=8\n algorithm.kl_ctrl.kl_coef=0.1\n")
    (found,) = read(path)
    assert found.settings["group_size"] == 8
    (finding,) = [f for f in judge(found, str(path)).findings if f.code == "CFG047"]
    assert "the shell does not pass line 3, 4 to the command above" in finding.message
    assert (finding.severity, finding.lines) == ("error", [3])


def test_a_setting_in_a_written_document_has_the_line_of_the_script(tmp_path: Path) -> None:
    text = "set -e\ncat <<EOF > c.yaml\nnum_generations: 1\nlearning_rate: 1e-6\nEOF\n"
    (path := tmp_path / "a.sh").write_text(text, encoding="utf-8")
    assert read(path)[0].lines["group_size"] == 3


def test_a_kind_of_file_that_is_not_known_is_reported(tmp_path: Path) -> None:
    (path := tmp_path / "a.jsonnet").write_text("{ trainer: { num_generations: 8 } }\n", encoding="utf-8")
    assert read(path)[0].notes == ["a file that ends in .jsonnet is read as shell commands, but it contains none"]


def test_commands_without_a_training_are_left_out_next_to_one_with_it(tmp_path: Path) -> None:
    text = "/opt/areal-2/bin/python watch.py --seconds 3\n/opt/areal-2/bin/python t.py gconfig.n_samples=4 actor.optimizer.lr=1e-6\n"
    (path := tmp_path / "a.sh").write_text(text, encoding="utf-8")
    assert [found.settings["group_size"] for found in read(path)] == [4]


def test_the_options_of_a_script_are_not_a_command(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    cases = "  -k|--num-generations) K=$2; shift 2 ;;\n  --learning-rate) LR=$2; shift 2 ;;\n  --bf16) shift ;;\n"
    path.write_text(f"case $1 in\n{cases}esac\ntrl grpo --beta 0.1 --num_generations 8\n", encoding="utf-8")
    (found,) = read(path)
    assert found.settings["group_size"] == 8


def test_a_pipeline_of_roll_that_only_evaluates_is_not_a_training(tmp_path: Path) -> None:
    text = "adv_estimator: grpo\nactor_infer:\n  generating_args: {temperature: 0.0, num_return_sequences: 1}\n"
    text += "train_env_manager: {group_size: 1}\n"
    (path := tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert [found.run_type for found in read(path)] == ["none"]
    path.write_text(text + "actor_train: {training_args: {learning_rate: 1.0e-6}}\n", encoding="utf-8")
    assert [found.run_type for found in read(path)] == ["rl"]


@pytest.mark.parametrize(
    ("text", "k"),
    [
        ("GRPOConfig(num_generations=8)", 8),
        ("K = 2 * 4\nGRPOConfig(num_generations=K)", 8),
        ("p.add_argument('--k', type=int, default=8)\nargs = p.parse_args()\nGRPOConfig(num_generations=args.k)", 8),
        ("class C:\n    k: int = 8\nc = C()\nGRPOConfig(num_generations=c.k)", 8),
        ("C = {'grpo': {'k': 8}}\nGRPOConfig(num_generations=C['grpo']['k'])", 8),
        ("C = {}\nGRPOConfig(num_generations=C.get('k', 8))", 8),
        ("import os\nGRPOConfig(num_generations=int(os.environ.get('K', '8')))", 8),
        ("kw = dict(num_generations=8)\nGRPOConfig(**kw)", 8),
        ("kw = dict(num_generations=8)\nkw = {k: v for k, v in kw.items() if k}\nGRPOConfig(**kw)", 8),
        ("c = GRPOConfig(num_generations=4)\nc.num_generations = 8", 8),
        ("SFTConfig(num_generations=4)\nGRPOConfig(num_generations=8)", 8),
        ("GRPOConfig(num_generations=f(), beta=0.1)", None),
        ("group_size = 8\nlearning_rate = 1e-6\nclip_eps = 0.2\n", 8),
        ("def train(model, group_size=8, lr=1e-5):\n    pass\n", 8),
        ("def f(*, k=8):\n    return GRPOConfig(num_generations=k)\nf()", 8),
        ("def f(k=4):\n    return GRPOConfig(num_generations=k)\nf(k=8)", 8),
        ("def f(k: int = typer.Option(8, help='x')):\n    return GRPOConfig(num_generations=k)", 8),
        ("@click.option('--k', default=8)\ndef f(k):\n    pass\nGRPOConfig(num_generations=args.k)", 8),
        ("DEFINE_integer('k', 8, 'group')\nGRPOConfig(num_generations=FLAGS.k)", 8),
        ("class C(BaseModel):\n    k: int = Field(8)\nGRPOConfig(num_generations=C().k)", 8),
        ("K = _int_env('K', 8)\nGRPOConfig(num_generations=K)", 8),
        ("kw = build()\nd = {'num_generations': 8, 'beta': 0.1}\nGRPOConfig(**kw)", 8),
        ("import os\nD = os.environ.get('D', 'no').lower() == 'yes'\nGRPOConfig(num_generations=2 if D else 8)", 8),
        ("args = defaults()\nargs.num_generations = 8\nargs.learning_rate = 1e-6\nargs.beta = 0.1\n", 8),
        ("def evaluate(model, group_size=4):\n    pass\ndef train(model, group_size=8, lr=1e-5):\n    pass\n", 8),
    ],
)
def test_python(tmp_path: Path, text: str, k: int | None) -> None:
    assert settings_of(tmp_path, "a.py", text).get("group_size") == k


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("algorithm: {kl_beta: 1e-3, group_size: 8, adv_type: grpo}", {"group_size": 8, "kl_coef": 1e-3}),
        ("actor_rollout_ref:\n  rollout:\n    n: 8\n    val_kwargs: {n: 1, temperature: 0}", {"group_size": 8}),
        (
            "name: job\nrun: |\n  set -e\n  trl grpo --num_generations 8 --beta ${BETA:-0.1}\n",
            {"group_size": 8, "kl_coef": 0.1},
        ),
        (
            "algorithm: {algorithm_type: grpo, repeat_times: 8}\nbuffer: {batch_size: 96, explorer_input: {a: 1}}\n"
            "explorer: {eval_interval: 50}\nsynchronizer: {sync_interval: 1}\n",
            {"group_size": 8, "rollout_prompts": 96},
        ),
        ("gconfig: {n_samples: 8}\nactor: {temperature: 1.0}\nrollout: {max_head_offpolicyness: 2}", {"group_size": 8}),
        (
            "base: &b {num_generations: 8}\ngrpo:\n  <<: *b\n  max_completion_length: 512\n",
            {"group_size": 8, "max_new_tokens": 512},
        ),
        (
            "wandb_version: 1\nnum_generations: {value: 8, desc: null}\nmax_completion_length: {value: 64}",
            {"group_size": 8, "max_new_tokens": 64},
        ),
        (
            "num_return_sequences_in_group: 8\nresponse_length: 64\nactor_infer:\n  generating_args:\n"
            "    max_new_tokens: ${response_length}\nvalidation:\n  generating_args: {temperature: 0.1}\n",
            {"group_size": 8, "max_new_tokens": 64},
        ),
    ],
)
def test_yaml(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    found = settings_of(tmp_path, "a.yaml", text)
    assert {name: found.get(name) for name in expected} == expected
    assert found.get("temperature") in (None, 1.0)


@pytest.mark.parametrize(
    ("text", "k"),
    [
        (
            "(TaskRunner pid=7) {'actor_rollout_ref': {'actor': {'optim': {'lr': 1e-06}},\n"
            "(TaskRunner pid=7)                       'rollout': {'n': 8, 'temperature': 1.0}},\n"
            "(TaskRunner pid=7)  'algorithm': {'adv_estimator': 'grpo'}}\nstep:1 - critic/score/mean:0.1\n",
            8,
        ),
        ('{\n  "worker": {\n    "actor": {"global_batch_size": 8},\n    "rollout": {"n": 8}\n  }\n}\n', 8),
        (
            "12:00 INFO Namespace(n_samples_per_prompt=8, init_kl_coef=0.01, rollout_batch_size=64, micro_rollout_batch_size=4)",
            8,
        ),
        ("Training parameters GRPOConfig(\nbeta=0.04,\neval_strategy=IntervalStrategy.NO,\nnum_generations=8,\n)\n", 8),
        ("[INFO:swift] args: RLHFArguments(rlhf_type='grpo', num_generations=8, x=<S.COSINE: 'cosine'>)\n", 8),
        ("+ python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=8\n", 8),
        (
            "".join(
                f"(MegatronTrainRayActor pid=1)   {key} {'.' * 20} {value}\n"
                for key, value in {
                    "n_samples_per_prompt": 8,
                    "num_rollout": 100,
                    "lr": 1e-6,
                    "rollout_batch_size": 32,
                    "eps_clip": 0.2,
                }.items()
            ),
            8,
        ),
        ("step 1 reward 0.5 num_generations 8\n", None),
    ],
)
def test_the_configuration_that_a_log_prints(tmp_path: Path, text: str, k: int | None) -> None:
    (path := tmp_path / "run.log").write_text(text, encoding="utf-8")
    (found,) = read(path)
    assert found.settings.get("group_size") == k
    assert found.assumed == {} or text.startswith("+")


def test_a_base_next_to_it_is_read_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "grpo: {num_generations_per_prompt: 8}\npolicy: {generation: {temperature: 1.0}}\n"
    )
    right = "defaults: base.yaml\npolicy:\n  generation: {top_p: 0.9}\n"
    assert settings_of(tmp_path, "a.yaml", right)["group_size"] == 8
    (path := tmp_path / "b.yaml").write_text("defaults: gone.yaml\ngrpo: {num_prompts_per_step: 8}\nloss_fn: {x: 1}\n")
    assert "it includes gone.yaml, which was not read" in read(path)[0].notes


def test_a_group_of_hydra_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm" / "grpo.yaml").write_text("group_size: 8\nkl_beta: 0.001\n")
    text = "defaults:\n  - algorithm: grpo\n  - _self_\nalgorithm: {adv_type: grpo, sampling_params: {top_p: 1.0}}\n"
    assert settings_of(tmp_path, "a.yaml", text)["group_size"] == 8


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", "trl grpo --config recipes/grpo.yaml --beta 0.1"),
        ("b.sh", "uv run python train.py --k 8"),
        ("c.sh", "accelerate launch --config_file recipes/two.yaml -m train --k 8"),
        ("d.py", "from settings import K\nGRPOConfig(num_generations=K, beta=0.1)"),
        ("e.py", "import settings\nGRPOConfig(num_generations=settings.cfg['k'], beta=0.1)"),
        ("f.py", "from settings import made\nmade()"),
    ],
)
def test_files_in_the_same_folder_are_followed(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "grpo.yaml").write_text("num_generations: 8\nlearning_rate: 1e-6\n")
    (tmp_path / "recipes" / "two.yaml").write_text("num_processes: 2\n")
    (tmp_path / "train.py").write_text(
        "p.add_argument('--k', type=int, default=4)\nargs = p.parse_args()\nGRPOConfig(num_generations=args.k, beta=0.1)\n"
    )
    (tmp_path / "settings.py").write_text(
        "K = 8\ncfg = {'k': 8}\ndef made():\n    return GRPOConfig(num_generations=K, beta=0.1)\n"
    )
    found = settings_of(tmp_path, name, text)
    assert found["group_size"] == 8
    assert found.get("world_size") == (2 if name == "c.sh" else None)


def test_missing_files_are_named_and_nothing_is_assumed(tmp_path: Path) -> None:
    (path := tmp_path / "a.sh").write_text("trl grpo --config gone.yaml --beta 0.1 --num_generations 8\n")
    (found,) = read(path)
    assert found.assumed == {}
    assert found.notes == ["the settings of gone.yaml were not read: not found"]


def test_lines_of_a_notebook_that_only_ipython_knows(tmp_path: Path) -> None:
    cells = [["%%bash\n", "num_generations = (\n"], ["!pip install trl\n", "GRPOConfig(num_generations=8)"]]
    notebook = json.dumps({"cells": [{"cell_type": "code", "source": source} for source in cells]})
    assert settings_of(tmp_path, "a.ipynb", notebook)["group_size"] == 8


def test_newer_syntax_loses_only_its_statement(tmp_path: Path) -> None:
    text = "GRPOConfig(num_generations=8)\nmatch = = 1\nGRPO = 1\n"
    (path := tmp_path / "a.py").write_text(text)
    (found,) = read(path)
    assert found.settings["group_size"] == 8
    assert "line 2 is not Python and was not read" in found.notes


@pytest.mark.parametrize("quoted", ['f"{a["k"]}"', 'f"{", ".join(a)}"', "f'{a['k']['l']:.2f}'", 'f"{f("x")}"'])
def test_an_f_string_of_python_3_12_is_read_and_no_error(tmp_path: Path, quoted: str) -> None:
    (path := tmp_path / "a.py").write_text(f"def train(group_size=8, lr=1e-6, beta=0.1):\n    print({quoted})\n")
    (found,) = read(path)
    assert (found.settings["group_size"], found.notes) == (8, [])
    assert "cannot_run" not in found.settings


@pytest.mark.parametrize(
    ("script", "trained"),
    [("", False), ("model = PeftModel.from_pretrained(base, 'out/sft', is_trainable=True)\n", None)],
)
def test_an_adapter_without_a_setting_is_unknown(tmp_path: Path, script: str, trained: bool | None) -> None:
    text = f"from trl import GRPOConfig\n{script}GRPOConfig(num_generations=8)\n"
    assert settings_of(tmp_path, "a.py", text).get("use_peft") is trained


def test_a_copied_dictionary_is_not_empty(tmp_path: Path) -> None:
    known = "given = {'num_generations': 8}\nkept = dict(given, beta=0.1)\nGRPOConfig(**kept)\n"
    assert settings_of(tmp_path, "a.py", known)["group_size"] == 8
    (path := tmp_path / "b.py").write_text("kept = {'beta': 0.1}\nkept.update(dict(read(x)))\nGRPOConfig(**kept)\n")
    (found,) = read(path)
    assert (found.assumed, found.notes) == ({}, ["line 2: arguments passed through ** were not read"])


def test_what_a_script_passes_to_its_training_function_precedes_the_default(tmp_path: Path) -> None:
    text = "def train_grpo(model, num_rollouts=2, temperature=0.8, lr=1e-5, clip_eps=0.2):\n    pass\n"
    assert settings_of(tmp_path, "a.py", f"{text}train_grpo(model=m, num_rollouts=4)\n")["group_size"] == 4
    assert settings_of(tmp_path, "b.py", f"{text}train_grpo(model=m, temperature=1.0)\n")["temperature"] == 1.0
    assert settings_of(tmp_path, "c.py", f"{text}train_grpo(model=m)\n")["group_size"] == 2


def test_a_document_with_its_own_names_is_not_passed_to_the_trainer(tmp_path: Path) -> None:
    text = "num_generations: 8\nmax_prompt_length: 512\nreward_funcs: x\n{}: 0.04\n"
    codes = {}
    for key in ("beta", "kl_beta"):
        (path := tmp_path / f"{key}.yaml").write_text(text.format(key))
        codes[key] = {finding.code for finding in judge(read(path)[0], str(path)).findings}
    assert "CFG016" in codes["beta"]
    assert "CFG016" not in codes["kl_beta"]


def test_a_configuration_class_of_the_authors_own_is_not_trls(tmp_path: Path) -> None:
    text = "class GRPOConfig:\n    G: int = 8\n    lr: float = 1e-5\nGRPOConfig(lr=2e-5)\n"
    (path := tmp_path / "a.py").write_text(text)
    (found,) = read(path)
    assert (found.framework.name, found.unknown) == ("hand-written trainer", [])
    assert (found.settings["group_size"], found.settings["learning_rate"]) == (8, 2e-5)


@pytest.mark.parametrize(
    ("pin", "requirements", "told"),
    [
        ("", "", "info"),
        ("# dependencies = ['trl==0.17.0']", "", None),
        ("# dependencies = ['trl==0.14.0']", "", "error"),
        ("!pip install trl[vllm]==0.29.0", "", "error"),
        ("!pip install trl==0.17 trl==0.29", "", "info"),
        ("!pip install trl>=0.29", "", "info"),
        ("", "torch\ntrl==0.17.0\n", None),
        ("", "trl==1.9.0 ; python_version > '3.9'\n", "warning"),
    ],
)
def test_the_version_that_is_pinned_decides(tmp_path: Path, pin: str, requirements: str, told: str | None) -> None:
    (tmp_path / "requirements.txt").write_text(requirements)
    (path := tmp_path / "a.py").write_text(
        f"{pin}\nfrom trl import GRPOConfig\nGRPOConfig(use_liger_loss=True, beta=0.1)\n"
    )
    found = grpo_doctor.preflight(path).finding("CFG016")
    assert (found.severity if found else None) == told


@dataclasses.dataclass
class GRPOConfig:
    num_generations: int = 1
    beta: float = 0.0
    world_size: int = 2
    per_device_train_batch_size: int = 4


def test_a_value_that_trl_computed_is_not_a_conflict() -> None:
    logged = {"num_generations": 4, "per_device_train_batch_size": 8, "generation_batch_size": 16}
    assert grpo_doctor.preflight(logged | {"steps_per_generation": 2}).finding("CFG032") is None
    assert grpo_doctor.preflight(logged | {"steps_per_generation": 3}).finding("CFG032") is not None


def test_findings_before_the_first_step_are_printed() -> None:
    lines = words_before(GRPOConfig(num_generations=3))
    assert lines[0].startswith("settings: responses per prompt 3; prompts per rollout 2.67; responses per rollout 8;")
    assert lines[1].startswith("settings: CFG017 generation-batch-not-whole-groups (error): ")


def test_a_live_object_and_a_mapping() -> None:
    assert grpo_doctor.preflight(GRPOConfig()).finding("CFG013") is not None
    diagnosis = grpo_doctor.preflight(GRPOConfig(num_generations=3))
    assert diagnosis.finding("CFG017") is not None
    assert grpo_doctor.preflight({"num_generations": 2, "max_completion_length": 8}).finding("CFG001") is not None
    with pytest.raises(ReadError, match="holds no settings"):
        grpo_doctor.preflight(object())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", "A=$A$A$A$A\n" * 20_000),
        ("b.sh", '"' * 100_001),
        ("c.sh", "$(" * 50_000),
        ("d.sh", "<<E\n" * 20_000),
        (
            "a.py",
            "\n".join(f"a{i} = a{i - 1} + a{i - 1}" for i in range(1, 2000)) + "\nGRPOConfig(num_generations=a1999)",
        ),
        ("b.py", "K = 9 ** 9 ** 9\nGRPOConfig(num_generations=K)"),
        ("c.py", "GRPOConfig(num_generations=8)\n" * 5_000),
        ("a.yaml", "a: 1\n" * 20_000),
        ("b.yaml", "[" * 100_000),
        ("c.yaml", "a0: &a0 [1, 2]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, [1]]" for i in range(1, 40))),
        ("d.yaml", "run: |\n" + "  python t.py --num_generations 8\n" * 4_000),
        ("a.json", '{"a":' * 5_000),
        ("a.toml", "\n".join(f"k{i} = {i}" for i in range(20_000))),
        ("e.sh", "if a; then\n" * 20_000),
        ("a.log", "GRPOConfig(\n" * 10_000),
        ("b.log", "+ python t.py --num_generations 8\n" * 10_000),
        ("c.log", "x {'a': 1\n" * 10_000),
        ("d.log", f"Namespace({'a=1, ' * 10_000})\n" * 20),
        ("g.toml", f"{'a.' * 100_000}b = 1"),
        ("h.sh", "a.b=1 " * 40_000),
        ("i.sh", f'A="{"$A" * 60_000}"\n'),
        ("d.py", "x=1;" * 30_000),
        ("e.py", "\n".join(f"import a{i}" for i in range(5_000))),
        ("f.py", f"GRPOConfig({', '.join(f'a{i}=b' for i in range(3_000))})"),
        ("g.yaml", "defaults:\n" + "".join(f"  - a{i}: b\n" for i in range(3_000))),
        ("j.sh", "bash j.sh --num_generations 8\n" * 3_000),
        ("k.sh", "A=$(cat <<E\n" * 3_000),
        ("Makefile", "A = $(A) \\\n" * 5_000),
        ("g.py", f"cmd = [{', '.join(['x'] * 20_000)}]"),
        ("i.py", 's = "--a 1 --b 2 --c 3 --d 4"\ns = f"{s}{s}{s}" + s\n' + "run(s)\n" * 2_000),
        ("h.py", "import yaml\n" + "x = y.a.b.c.d\n" * 2_000),
        ("c.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": ["!python a.py --k {k} \\\n"] * 5_000}]})),
        ("b.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": ["K = 8"]}] * 5_000})),
    ],
)
def test_hostile_files_end(tmp_path: Path, name: str, text: str) -> None:
    (path := tmp_path / name).write_text(text)
    told: list[str] = []
    try:
        told = [c.framework.name for c in read(path)]
    except ReadError as error:
        told = str(error).splitlines()
    assert 1 <= len(told) <= 20


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": [cell]} for cell in cells]})


KINDS = [
    # names for the responses to one prompt in custom trainers
    ({"a.sh": "python train.py --lr 1e-6 --rollouts-per-task 4 --epochs 2"}, {"group_size": 4}),
    ({"a.yaml": "num_answers_per_question: 6\nlr: 1e-6\n"}, {"group_size": 6}),
    ({"a.yaml": "num_rollouts: 20\nvf_coef: 0.5\nlr: 1e-6\nkl_coef: 0.1\n"}, {"group_size": None, "kl_coef": 0.1}),
    ({"a.py": "Q = 8\nGenerationConfig(num_return_sequences=Q)\nbeta = 0.1"}, {"group_size": 8}),
    ({"a.py": "SamplingParams(n=8, temperature=0.9)\nbeta = 0.1"}, {"group_size": 8, "temperature": 0.9}),
    ({"a.py": "G = 4\ndef search(q, k=3): pass\nlr = 1e-6\nkl_coef = 0.1"}, {"group_size": 4}),
    ({"a.py": "search(q, k=3)\ntrain(num_samples_per_input=8, lr=1e-6, kl_coef=0.1, k=3)"}, {"group_size": 8}),
    ({"a.py": "b = (a\n     % 8)\nGRPOConfig(num_generations=8, beta=0.1)"}, {"group_size": 8}),
    ({"a.sh": "python main.py grpo p.num_inference_per_prompt=8 p.optimizer.lr=1e-6"}, {"group_size": 8}),
    ({"a.yaml": "policy_learning_rate: 3e-6\nclip_epsilon: 0.1\ngae_lambda: 0.95"}, {"learning_rate": 3e-6}),
    (
        {"a.py": "SamplingParams(temperature=0)\nSamplingParams(n=8, temperature=0.9)\nbeta = 0.1"},
        {"group_size": 8, "temperature": 0.9},
    ),
    # an evaluation that answers each example several times is not a training
    ({"a.toml": 'model = "m"\nrollouts_per_example = 4\nmax_tokens = 64\n[[eval]]\nid = "e"'}, {"framework": None}),
    # a fork of verl that repeats the prompts itself: its mini-batch counts responses
    (
        {
            "a.sh": "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=1 actor_rollout_ref.rollout.n_agent=16 "
            "data.train_batch_size=2 actor_rollout_ref.actor.ppo_mini_batch_size=4"
        },
        {"group_size": 16, "update_prompts": None, "update_responses": 4},
    ),
    # fields of TRL's PPO and RLOO, at the top of a document and not in a section of verl's
    (
        {"a.yaml": "response_length: 53\nreward_model_path: a/b\nlearning_rate: 3e-6\n"},
        {"framework": "TRL PPO or RLOO", "learning_rate": 3e-6, "group_baseline": None},
    ),
    (
        {"a.yaml": "actor_rollout_ref: {rollout: {n: 4, response_length: 9}}\ncritic: {cliprange_value: 0.5}\n"},
        {"framework": "verl"},
    ),
    # flags that a script puts together as text and gives to a function
    (
        {
            "a.py": "r = ('--n-samples-per-prompt 16 ' f'--rm-type math --num-rollout {9 if x else 8} ')\n"
            "execute(train_args=f'{r} {U.more(1)} --lr 2e-6 ', n=8)"
        },
        {"framework": "slime", "group_size": 16, "learning_rate": 2e-6},
    ),
    ({"a.py": "help(f'--n-samples-per-prompt {k} --lr 2')\nkl_coef = 0.1\nlr = 1e-6"}, {"group_size": None}),
    # an array of one element that looks like the pattern of a branch
    (
        {"a.sh": 'RUNS=(\n  "learning_rate=5e-7"\n)\ntrl grpo --num_generations 8 "--${RUNS[0]}"\n'},
        {"group_size": 8, "learning_rate": 5e-7},
    ),
    # a document that inherits another, whose adapter has a rank
    (
        {
            "grpo.yaml": "inherit: base\ngrpo: {num_generations: 8, max_completion_length: 256}\n",
            "base.yaml": "lora: {rank: 8}\ntraining: {per_device_train_batch_size: 4}\n",
        },
        {"group_size": 8, "lora_r": 8, "use_peft": True},
    ),
    # an adapter of which nothing but its name is known, and one that is switched off
    ({"a.yaml": "num_generations: 8\nreward_funcs: x\nlora_preset: small\n"}, {"group_size": 8, "use_peft": None}),
    ({"a.yaml": "num_generations: 8\nreward_funcs: x\nis_peft: false\npeft_config: {r: 8}\n"}, {"use_peft": False}),
    # what is trained in one process
    (
        {"a.py": "M.from_pretrained('a', device_map='auto')\nGRPOConfig(num_generations=8)\n"},
        {"group_size": 8, "world_size": 1},
    ),
    ({"a.ipynb": notebook("GRPOConfig(num_generations=8)")}, {"group_size": 8, "world_size": 1}),
    (
        {
            "a.sh": "accelerate launch --num_processes 4 a.py\n",
            "a.py": "J.from_pretrained('judge', device_map='auto')\nGRPOConfig(num_generations=8)\n",
        },
        {"group_size": 8, "world_size": 4},
    ),
    ({"a.ipynb": notebook("GRPOConfig(num_generations=8)", "notebook_launcher(main)")}, {"world_size": None}),
    # a program that calls the group otherwise than the trainer may count prompts in its batch
    (
        {"a.sh": "python grpo.py --group_size 8 --per_device_train_batch_size 1 --num_processes 8 --lr 1e-6"},
        {"group_size": 8, "rollout_prompts": None, "generation_batch": None},
    ),
    ({"dpo.yaml": "stage: dpo\nlora: {rank: 32}\nbeta: 0.1\nlearning_rate: 5e-7\n"}, {"lora_r": 32, "use_peft": True}),
    # counts of prompts
    ({"a.sh": "python train.py --lr 1e-6 --group-size 4 --num-questions-per-step 16"}, {"rollout_prompts": 16}),
    # the name of a section does not count if it is a value
    (
        {"a.yaml": "backend: {trl: true}\nnum_generations: 8\nreward_funcs: x\nlearning_rate: 1e-6\n"},
        {"framework": "TRL"},
    ),
    # a server whose client says how it trains
    ({"a.sh": "python -m skyrl.tinker.api --base-model a/b-7B --backend fsdp"}, {"framework": None}),
    # PipelineRL, with the group of hydra that it builds on
    (
        {
            "a.yaml": "defaults:\n  - finetune: base\n  - _self_\nllm: {parameters: {temperature: 1.0}}\nattempts: 8\n",
            "finetune/base.yaml": "learning_rate: 1e-6\nattempts: 4\nrl: {kl_coef: 0.001, epsilon_low: 0.02}\n",
        },
        {"framework": "PipelineRL", "group_size": 8, "learning_rate": 1e-6, "kl_coef": 0.001, "epsilon": 0.02},
    ),
    # an author's own configuration says nothing of an adapter that it does not name
    ({"a.py": "class GRPOConfig:\n    lr: float = 1e-4\nGRPOConfig(num_generations=4)"}, {"use_peft": None}),
    # of several configurations on which one builds the last counts; the backend that is on has the rate
    (
        {
            "a.yaml": "defaults: [b.yaml, c.yaml]\ngrpo: {num_generations_per_prompt: 8}\nloss_fn: {x: 1}\n",
            "b.yaml": "policy: {generation: {top_p: 0.5}, optimizer: {kwargs: {lr: 5e-6}}}\n",
            "c.yaml": "policy: {generation: {top_p: 1}, megatron_cfg: {enabled: true, optimizer: {lr: 1e-6}}}\n",
        },
        {"top_p": 1, "learning_rate": 1e-6, "megatron_rate": None},
    ),
    # the three documents of a run of prime-rl
    (
        {
            "train.toml": "[optim]\nlr = 2e-6\n",
            "orch.toml": "batch_size = 64\nrollouts_per_example = 8\n[sampling]\ntemperature = 0.9\n",
        },
        {"framework": "prime-rl", "learning_rate": 2e-6, "group_size": 8, "temperature": 0.9},
    ),
    # eval fills in what was escaped before
    (
        {"a.sh": 'K=6\nC=(trl grpo --beta 0.1\n  --num_generations \\$K)\neval "${C[@]}"'},
        {"group_size": 6, "kl_coef": 0.1},
    ),
    ({"a.sh": "K=6\nC='trl grpo --num_generations $K'\neval $C"}, {"group_size": 6}),
    # what hydra writes of a command, and its groups that begin at the folder of all
    (
        {"a.yaml": "- actor_rollout_ref.rollout.n=4\n- +trainer.test_freq=5\n"},
        {"group_size": 4, "evaluation": 5},
    ),
    (
        {
            "a.sh": 'cd "${ROOT}/sub"\n"${PYTHON}" grpo_main.py --config-path configs --config-name algo/one -m seed=0,1',
            "sub/configs/algo/one.yaml": "# @package _global_\ndefaults:\n  - /algo: two\n",
            "sub/configs/algo/two.yaml": "# @package _global_\nactor_rollout_ref: {rollout: {n: 8}}\n",
        },
        {"group_size": 8, "framework": "verl"},
    ),
    ({"a.yaml": "data: {train_batch_size: 2}\nactor_rollout_ref: {rollout: {n: 4}}\n"}, {"update_prompts": None}),
    # Python: fields that __init__ sets, dictionaries that functions return or that others are spread into
    (
        {"a.py": "class C:\n    def __init__(self):\n        self.k = 4\nGRPOConfig(num_generations=c.k, beta=0.1)"},
        {"group_size": 4},
    ),
    (
        {"a.py": "def made(args):\n    return {'num_generations': 4}\nGRPOConfig(**made(a), beta=0.1)"},
        {"group_size": 4, "kl_coef": 0.1},
    ),
    (
        {"a.py": "d = {'num_generations': 4, 'beta': 0.1}\ne = {**d, 'beta': 0.2}\nGRPOConfig(**e)"},
        {"group_size": 4, "kl_coef": 0.2},
    ),
    # what is put into a dictionary later counts, and of a branch only where it is taken
    (
        {
            "a.py": "d = dict(num_generations=8)\nd.update({'num_generations': 4}, beta=0.1)\nd |= {'epsilon': 0.3}\n"
            "d['temperature'] = 0.9\nd.setdefault('beta', 0.5)\nd.setdefault('top_p', 0.9)\nGRPOConfig(**d)\n"
            "d['epsilon'] = 0.1"
        },
        {"group_size": 4, "kl_coef": 0.1, "epsilon": 0.3, "temperature": 0.9, "top_p": 0.9},
    ),
    (
        {
            "a.py": "given = {'num_generations': 4, 'beta': 0.1}\nkept = {}\nfor k, v in given.items():\n"
            "    if k in fields:\n        kept[k] = v\nGRPOConfig(**kept)"
        },
        {"group_size": 4, "kl_coef": 0.1},
    ),
    (
        {
            "a.py": "c = {'k': 8, 'lr': 1e-6}\nc['k'] = 4\nc['lr'] = float(c['lr'])\nGRPOConfig(num_generations=c['k'], learning_rate=c['lr'])"
        },
        {"group_size": 4, "learning_rate": 1e-6},
    ),
    (
        {
            "a.py": "p.add_argument('--smoke', action='store_true')\nK = 8\nd = {'beta': 0.1}\nif a.smoke:\n    K = 2\n"
            "    d['beta'] = 0\nelse:\n    d['epsilon'] = 0.3\nc = GRPOConfig(num_generations=K, **d)\n"
            "if a.smoke:\n    c.temperature = 0.1"
        },
        {"group_size": 8, "kl_coef": 0.1, "epsilon": 0.3, "temperature": None},
    ),
    (
        {
            "a.py": "K = 8\nif unknown():\n    K = 2\nif other():\n    lr = 1e-6\nelse:\n    lr = 1e-5\n"
            "c = GRPOConfig(num_generations=K, learning_rate=lr, beta=0.1)\nif other():\n    c.beta = 0"
        },
        {"group_size": 8, "learning_rate": None, "kl_coef": 0.1},
    ),
    (
        {
            "a.py": "if __name__ == '__main__':\n    if mode == 'big':\n        K = 4\n        GRPOConfig(num_generations=K)\n"
            "K = 8"
        },
        {"group_size": 4},
    ),
    (
        {"a.py": "import easydel as ed\ned.GRPOConfig(num_return_sequences=4, beta=0.1, total_batch_size=8)"},
        {"group_size": 4, "framework": "hand-written trainer", "unknown_settings": None},
    ),
    (
        {
            "a.py": "from b import f\np.add_argument('--k', default=4)\nGRPOConfig(num_generations=args.k, beta=0.1)",
            "b.py": "def f(): pass\np.add_argument('--k', default=16)\n",
        },
        {"group_size": 4},
    ),
    (
        {"a.py": "from b import f\nf()", "b.py": "group_size = 4\nkl_coef = 0.1\ndef f(): pass\n"},
        {"framework": None},
    ),
    # what starts another file: scripts of the shell, commands in Python, notebooks, Makefiles and documents
    (
        {
            "a.sh": 'K=6\nexec "$(dirname "$0")/b.sh" --beta 0.1 "$@"',
            "b.sh": 'python train_grpo.py --num_generations ${K:-4} "$@"',
        },
        {"group_size": 6, "kl_coef": 0.1},
    ),
    ({"a.sh": "source c.env.sh\npython t.py --num_generations $K --beta 0.1", "c.env.sh": "K=6"}, {"group_size": 6}),
    ({"a.sh": "bash -c 'python train_grpo.py --num_generations 6'"}, {"group_size": 6}),
    ({"a.sh": "cat <<EOF > run.sh\npython train_grpo.py --num_generations 6\nEOF\nbash run.sh"}, {"group_size": 6}),
    ({"a.sh": "sbatch <<EOF\npython train_grpo.py --num_generations 6\nEOF\n"}, {"group_size": 6}),
    ({"a.sh": "uv run train.py", "train.py": "G = 6\nlr = 1e-6\nkl_coef = 0.1"}, {"group_size": 6}),
    (
        {"a.sh": "python main.py --config cfg/one.py", "cfg/one.py": "C = {'num_generations': 6, 'kl_coef': 0.1}"},
        {"group_size": 6},
    ),
    ({"a.sh": "echo python train_grpo.py\nK=6\necho train.py"}, {"framework": None}),
    ({"a.py": "k = 6\nsubprocess.run([sys.executable, 'grpo.py', '--num_generations', str(k)])"}, {"group_size": 6}),
    ({"a.py": "lr = 2e-6\nos.system(f'python grpo.py --num_generations 6 --lr {lr}')"}, {"learning_rate": 2e-6}),
    ({"Makefile": "K ?= 6\ntrain:\n\t@python grpo.py \\\n\t  --num_generations $(K)\n"}, {"group_size": 6}),
    ({"a.yaml": "run: |\n  cd x\n  python3 grpo.py \\\n    --num_generations 6\n"}, {"group_size": 6}),
    ({"a.yaml": "args: ['grpo.py', '--num_generations', '6', '--beta', '0.1']"}, {"group_size": 6}),
    (
        {"a.ipynb": notebook("K = 6", "%%time\nx = 1", "!python grpo.py --num_generations {K} \\\n  --beta 0.1")},
        {"group_size": 6, "kl_coef": 0.1},
    ),
    ({"a.ipynb": notebook("%%bash\npython grpo.py --num_generations 6")}, {"group_size": 6}),
    (
        {"a.ipynb": notebook("%%writefile c.yaml\nnum_generations: 6", "!python grpo.py --config c.yaml")},
        {"group_size": 6},
    ),
    # a piece of a function, and sections that are switched off or of another stage
    ({"a.py": "  # of the class\n  c = GRPOConfig(\n  num_generations=6, beta=0.1,\n)\n"}, {"group_size": 6}),
    ({"a.yaml": "quantization: {group_size: 128}\nkl_coef: 0.1\nlr: 1e-6"}, {"group_size": None}),
    (
        {"a.yaml": "actor: {lr: 1e-6, kl: {coef: 0.1}}\nresponses_per_prompt: 6\ngroup_size: 4"},
        {"kl_coef": 0.1, "group_size": 6},
    ),
    ({"a.yaml": "rollout: {num_generations: 6, lr: 1e-6}\nlora: {enabled: false, r: 8}"}, {"lora_r": None}),
    ({"a.yaml": "training: {lr: 2e-5}\ngrpo: {lr: 2e-6, group_size: 6}"}, {"learning_rate": 2e-6}),
    ({"a.yaml": "group_size: 6\nlr: 1e-6\nrepetition_penalty: -0.1"}, {"repetition_penalty": None}),
    (
        {
            "a.py": "K = 6\nC = {'algorithm': {'adv_estimator': 'grpo'}, 'actor_rollout_ref': {'rollout': {'n': K},"
            " 'actor': {'optim': {'lr': 1e-6}}}}\nTrainer(VERL(C)).fit(agent)"
        },
        {"framework": "verl", "group_size": 6, "learning_rate": 1e-6},
    ),
    # agents of ART, a helper that asks the environment, and a dictionary of which the trainer takes what it knows
    (
        {
            "a.py": "import art\ntune(art.SFTConfig(learning_rate=2e-6))\n"
            "g = [art.TrajectoryGroup(roll(s) for _ in range(6)) for s in t]\nart.TrainConfig(learning_rate=1e-5)"
        },
        {"group_size": 6, "learning_rate": 1e-5},
    ),
    (
        {
            "a.py": "class TrainConfig:\n    lr: float = 5e-5\nclass GRPOConfig:\n    group_size: int = 6\n"
            "    lr: float = 5e-6\n    epsilon_clip: float = 0.1\n"
        },
        {"group_size": 6, "learning_rate": 5e-6, "epsilon": 0.1},
    ),
    ({"a.py": "GRPOConfig(num_generations=stage_env_int('one', 'K', 6), beta=0.1)"}, {"group_size": 6}),
    (
        {
            "a.py": "def build(**given):\n    kw = {'num_generations': given['k'], 'beta': 0.1}\n"
            "    return GRPOConfig(**{k: v for k, v in kw.items() if k in known})\nbuild(k=6)"
        },
        {"group_size": 6, "kl_coef": 0.1},
    ),
    # a configuration that a script loads
    (
        {
            "a.py": "c = yaml.safe_load(open('c.yaml'))\nGRPOConfig(num_generations=c['grpo']['k'], beta=c['grpo']['b'])",
            "c.yaml": "grpo: {k: 6, b: 0.1}",
        },
        {"group_size": 6, "kl_coef": 0.1},
    ),
    (
        {"a.py": "c = OmegaConf.load('c.yaml')\nGRPOConfig(**c.grpo)", "c.yaml": "grpo: {num_generations: 6}"},
        {"group_size": 6},
    ),
    (
        {"a.py": "from c import C\nC()", "c.py": "class C:\n    group_size: int = 6\n    kl_coef: float = 0.1"},
        {"group_size": 6},
    ),
    # what only looks like a setting
    (
        {
            "a.py": "def f():\n    kw = {'num_generations': 6}\n    GRPOConfig(**kw, beta=0.1)\n"
            "def g():\n    kw['strange'] = 1"
        },
        {"group_size": 6, "unknown_settings": None},
    ),
    ({"a.py": "def roll(n_samples_per_prompt=1): pass\nkl_coef = 0.1\nlr = 1e-6"}, {"group_size": None}),
    ({"a.yaml": "actor: {beta: 0.1, optim: {lr: 1e-6}}\nepochs: 1"}, {"framework": None}),
    ({"a.yaml": "group: grpo-runs\ngroup_size: 6\nkl_coef: 0.1"}, {"group_size": 6}),
    ({"a.yaml": "learning_rate: 2e-4\ngrpo_learning_rate: 2e-5\ngrpo_num_generations: 6"}, {"learning_rate": 2e-5}),
    ({"a.yaml": "training: {grpo: {groupSize: 6, learningRate: 2e-5}}"}, {"group_size": 6, "learning_rate": 2e-5}),
    ({"a.yaml": "grpo: {num_trajectories: 16, kl_coef: 0.001, lr: 1e-6}"}, {"group_size": 16}),
    ({"a.yaml": "num_trajectories: 16\nlr: 1e-6"}, {"group_size": None}),
    ({"a.yaml": "rollouts_per_caption: 2\nkl_coef: 0.1\nlr: 1e-6"}, {"group_size": 2}),
    ({"a.yaml": "rollouts_per_step: 32\nkl_coef: 0.1\nlr: 1e-6"}, {"group_size": None}),
    ({"a.yaml": "rollout: {n: 8, batch_size: 16}\ntrain: {ppo_epochs: 1, beta: 0.0}"}, {"group_size": 8}),
    ({"a.yaml": "max_lr: 2e-5\nmin_lr: 1e-6\nnum_gen: 4"}, {"learning_rate": 2e-5}),
    ({"a.yaml": "lr: 3e-6\nmax_lr: 2e-5\nnum_gen: 4"}, {"learning_rate": 3e-6}),
    ({"a.yaml": "lr: 10\nkl_coef: 0.1\nnum_gen: 4"}, {"learning_rate": None}),
    ({"a.py": "class T:\n    def __init__(self, model, group_size): pass\nkl_coef = 0.1\nT(m, 8)"}, {"group_size": 8}),
    (
        {"a.py": "conf['lr'] = lr = 6e-6\nconf.method.cliprange = 0.1\ngroup_size = 4"},
        {"epsilon": 0.1, "learning_rate": 6e-6},
    ),
    # which of several names counts, and which of several places
    ({"a.py": "TrainConfig(rollout_count=25, group_size=5, epsilon=0.2)"}, {"group_size": 5}),
    ({"a.yaml": "num_rollouts: 16\ngen_per_sample: 4\nkl_coef: 0.1"}, {"group_size": 4}),
    ({"a.yaml": "lam: 0.95\nprompts_per_step: 4\nnum_rollouts: 8\nlr: 1e-6"}, {"group_size": 8}),
    ({"a.yaml": "lam: 0.95\nnum_rollouts: 8\nlr: 1e-6\nkl_coef: 0.1"}, {"group_size": None}),
    (
        {
            "a.py": "SFT_CONFIG = dict(learning_rate=2e-4)\nGRPO_CONFIG = dict(learning_rate=1e-5, num_generations=4, beta=0.1)"
        },
        {"learning_rate": 1e-5},
    ),
    (
        {
            "a.py": "from rl import train\nB(group_size=16)\nc = train.Config(learning_rate=4e-5)\n",
            "rl/train.py": "class Config:\n    learning_rate: float = 1.0\nlog = {'lr': cfg.learning_rate}\n",
        },
        {"learning_rate": 4e-5},
    ),
    (
        {
            "a.py": "from api import AdamParams\ngroup_size = 4\nkl_coef = 0.1\nAdamParams(lr=5e-3)\n",
            "api.py": "class AdamParams:\n    lr: float = 1e-3\n",
        },
        {"learning_rate": 5e-3},
    ),
    (
        {
            "a.py": "config.ppo = ppo = ConfigDict()\nppo.kl_coef = 0.1\nconfig.training = t = ConfigDict()\nt.learning_rate = 1e-3"
        },
        {"kl_coef": 0.1, "learning_rate": 1e-3},
    ),
    (
        {"a.py": "def main(group_size=None):\n    group_size = group_size or 32\n    kl_coef = 0.1\n"},
        {"group_size": 32},
    ),
    # a dictionary that is passed as a whole, and one among other arguments
    (
        {
            "a.py": "def build(**kwargs):\n    left = {k: v for k, v in kwargs.items() if k in taken}\n"
            "    return GRPOConfig(**left)\nkept: dict = dict(num_generations=4, beta=0.1)\nargs = build(**kept)\n",
        },
        {"group_size": 4, "kl_coef": 0.1},
    ),
    (
        {
            "a.py": "def build(**kwargs):\n    return GRPOConfig(**kwargs)\nkept = dict(temperature=0.9)\n"
            "args = build(num_generations=4, learning_rate=3e-6, **kept)\n",
        },
        {"group_size": 4, "learning_rate": 3e-6, "temperature": 0.9},
    ),
    # a module next to a script loads a document for it, and another with the same keys
    (
        {
            "train_grpo.py": "from b import RL\nGRPOConfig(num_generations=RL['rl']['k'], learning_rate=RL['train']['lr'])\n",
            "b.py": "import yaml\nwith open('sft.yml') as f:\n    SFT = yaml.safe_load(f)\n"
            "with open('rl.yml') as f:\n    RL = yaml.safe_load(f)\n",
            "rl.yml": "rl: {k: 4}\ntrain: {lr: 3e-6}\n",
            "sft.yml": "train: {lr: 2e-4}\n",
        },
        {"group_size": 4, "learning_rate": 3e-6},
    ),
    # constants that a hand-written trainer imports by their names are its own
    (
        {
            "train_grpo.py": "from config import beta, clip_param, num_candidates\nlr = 3e-6\nbatch_size = 2\n",
            "config.py": "beta = 0.04\nclip_param = 0.2\nnum_candidates = 8\ntrain_batch_size = 2\n",
        },
        {"framework": "hand-written trainer", "group_size": 8, "kl_coef": 0.04, "epsilon": 0.2},
    ),
    (
        {"a.py": "group_size = 8\nbeta_kl = 0.1\nsampling_max_tokens = 64\n"},
        {"group_size": 8, "kl_coef": 0.1, "max_new_tokens": 64},
    ),
    # what the arguments leave open a document says
    (
        {
            "a.py": "p.add_argument('--learning-rate', default=None)\nc = load_config(ROOT / 'configs' / 'a.yaml').training\n"
            "def train(learning_rate=None):\n    lr = learning_rate if learning_rate is not None else c.learning_rate\n"
            "    GRPOConfig(learning_rate=lr, num_generations=c.group_size)\ntrain(learning_rate=args.learning_rate)\n",
            "configs/a.yaml": "training: {group_size: 8, learning_rate: 3e-6}",
        },
        {"group_size": 8, "learning_rate": 3e-6},
    ),
    # what a function passes on, and what is left of it
    (
        {
            "a.py": "def build(**kwargs):\n    left = {k: v for k, v in kwargs.items() if k in taken}\n"
            "    return GRPOConfig(**left)\nargs = build(num_generations=4, learning_rate=3e-6)\n",
        },
        {"group_size": 4, "learning_rate": 3e-6},
    ),
    (
        {
            "a.py": "def settings():\n    kwargs = dict(num_generations=4)\n    return kwargs\n"
            "def build():\n    kwargs = settings()\n    left = {k: v for k, v in kwargs.items() if k in taken}\n"
            "    return GRPOConfig(**left)\n",
        },
        {"group_size": 4},
    ),
    (
        {
            "a.py": "def common():\n    rl = '--advantage-estimator grpo --eps-clip 0.2 '\n"
            "    return f'--n-samples-per-prompt 4 --rollout-batch-size 8 --global-batch-size 32 --lr 1e-6 {rl}'\n"
            "execute_train(train_args=f'{common()} --rollout-max-response-len 8')\n",
        },
        {"group_size": 4, "learning_rate": 1e-6, "framework": "slime"},
    ),
    # a number in a module next to a script is not used for training
    (
        {"a.py": "from b import P\nkl_coef = 0.1\nlr = 1e-6\n", "b.py": "class P:\n    group_size: int = 1\n"},
        {"group_size": None},
    ),
    (
        {
            "a.sh": "python grpo.py --lr 5e-7 --num_generations 4 --full_finetune",
            "grpo.py": "c = LoraConfig(r=64) if args.use_lora else None\n"
            "GRPOConfig(num_generations=args.num_generations, learning_rate=args.lr, beta=0.1)\n",
        },
        {"use_peft": False},
    ),
    # a script that another starts where the project lies elsewhere, and what it passes on
    (
        {
            "s/a.sh": "ROOT=${ROOT:-/work/project}\npython $ROOT/s/prepare.py --responses_per_group 4 --seed 1\n"
            "K=8 bash $ROOT/s/b.sh actor_rollout_ref.actor.optim.lr=1e-7\n",
            "s/b.sh": "python -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=$K algorithm.adv_estimator=grpo $@\n",
        },
        {"group_size": 8, "learning_rate": 1e-7, "framework": "verl"},
    ),
    # groups of hydra: one that a document overrides, and sections of another section
    (
        {
            "a.yaml": "defaults:\n  - base\n  - override finetune: ppo\n  - _self_\nmodel_path: m\n",
            "base.yaml": "defaults:\n  - finetune: grpo\nattempts: ${finetune.attempts}\nactor: {llm_max_rollouts: 32}\n",
            "finetune/grpo.yaml": "attempts: 8\nrl: {policy_loss: ppo}\n",
            "finetune/ppo.yaml": "attempts: 1\nrl: {policy_loss: ppo}\n",
        },
        {"group_size": 1},
    ),
    (
        {
            "a.yaml": "defaults:\n  - actor@actor_rollout_ref.actor: dp\nactor_rollout_ref: {rollout: {n: 4}}\n"
            "algorithm: {adv_estimator: grpo}\n",
            "actor/dp.yaml": "defaults:\n  - actor\n",
            "actor/actor.yaml": "optim: {lr: 2e-6}\n",
        },
        {"group_size": 4, "learning_rate": 2e-6},
    ),
    # a branch that the script's own default decides
    (
        {"a.sh": "M=${M:-a}\nif [[ $M == b ]]; then K=4; else K=8; fi\npython train_grpo.py --lr 1e-6 --group_size $K"},
        {"group_size": 8},
    ),
    (
        {"a.sh": "if [ $1 = b ]; then K=4; else K=8; fi\npython train_grpo.py --lr 1e-6 --group_size $K"},
        {"group_size": 4},
    ),
    # the flags of a program of the author's own are not fields of the configuration that it builds
    (
        {
            "a.sh": "python train_grpo.py --task all --k 8",
            "train_grpo.py": "p.add_argument('--k', default=4)\nGRPOConfig(num_generations=args.k, beta=0.1)\n",
        },
        {"group_size": 8, "unknown_settings": None},
    ),
    # names of loss and limit in single scripts; an algorithm that is called like one of pairs
    ({"a.py": "p.add_argument('--num_chains', default=6)\nlr = 1e-6\nkl_weight_beta = 0.1"}, {"group_size": 6}),
    ({"a.yaml": "group_size: 6\nlr: 1e-6\nsampling_max_tokens: 9"}, {"max_new_tokens": 9}),
    ({"a.yaml": "group_size: 6\nlr: 1e-6\nmax_response_tokens: 9"}, {"max_new_tokens": 9}),
    ({"a.yaml": "algorithm: ipo\ngroup_size: 6\nlr: 1e-6\nclip_eps: 0.2"}, {"framework": "hand-written trainer"}),
    ({"a.yaml": "algorithm: ipo\nbeta: 0.1\nlr: 1e-6\n"}, {"algorithm": "ipo", "dpo_beta": 0.1, "kl_coef": None}),
    # the name of a case in the shell is not an argument of the command above it
    (
        {"a.sh": "python grpo.py --group_size 6 --lr 1e-6\ncase $1 in\ng.lr=1|g.lr=2)\n;;\nesac"},
        {"learning_rate": 1e-6},
    ),
    # documents and scripts that a script of the shell writes, whether a command names them or not
    (
        {"a.sh": "K=6\ncat <<EOF > c.yaml\nnum_generations: $K\nlearning_rate: 1e-6\nbeta: 0.1\nEOF\n./start\n"},
        {"group_size": 6, "kl_coef": 0.1},
    ),
    ({"a.sh": "cat > t.py <<'E'\nGRPOConfig(num_generations=6, beta=0.1)\nE\npython t.py"}, {"group_size": 6}),
    # a root with its own default, and packages below src
    (
        {
            "s/a.sh": 'R="${R:-$(cd ${D}/.. && pwd)}"\n"$R/s/b.sh"\n',
            "s/b.sh": "python train.py --group_size 6 --lr 1e-6",
        },
        {"group_size": 6},
    ),
    (
        {
            "a.sh": "python -m p.grpo_train --lr 1e-6",
            "src/p/grpo_train.py": "a('--x')\np.add_argument('--group_size', default=6)",
        },
        {"group_size": 6},
    ),
    # Hydra's documents lie next to the started module; another key of the command takes precedence
    *(
        (
            {
                "run/a.sh": f"python -m verl.trainer.main_ppo {flags} actor_rollout_ref.model.lora.rank=16",
                "verl/trainer/config/own.yaml": "actor_rollout_ref: {rollout: {n: 6}, model: {lora_rank: 0}}\n",
            },
            {"group_size": 6, "lora_r": 16},
        )
        for flags in ("--config-name=own", "--config-path=config --config-name='own.yaml'")
    ),
    # the documents that a ConfigMap holds
    (
        {"a.yaml": "kind: ConfigMap\ndata:\n  c.yaml: |\n    group_size: 6\n    lr: 1e-6\n    beta: 0.1\n"},
        {"group_size": 6},
    ),
    # options that a script takes by case, with what the one that starts it passes
    (
        {
            "a.sh": "bash b.sh --lr 3e-6 --k=6\n",
            "b.sh": 'while (( "$#" )); do\n  case "$1" in\n    -l|--lr)\n      lr="$2"; shift 2 ;;\n    --k=*)\n'
            '      k="${1#*=}"; shift ;;\n    --beta)\n      beta="$2"; shift 2 ;;\n  esac\ndone\n'
            "trl grpo --num_generations $k --learning_rate $lr --beta ${beta:-0.1}\n",
        },
        {"group_size": 6, "learning_rate": 3e-6, "kl_coef": 0.1},
    ),
    # an option of a script that has several names
    (
        {
            "a.sh": "python train_grpo.py --lr 3e-6 --num_generations 6\n",
            "train_grpo.py": "from trl import GRPOConfig\np.add_argument('--learning_rate', '--lr', default=1e-6)\n"
            "p.add_argument('--num_generations', default=4)\na = p.parse_args()\n"
            "GRPOConfig(learning_rate=a.learning_rate, num_generations=a.num_generations, beta=0.1)\n",
        },
        {"learning_rate": 3e-6, "group_size": 6},
    ),
    # what an author leaves to be filled in ends no command
    (
        {"a.sh": "trl grpo --num_generations 6 \\\n  --api_key <your_key_here> \\\n  --beta 0.1\n"},
        {"group_size": 6, "kl_coef": 0.1, "cannot_run": None},
    ),
    # arguments that a dictionary in a call holds
    (
        {"a.py": "GRPOConfig(num_generations=8, generation_kwargs={'no_repeat_ngram_size': 3}, adam_epsilon=1e-8)"},
        {"no_repeat_ngram": 3, "adam_epsilon": 1e-8},
    ),
    # a document with keys that today's trainer no longer takes
    (
        {"a.yaml": "num_generations: 8\nbeta: 0.1\nmax_completion_length: 64\nevaluation_strategy: steps\n"},
        {"removed_settings": "evaluation_strategy (removed in transformers 4.46; instead: eval_strategy)"},
    ),
    ({"a.py": "def advantage(r, epsilon=1e-6): pass\nGRPOTrainer(args=GRPOConfig(beta=0.1))"}, {"epsilon": 0.2}),
    ({"a.py": "def loss(r, epsilon=3e-4): pass\ngroup_size = 6\nlr = 1e-6\nkl_coef = 0.1"}, {"group_size": 6}),
    # parameters of what trains count before those of its parts; groups of examples that are held out do not
    ({"a.py": "def advantages(r, num_generations=32): pass\ngroup_size = 6\nlr = 1e-6"}, {"group_size": 6}),
    (
        {
            "a.py": "class T:\n    def __init__(self, group_size=4): pass\n"
            "def train(group_size=typer.Option(6), lr=1e-6, kl_coef=0.1): T(group_size=group_size)\n"
        },
        {"group_size": 6},
    ),
    (
        {
            "a.py": "v = [TrajectoryGroup(roll(m) for _ in range(2)) for p in val_puzzles]\n"
            "t = [TrajectoryGroup(roll(m) for _ in range(6)) for p in puzzles]\n"
            "m.train(t, TrainConfig(learning_rate=1e-6))"
        },
        {"group_size": 6},
    ),
]


@pytest.mark.parametrize(("files", "expected"), KINDS)
def test_kinds_of_configuration(tmp_path: Path, files: dict[str, str], expected: dict[str, Any]) -> None:
    for name, text in files.items():
        (at := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
    found = read(tmp_path / next(iter(files)))[0].settings
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("a.py", "from trl import GRPOConfig\np = TrlParser((Own, GRPOConfig))\n", "line 2 fills GRPOConfig"),
        ("a.py", "# GRPO\np.add_argument('--config', required=True)\n", "the file given by --config (line 2)"),
        ("a.sh", "python -m rl.grpo_train\n", "it starts rl/grpo_train.py, which was not found"),
        ("b.sh", "python b.py --x\n", "in b.py, line 1 fills PPOConfig"),
        ("c.sh", 'R=${R:-/p}\n"$R/run_it.sh" "$@"\n', "it starts /p/run_it.sh, which was not found"),
        ("d.sh", "accelerate launch --num_processes 2 go.py name=x\n", "it starts go.py, which was not found"),
    ],
)
def test_a_script_whose_settings_are_elsewhere_names_the_place(
    tmp_path: Path, name: str, text: str, where: str
) -> None:
    (tmp_path / "b.py").write_text("args = tyro.cli(PPOConfig)\n")
    (tmp_path / name).write_text(text)
    diagnosis = judge(read(tmp_path / name)[0], name)
    assert where in diagnosis.headline
    assert diagnosis.findings == []
    assert diagnosis.verdict == "unjudged"


OF_A_CLASS = "class Judge:\n    def score(self, **kwargs): pass\n"


def test_a_reward_function_that_is_given_its_name_again_is_not_judged(tmp_path: Path) -> None:
    """For example, a function returns the reward function, and the result gets the same name."""
    trainer = "GRPOTrainer(reward_funcs=[score], args=GRPOConfig(num_generations=8))"
    for again, codes in (
        ("", ["CFG034"]),
        ("score = score(judge)\n", []),
        ("def score(**kwargs): return [0.0]\n", []),
        (OF_A_CLASS, ["CFG034"]),
    ):
        (tmp_path / "a.py").write_text(f"def score(judge): pass\n{again}{trainer}")
        findings = judge(read(tmp_path / "a.py")[0], "a.py").findings
        assert [f.code for f in findings if f.severity == "error"] == codes
    (tmp_path / "a.py").write_text(f"@passes_what_it_takes\ndef score(judge): pass\n{trainer}")
    assert not [f for f in judge(read(tmp_path / "a.py")[0], "a.py").findings if f.code == "CFG034"]


def test_an_unresolvable_group_names_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("GRPOConfig(num_generations=found(), beta=0.1)")
    diagnosis = judge(read(tmp_path / "a.py")[0], "a.py")
    assert diagnosis.tables[0].rows[0][2] == "not resolved: num_generations = found()"


def test_a_script_that_imports_a_training_to_inspect_a_model_only_evaluates(tmp_path: Path) -> None:
    (tmp_path / "train_grpo.py").write_text("def args():\n    return GRPOConfig(num_generations=8, beta=0.1)\n")
    (path := tmp_path / "evaluate.py").write_text("from train_grpo import args\nmodel.generate(max_new_tokens=9)\n")
    assert read(path)[0].run_type == "evaluation"
    (path := tmp_path / "run.py").write_text("from train_grpo import args\nGRPOTrainer(args=args())\n")
    assert read(path)[0].run_type == "rl"


def test_an_evaluation_script_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "actor_rollout_ref: {rollout: {n: 5}}\nalgorithm: {adv_estimator: grpo}\n", "utf-8"
    )
    assert judge(read(tmp_path / "a.yaml")[0], "a.yaml").headline.startswith("Read 2 settings of verl")
    (tmp_path / "b.yaml").write_text((tmp_path / "a.yaml").read_text("utf-8") + "trainer: {val_only: true}\n", "utf-8")
    diagnosis = judge(read(tmp_path / "b.yaml")[0], "b.yaml")
    told = "This file configures no training, only evaluation."
    assert (diagnosis.verdict, diagnosis.headline) == ("unjudged", told)


def test_scripts_that_start_each_other_end(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.sh").write_text(f"bash {other}.sh\n" * 300)
    assert read(tmp_path / "a.sh")[0].run_type == "none"


def test_odd_arithmetic_of_a_script_warns_no_one(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "train.sh"
    path.write_text("A=$((1if 2else 3))\npython -m openrlhf.cli.train_ppo_ray --n_samples_per_prompt 8 --x $A\n")
    (found,) = read(path)
    assert found.settings["group_size"] == 8
    assert not recwarn.list


def test_a_configuration_that_a_notebook_writes_and_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    cells = ["%%writefile grpo.yaml\nnum_generations: [8\nbeta: 0.1\n", "!trl grpo --config grpo.yaml --beta 0.04"]
    notebook = {"cells": [{"cell_type": "code", "source": source} for source in cells]}
    (path := tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    (found,) = read(path)
    assert (found.settings["kl_coef"], found.assumed) == (0.04, {})
    assert any(note.startswith("grpo.yaml, which the notebook writes, was not read: not YAML") for note in found.notes)
    assert any(note.startswith("the settings of grpo.yaml were not read: not YAML") for note in found.notes)


def test_a_notebook_without_readable_output_is_reported(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": "%%writefile grpo.yaml\nnum_generations: [8\n"}
    (path := tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    (found,) = read(path)
    assert [note.split(":")[0] for note in found.notes] == ["grpo.yaml, which the notebook writes, was not read"]


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("trl grpo --config there.yaml --num_generations 8\n", "there.yaml", "beta: [1\n"),
        ("python train_grpo.py --num_generations 8\n", "train_grpo.py", "def (\n"),
    ],
)
def test_unreadable_files_are_named_and_nothing_is_assumed(tmp_path: Path, command: str, name: str, text: str) -> None:
    (path := tmp_path / "a.sh").write_text(command)
    (tmp_path / name).write_text(text)
    (found,) = read(path)
    assert found.assumed == {}
    (note,) = [note for note in found.notes if "not read" in note]
    assert name in note
    assert ": not Python" in note or ": not YAML" in note


def test_a_document_that_a_script_loads_and_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    text = 'config = yaml.safe_load(open("grpo.yaml"))\nGRPOConfig(num_generations=8, beta=config["beta"])\n'
    (path := tmp_path / "a.py").write_text(text)
    (tmp_path / "grpo.yaml").write_text("beta: [1\n")
    (found,) = read(path)
    assert (found.settings["group_size"], found.assumed) == (8, {})
    assert any(note.startswith("grpo.yaml was not read: not YAML") for note in found.notes)


_FILTERED = [
    "names = set(inspect.signature(GRPOConfig.__init__).parameters)\nargs = GRPOConfig(**kept)",
    "def known(cls):\n    return {f.name for f in dataclasses.fields(cls)}\nargs = GRPOConfig(**kept)",
    "try:\n    args = GRPOConfig(**kept)\nexcept (TypeError, ValueError):\n    raise SystemExit(2)",
]


@pytest.mark.parametrize("build", _FILTERED)
def test_a_script_that_asks_for_the_arguments_of_a_configuration_drops_the_others(tmp_path: Path, build: str) -> None:
    head = (
        "from trl import GRPOConfig, GRPOTrainer\nkept = dict(num_generations=8, learning_rate=1e-6, no_such_key=3)\n"
    )
    tail = "\nGRPOTrainer(args=args).train()\n"
    assert settings_of(tmp_path, "train.py", head + build + tail).get("drops_unknown") is True
    plain = "tells = inspect.signature(reward).parameters\nargs = GRPOConfig(**kept)"
    assert "drops_unknown" not in settings_of(tmp_path, "train.py", head + plain + tail)


def test_the_group_of_a_fork_of_verl_with_its_own_rollouts_is_unknown(tmp_path: Path) -> None:
    start = "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=16 "
    assert "group_size" not in settings_of(tmp_path, "b.sh", start + "env.max_steps=20 env.seed=6")


def test_a_variable_of_the_shell_makes_no_fork_of_verl(tmp_path: Path) -> None:
    command = (
        "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=16 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.rollout.n={n}"
    )
    (path := tmp_path / "a.sh").write_text("export CUDA_VISIBLE_DEVICES=4\n" + command.format(n=1))
    found = judge(read(path)[0], "a.sh").findings
    assert {(f.code, f.severity) for f in found} >= {("CFG018", "error"), ("CFG001", "warning")}
    more = "export CUDA_VISIBLE_DEVICES=4\n" + command.format(n=8) + " env.max_steps=20"
    assert settings_of(tmp_path, "b.sh", more)["own_rollout"] is True


def test_settings_from_a_missing_file_are_not_assumed(tmp_path: Path) -> None:
    start = "bash examples/run.sh data.train_batch_size=32 actor_rollout_ref.rollout.n=4"
    for name, text in (("a.sh", start), ("b.yml", f"steps:\n  - run: |\n      ray stop --force\n      {start}\n")):
        (path := tmp_path / name).write_text(text)
        found = read(path)[0]
        assert (found.settings["group_size"], found.assumed) == (4, {})
        assert found.notes == ["it starts examples/run.sh, which was not read"]
    (at := tmp_path / "examples" / "run.sh").parent.mkdir()
    at.write_text("python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo $@\n")
    found = read(tmp_path / "a.sh")[0]
    assert (found.settings["adv_estimator"], found.settings["update_prompts"]) == ("grpo", 256)


def test_the_parameters_of_a_function_are_none_of_what_it_passes_on(tmp_path: Path) -> None:
    text = (
        "def build(**kwargs):\n    return GRPOConfig(**{'num_generations': 4, **kwargs})\n"
        "def train(path, *, only=False, **kwargs):\n    return build(**kwargs)\n"
        "train(path='a', only=True, beta=0.1)\n"
    )
    said = settings_of(tmp_path, "a.py", text)
    assert (said["group_size"], said["kl_coef"], said.get("unknown_settings")) == (4, 0.1, None)


def test_an_unreadable_part_of_a_dictionary_is_noted(tmp_path: Path) -> None:
    text = "from elsewhere import more\nGRPOConfig(**{**more, 'num_generations': 8, 'beta': 0.1})\n"
    (path := tmp_path / "a.py").write_text(text)
    found = read(path)[0]
    assert found.settings["group_size"] == 8
    assert found.notes == ["line 2: arguments passed through ** were not read"]
    assert not found.assumed


def test_a_document_refers_to_values_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    document = (
        "algo:\n  estimator: grpo\nrollout: {n: 4, temperature: 1.0}\nactor:\n  adv_estimator: ${algo.estimator}\n"
    )
    (tmp_path / "conf" / "main.yaml").write_text(f"{document}  lr: 1.0e-6\n", encoding="utf-8")
    main = "@hydra.main(config_path='conf', config_name='main')\ndef main(config):\n    run(config)\n"
    (tmp_path / "train.py").write_text(f"import hydra\n\n{main}\nmain()\n", encoding="utf-8")
    said = settings_of(tmp_path, "run.sh", "python train.py rollout.n=8 algo.estimator=rloo trainer.steps=5")
    assert (said["adv_estimator"], said["group_size"]) == ("rloo", 8)
    assert settings_of(tmp_path, "plain.sh", "python train.py rollout.n=8 trainer.steps=5")["adv_estimator"] == "grpo"
    named = settings_of(tmp_path, "named.sh", "python other.py --config conf/main.yaml --algo.estimator reinforce")
    assert named["adv_estimator"] == "reinforce"
