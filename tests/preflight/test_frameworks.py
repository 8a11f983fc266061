"""Meaning of the keys of each framework, according to its own sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.preflight.judgement import judge
from grpo_doctor.preflight.reading import read

ALIGNER = (
    "trainer:\n  num_nodes: 1\n  devices: 8\n  {algorithm}:\n    initial_policy_kl_penalty: 0.01\n{group}"
    "model:\n  global_batch_size: 64\n  {algorithm}:\n    num_rollout_samples: 512\n    sampling_params:\n"
    "      temperature: 0.9\n  optim:\n    lr: 9e-7\n"
)
NEMO = (
    "grpo: {{num_prompts_per_step: 32, num_generations_per_prompt: 16}}\nloss_fn: {{reference_policy_kl_penalty: 0.01}}\n"
    "policy:\n  optimizer: {{kwargs: {{lr: 5e-6}}}}\n  train_global_batch_size: 512\n"
    "  dtensor_cfg: {{enabled: {dtensor}, lora_cfg: {{enabled: false, dim: 8}}}}\n"
    "  megatron_cfg: {{enabled: {megatron}, optimizer: {{lr: 1e-5}}, peft: {{enabled: true, dim: 8}}}}\n"
)
EASY = (
    "python3 -m verl.trainer.main worker.rollout.n=5 worker.actor.optim.lr=1e-6 algorithm.kl_coef=0.01 "
    "algorithm.use_kl_loss={loss} {more}"
)
ROLL = (
    "rollout_batch_size: 64\nadv_estimator: grpo\nactor_train: {{training_args: {{learning_rate: 1e-6}}}}\n"
    "pg_clip: 0.1\npg_clip_low: 0.2\npg_clip_high: 0.3\nuse_pg_clip_range: {apart}\n{more}"
)
SKY = "uv run -m skyrl_train.entrypoints.main_base trainer.algorithm.advantage_estimator=grpo {more}"
PRIME = (
    "max_steps = 100\nbatch_size = 128\nrollouts_per_example = 8\n[sampling]\ntemperature = 0.8\n[[env]]\nid = 'a/b'\n"
)

TRL = (
    "{pin}from trl import GRPOConfig\nGRPOConfig(num_generations=8, per_device_train_batch_size=1, "
    "gradient_accumulation_steps=8)\n"
)

MEANT: list[tuple[str, str, dict[str, Any]]] = [
    (
        "a.yaml",
        ALIGNER.format(algorithm="reinforce", group="    num_rollouts_per_prompt: 4\n"),
        {
            "framework": "NeMo-Aligner",
            "group_size": 4,
            "learning_rate": 9e-7,
            "rollout_prompts": 512,
            "temperature": 0.9,
        },
    ),
    ("a.yaml", ALIGNER.format(algorithm="ppo", group=""), {"framework": "NeMo-Aligner", "group_size": None}),
    ("a.yaml", NEMO.format(dtensor="true", megatron="false"), {"learning_rate": 5e-6, "use_peft": False}),
    ("a.yaml", NEMO.format(dtensor="false", megatron="true"), {"learning_rate": 1e-5, "use_peft": True, "lora_r": 8}),
    ("a.yaml", NEMO.format(dtensor="true", megatron="false"), {"importance_sampling_level": None}),
    ("a.sh", "python -m verl.experimental.vla.main_ppo actor_rollout_ref.rollout.n=8", {"of_actions": True}),
    ("a.sh", "python -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/Openvla-7B", {"of_actions": True}),
    ("a.sh", "python -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/Novlang-7B", {"of_actions": None}),
    (
        "a.yaml",
        NEMO.format(dtensor="true", megatron="false") + "loss_fn: {sequence_level_importance_ratios: true}\n",
        {"importance_sampling_level": "sequence"},
    ),
    (
        "a.sh",
        "python slime/train.py --n-samples-per-prompt 2 --rollout-batch-size 8 --global-batch-size 6",
        {"rollout_prompts": 8, "update_responses": 6},
    ),
    ("a.sh", EASY.format(loss="true", more=""), {"use_kl_in_reward": None, "group_size": 5}),
    ("a.sh", EASY.format(loss="false", more=""), {"use_kl_in_reward": True}),
    ("a.sh", EASY.format(loss="true", more="algorithm.disable_kl=true"), {"use_kl_loss": False}),
    (
        "a.sh",
        "python3 -m openrlhf.cli.train_ppo_ray --algo.kl.init_coef 0.01 --algo.kl.use_loss false",
        {"kl_coef": 0.01, "use_kl_in_reward": True},
    ),
    # ROLL's agentic pipeline counts trajectories, its other one prompts; a limit is what is left of the sequence
    (
        "a.yaml",
        ROLL.format(apart="false", more="train_env_manager: {group_size: 8}\nprompt_length: 1024\n"),
        {"rollout_responses": 64, "rollout_prompts": 8, "epsilon": 0.1, "epsilon_high": None},
    ),
    (
        "a.yaml",
        ROLL.format(
            apart="true", more="num_return_sequences_in_group: 8\nprompt_length: 1024\nsequence_length: 5120\n"
        ),
        {"rollout_responses": 512, "max_new_tokens": 4096, "epsilon": 0.2, "epsilon_high": 0.3},
    ),
    ("a.sh", SKY.format(more=""), {"group_size": 5, "max_new_tokens": 1024, "kl_coef": 0.001}),
    ("a.sh", SKY.format(more="trainer.placement.policy_num_gpus_per_node=4"), {"world_size": 4}),
    # accumulated batches are one generation batch since TRL 0.17
    ("a.py", TRL.format(pin=""), {"batch_a_process": 8, "generation_batch": None}),
    ("a.py", TRL.format(pin="# trl==0.15.0\n"), {"batch_a_process": 1}),
    (
        "a.toml",
        "inference_gpu_ids = [0]\ntrainer_gpu_ids = [1]\nseq_len = 8192\n[orchestrator]\nbatch_size = 1024\n"
        "rollouts_per_example = 16\n[orchestrator.sampling]\nmax_tokens = 8192\n[trainer]\n[inference.parallel]\ndp = 6\n",
        {"framework": "prime-rl", "group_size": 16, "rollout_responses": 1024, "max_new_tokens": 8192},
    ),
    ("a.toml", PRIME, {"framework": "prime-rl", "group_size": 8, "rollout_prompts": 16, "temperature": 0.8}),
    ("a.toml", "[orchestrator]\nbatch_size = 512\ngroup_size = 16\n[trainer.optim]\nlr = 3e-6\n", {"group_size": 16}),
    (
        "a.yaml",
        "gconfig: {n_samples: 4, temperature: 1.0}\nactor: {kl_ctl: 0.1, optimizer: {lr: 1.7e-5}}\n"
        "train_dataset: {batch_size: 256}\nrollout: {max_head_offpolicyness: 2}\n",
        {"group_size": 4, "kl_reward_coef": 0.1, "kl_coef": None, "rollout_prompts": 256},
    ),
    ("a.yaml", "stage: ppo\nfinetuning_type: lora\ncutoff_len: 512\npref_beta: 0.1\n", {"kl_coef": None, "top_p": 0.7}),
    (
        "a.yaml",
        "rl_training_config: {actor_optimizer_config: {peak_value: 3e-6}}\nrollout_config: {temperature: 0.9}\n"
        "grpo_config: {num_generations: 2, beta: 0.08}\nbatch_size: 4\n",
        {"framework": "Tunix", "group_size": 2, "learning_rate": 3e-6, "rollout_responses": 8},
    ),
    (
        "a.sh",
        "python open_instruct/grpo_fast.py --num_samples_per_prompt_rollout 16 --num_unique_prompts_rollout 32 --lr 1e-6 "
        "--num_epochs 2 --clip_higher 0.272",
        {"framework": "Open-Instruct", "group_size": 16, "rollout_prompts": 32, "updates_per_rollout": None},
    ),
    (
        "a.sh",
        "python -m tinker_cookbook.recipes.math_rl.train group_size=16 groups_per_batch=64 learning_rate=8e-5 max_tokens=512",
        {"framework": "Tinker cookbook", "group_size": 16, "rollout_responses": 1024, "learning_rate": 8e-5},
    ),
    (
        "a.sh",
        "python train.py rllm/backend=tinker training.group_size=8 training.learning_rate=2e-5 model.lora_rank=16",
        {"framework": "rLLM", "group_size": 8, "learning_rate": 2e-5},
    ),
    (
        "a.sh",
        "deepspeed main.py --actor_model_name_or_path a --critic_model_name_or_path b --actor_learning_rate 9.65e-6 "
        "--max_answer_seq_len 256 --ppo_epochs 1",
        {"framework": "DeepSpeed-Chat", "learning_rate": 9.65e-6, "group_baseline": False},
    ),
    (
        "a.yml",
        "method: {num_rollouts: 128, init_kl_coef: 0.001, ppo_epochs: 4}\noptimizer: {kwargs: {lr: 1e-6}}\n",
        {"framework": "trlX", "group_size": None, "rollout_responses": 128, "learning_rate": 1e-6},
    ),
    (
        "a.yml",
        "alg: {id: ppo, args: {n_steps: 512, learning_rate: 5e-7}, kl_div: {coeff: 0.001}}\ndatapool: {id: a}\n",
        {"framework": "RL4LMs", "learning_rate": 5e-7, "kl_reward_coef": 0.001},
    ),
    (
        "a.toml",
        '[train]\noptm_lr = 1e-6\noptm_name = "AdamW"\n[train.train_policy]\ntype = "grpo"\nkl_beta = 0.01\n'
        "[rollout]\nn_generation = 16\nmax_response_length = 2048\n[rollout.sampling_config]\ntemperature = 0.9\n",
        {"framework": "Cosmos-RL", "group_size": 16, "learning_rate": 1e-6, "kl_coef": 0.01, "temperature": 0.9},
    ),
    (
        "a.yaml",
        "group_size: 8\nmax_req_tokens: 1024\nmax_res_tokens: 2048\noff_by_n: 1\ntrainer: {optimizer: {lr: 1e-5}}\n"
        "policy: {sampling_config: {n: '${group_size}', temperature: 1.0}}\nreplay_buffer: {max_policy_age: 1}\n",
        {"framework": "torchforge", "group_size": 8, "learning_rate": 1e-5, "max_new_tokens": 2048, "async_level": 1},
    ),
    (
        "a.md",
        "--rlhf_type grpo\n--num_generations 8\n--max_completion_length 1408\n--per_device_train_batch_size 1\n",
        {"framework": "ms-swift", "group_size": 8, "max_new_tokens": 1408},
    ),
    (
        "a.yaml",
        "train_type: lora\nexternal_plugins: [a.py]\nreward_funcs: [a]\nnum_generations: 8\nmax_completion_length: 512\n"
        "per_device_train_batch_size: 1\nlora_rank: 64\n",
        {"framework": "ms-swift", "group_size": 8, "lora_r": 64},
    ),
    (
        "a.toml",
        "[trainer.optim]\nlr = 1e-5\n[trainer.model.lora]\nrank = 32\ndropout = 0.05\n"
        "[orchestrator]\nrollouts_per_example = 8\nbatch_size = 64\n",
        {"framework": "prime-rl", "group_size": 8, "lora_dropout": 0.05},
    ),
    (
        "a.yaml",
        "algorithm:\n  kl_coef: 0.0\nworker:\n  actor: {use_kl_loss: true, kl_loss_coef: 1.0e-3}\n  rollout: {n: 8}\n",
        {"framework": "EasyR1", "kl_coef": 0.001, "use_kl_loss": True},
    ),
    (
        "a.sh",
        "python src/train_ppo.py --model_name_or_path b/B-7B --do_train --finetuning_type lora --reward_model rm\n",
        {"framework": "LLaMA-Factory", "use_peft": True, "top_p": 0.7, "top_k": 50, "adv_estimator": "gae"},
    ),
]


BATCH = (
    "{header}\nfrom trl import GRPOConfig, GRPOTrainer\n{model}args = GRPOConfig(num_generations=4, "
    "max_completion_length=512, per_device_train_batch_size={batch}, gradient_accumulation_steps=6{more})\n"
    "GRPOTrainer(args=args, reward_funcs=[score])\n"
)
PROCESS = 'model = AutoModelForCausalLM.from_pretrained("a", device_map="auto")\n'
UNSLOTH = 'from unsloth import FastLanguageModel\nmodel, _ = FastLanguageModel.from_pretrained("a")\n'


@pytest.mark.parametrize(
    ("header", "model", "batch", "more", "per_update"),
    [
        ("# trl==0.14.0", PROCESS, 1, "", 6),  # the batch counts prompts
        ("# trl==0.15.0", PROCESS, 4, "", 6),  # it counts responses, each batch is one rollout
        ("# trl==0.16.1", PROCESS, 4, "", 6),
        ("# trl==0.17.0", PROCESS, 4, "", 6),
        ("# trl==0.17.0", PROCESS, 2, "", 3),  # accumulated batches are one rollout
        ("# trl==0.18.0", PROCESS, 4, ", steps_per_generation=2", 6),  # an update of three rollouts
        ("# trl==0.18.0", PROCESS, 2, "", 3),
        ("# trl==0.18.0", PROCESS, 1, "", 1.5),
        ("", UNSLOTH, 1, "", 6),  # 1 x 6 responses are no groups of 4: the batch becomes 4
        ("", UNSLOTH, 2, "", 3),
        ("", UNSLOTH, 1, ", steps_per_generation=2", None),
    ],
)
def test_prompts_per_update_follow_the_version(
    tmp_path: Path, header: str, model: str, batch: int, more: str, per_update: float | None
) -> None:
    (path := tmp_path / "a.py").write_text(BATCH.format(header=header, model=model, batch=batch, more=more))
    (found,) = read(path)
    judge(found, "a.py")
    assert found.framework.name == ("Unsloth" if model == UNSLOTH else "TRL")
    assert found.settings.get("prompts_per_update") == per_update


@pytest.mark.parametrize(("name", "text", "expected"), MEANT)
def test_keys_have_the_meaning_of_their_framework(
    tmp_path: Path, name: str, text: str, expected: dict[str, Any]
) -> None:
    (tmp_path / name).write_text(text)
    (found,) = read(tmp_path / name)
    judge(found, name)
    assert found.run_type == "rl"
    assert {key: found.settings.get(key) for key in expected} == expected


OTHERS = [
    (
        "a.toml",
        "num_examples = 100\nrollouts_per_example = 3\n[client]\nbase_url = 'x'\n[[env]]\nid = 'a/b'\n",
        "evaluation",
    ),
    (
        "a.sh",
        "python examples/eval.py --config grpo.yaml policy.model_name=a grpo.num_generations_per_prompt=8",
        "evaluation",
    ),
    (
        "a.yml",
        "alg: {id: supervised, args: {learning_rate: 1e-5}, kl_div: {coeff: 0}}\ndatapool: {id: a}\n",
        "supervised",
    ),
    ("a.sh", "python ppo.py --env CartPole-v1 --learning-rate 2.5e-4 --gradient_accumulation_steps 1", "supervised"),
    ("a.sh", "python train_ppo.py --learning_rate 1e-6 --max_new_tokens 512", "rl"),
    ("a.sh", "python /home/miles/scripts/split.py --size 8 --lr 1", "none"),
    ("a.sh", "python /work/verl-grpo/scripts/split.py --size 8", "none"),
    ("a.sh", "/envs/openrlhf_env/bin/python convert.py --size 8", "none"),
    ("a.sh", "deepspeed --module openrlhf.cli.train_dpo --learning_rate 5e-7 --beta 0.1", "preference"),
    ("a.sh", "torchrun -m verl.trainer.fsdp_sft_trainer optim.lr=1e-4 data.train_batch_size=16", "supervised"),
    ("a.sh", "python -m skyrl.train.main_sft optimizer_config.lr=2e-6 strategy=fsdp batch_size=4", "supervised"),
    (
        "a.sh",
        "python train_async.py --hf-checkpoint a --rollout-function-path b --lr 1e-5 --rollout-batch-size 8 "
        "--loss-type sft_loss",
        "supervised",
    ),
    ("ppo_config.yaml", "learning_rate: 3e-4\nn_steps: 2048\nclip_range: 0.2\nn_epochs: 10\n", "none"),
    ("base.yaml", "grpo: {enabled: false, group_size: 4, kl_beta: 0.1}\nsft: {lr: 1e-5}\nepochs: 2\n", "none"),
    ("reinforce.yaml", "learning_rate: 2e-5\nmax_new_tokens: 12\nbatch_size: 8\n", "rl"),
    ("run_grpo.sh", "accelerate launch train.py --learning_rate 1e-5 --max_completion_length 9", "rl"),
    ("run_grpo_after_sft.sh", "accelerate launch train.py --learning_rate 1e-5 --max_seq_length 9", "none"),
    ("sft_config.yaml", "learning_rate: 1e-4\nnum_generations: 8\nper_device_train_batch_size: 16\n", "supervised"),
    ("grpo_config.yaml", "learning_rate: 1e-4\nnum_generations: 8\nper_device_train_batch_size: 16\n", "rl"),
    ("compare_models.py", "group_size = 4\ntemperature = 0.9\nmodel.generate(num_return_sequences=4)\n", "none"),
    ("dpo.yaml", "fine_tune_method: dpo\nbeta: 0.1\nlr: 5e-7\ngeneration: {temperature: 0.7}\n", "preference"),
    ("a.yaml", "algorithm: {algorithm_type: dpo, kl_loss_fn_args: {kl_coef: 0.1}}\nlr: 5e-7\n", "preference"),
    ("a.yaml", "train_method: gold\nnum_generations: 1\nbeta: 0.5\nlmbda: 0.5\nuse_vllm: true\n", "supervised"),
    ("a.yaml", "sft: {stage: sft}\nrl: {method: grpo, num_generations: 8, beta: 0.1}\n", "rl"),
    ("a.yaml", "stages: {sft: {method: sft}}\ngrpo: {num_generations: 8, beta: 0.1, lr: 1e-6}\n", "rl"),
    ("dpo.yaml", "model: {temperature: 1.0}\ntraining: {beta: 0.1, learning_rate: 1e-5}\n", "preference"),
    ("grpo.yaml", "model: {temperature: 1.0}\ntraining: {beta: 0.1, learning_rate: 1e-6}\n", "rl"),
    (
        "a.sh",
        "python run_sft_with_peft.py --lr 1e-4 --clip_range 0.2 --actor_lr 1e-5 --max_response_length 9",
        "supervised",
    ),
    ("a.sh", "python run_dpo_with_peft.py --lr 1e-5 --max_response_length 9 --clip_range 0.2", "preference"),
    ("a.sh", "python rm/train_ppo.py --learning_rate 1e-6 --max_new_tokens 512 --kl_coef 0.1", "rl"),
    ("compare_losses.py", "group_size = 4\nlearning_rate = 1e-6\nkl_coef = 0.1\n", "rl"),
]


@pytest.mark.parametrize(("name", "text", "kind"), OTHERS)
def test_names_that_only_look_like_reinforcement_learning(tmp_path: Path, name: str, text: str, kind: str) -> None:
    (tmp_path / name).write_text(text)
    assert read(tmp_path / name)[0].run_type == kind


def test_a_program_of_the_authors_own_has_no_defaults_of_trl(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(
        "python ppo_training.py --per_device_train_batch_size 1 --max_completion_length 512 --learning_rate 1e-6"
    )
    (found,) = read(tmp_path / "a.sh")
    assert found.run_type == "rl"
    assert not found.assumed


def test_the_default_coefficient_of_a_term_that_is_off_is_no_setting(tmp_path: Path) -> None:
    (path := tmp_path / "a.sh").write_text(SKY.format(more="trainer.algorithm.use_kl_loss=false"))
    (found,) = read(path)
    assert "kl_coef" not in found.settings
    path.write_text(SKY.format(more="trainer.algorithm.use_kl_loss=false trainer.algorithm.kl_loss_coef=0.01"))
    assert "CFG021" in {f.code for f in judge(read(path)[0], "a.sh").findings}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("trainer.algorithm.policy_loss_type=dppo", "info"),
        ("trainer.algorithm.policy_loss_type=cispo trainer.algorithm.cispo.cispo_anchor=rollout", "info"),
        ("trainer.algorithm.policy_loss_type=regular", "warning"),
        ("trainer.policy.megatron_config.moe_enable_routing_replay=true", None),
    ],
)
def test_losses_with_the_engines_probabilities_correct_for_the_router(
    tmp_path: Path, more: str, told: str | None
) -> None:
    stale = "trainer.policy.model.path=Qwen/Qwen3-30B-A3B trainer.fully_async.max_staleness_steps=4 "
    (path := tmp_path / "a.sh").write_text(SKY.format(more=stale + more))
    found = {f.code: f.severity for f in judge(read(path)[0], "a.sh").findings}
    assert found.get("CFG048") == told


def test_the_generation_batch_over_an_unknown_number_of_processes_makes_no_update(tmp_path: Path) -> None:
    call = "GRPOConfig(num_generations=4, generation_batch_size=4, per_device_train_batch_size=4, "
    (path := tmp_path / "a.py").write_text(f"{call}gradient_accumulation_steps=2)\n")
    (found,) = read(path)
    judge(found, "a.py")
    assert (found.settings["rollout_prompts"], found.settings["prompts_per_update_and_gpu"]) == (1, 2)
    assert not {"prompts_per_update", "updates_per_rollout"} & found.settings.keys()
