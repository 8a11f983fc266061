"""Every rule's fault is found in the syntax of each framework that can have it; its fix gives no finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo_doctor.diagnosis.catalogue import load
from grpo_doctor.preflight.judgement import judge, judges_settings
from grpo_doctor.preflight.reading import read

VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator={estimator} data.train_batch_size={train} \\\n"
    "  actor_rollout_ref.actor.ppo_mini_batch_size={mini} actor_rollout_ref.rollout.n={n} \\\n"
    "  actor_rollout_ref.rollout.temperature={temperature} trainer.n_gpus_per_node={gpus} trainer.test_freq={test} \\\n"
    "  actor_rollout_ref.rollout.tensor_model_parallel_size={tp} actor_rollout_ref.actor.optim.lr={lr} \\\n"
    "  actor_rollout_ref.actor.kl_loss_coef={kl} actor_rollout_ref.actor.use_kl_loss={loss} \\\n"
    "  algorithm.use_kl_in_reward={reward} data.max_prompt_length=512 data.max_response_length={response} \\\n"
    "  actor_rollout_ref.rollout.max_model_len={length} actor_rollout_ref.actor.clip_ratio_high={high} \\\n"
    "  actor_rollout_ref.actor.policy_loss.loss_mode={mode} actor_rollout_ref.model.path={model} \\\n"
    "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro} {more}\n"
)
VERL_RIGHT = {
    "estimator": "grpo", "train": 256, "mini": 64, "n": 8, "temperature": 1.0, "gpus": 8, "test": 10, "tp": 2,
    "lr": 1e-6, "kl": 0.001, "loss": True, "reward": False, "response": 2048, "length": 4096, "high": 0.2,
    "mode": "vanilla", "micro": 4, "more": "", "model": "Qwen/Qwen2.5-7B-Instruct",
}  # fmt: skip
TRL_PYTHON = (
    "from trl import GRPOConfig, GRPOTrainer  # {pin}\n"
    "K = {k}\n"
    "def accuracy({signature}):\n    return [{score} for c in completions]\n"
    "class Mine(GRPOTrainer):\n    def {own}(self, model, inputs):\n        return 0.0\n"
    "args = GRPOConfig(num_generations=K, learning_rate={lr}, temperature={temperature}, beta={kl},\n"
    "    max_prompt_length=512, max_completion_length={response}, vllm_max_model_length={length},\n"
    "    eval_strategy='{evaluation}', logging_steps={logging}, reward_weights={weights}, {more}\n"
    "    steps_per_generation=4, gradient_accumulation_steps=2, per_device_train_batch_size=8)\n"
    "trainer = GRPOTrainer(model='{model}', reward_funcs=[accuracy, form], args=args,\n"
    "    train_dataset={data}{passed})\n"
)
TRL_RIGHT = {
    "k": 8, "lr": 1e-6, "temperature": 1.0, "kl": 0.0, "response": 2048, "length": 4096, "evaluation": "steps",
    "logging": 1, "weights": [1.0, 0.5], "more": "", "signature": "completions, **kwargs", "score": "len(c)", "own": "log", "pin": "trl", "passed": "", "data": "Dataset.from_dict({'prompt': q})",
    "model": "Qwen/Qwen2.5-7B-Instruct",
}  # fmt: skip
TEXT = "load_dataset('a/b').map(lambda x: {'prompt': 'Q: ' + x['q']})"
MESSAGES = "load_dataset('a/b').map(lambda x: {'prompt': [{'role': 'user', 'content': x['q']}]})"
TRL_SHELL = (
    "trl grpo --num_processes {processes} --num_generations ${{K:-{k}}} --eval_strategy steps \\\n"
    "  --per_device_train_batch_size {device} --per_device_eval_batch_size {eval_device} \\\n"
    "  --gradient_accumulation_steps {steps} --temperature {temperature} --learning_rate {lr} --num_iterations 2\n"
)
SHELL_RIGHT = {
    "processes": 4, "k": 8, "device": 4, "eval_device": 4, "steps": 4, "temperature": 1.0, "lr": 1e-6,
}  # fmt: skip
SWIFT = (
    "NPROC_PER_NODE={processes} swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B --tuner_type {tuner} \\\n"
    "  --num_generations {k} --per_device_train_batch_size {device} --learning_rate {lr} --temperature {temperature} \\\n"
    "  --repetition_penalty {penalty} --max_completion_length {response} --vllm_max_model_len 4096 {more}\n"
)
SWIFT_RIGHT = {
    "processes": 4, "tuner": "lora", "k": 8, "device": 16, "lr": 1e-5, "temperature": 1.0, "penalty": 1.0,
    "response": 2048, "more": "",
}  # fmt: skip
OPENRLHF = (
    "python3 -m openrlhf.cli.train_ppo_ray --algo.advantage.estimator {estimator} --rollout.n_samples_per_prompt {k} \\\n"
    "  --rollout.batch_size 128 --train.batch_size {batch} --actor.adam.lr {lr} --rollout.temperature {temperature} {more}\n"
)
OPENRLHF_RIGHT = {"estimator": "group_norm", "k": 8, "batch": 256, "lr": 1e-6, "temperature": 1.0, "more": ""}
EASYR1 = (
    "data:\n  rollout_batch_size: {rollout}\nalgorithm:\n  adv_estimator: grpo\nworker:\n  actor:\n"
    "    global_batch_size: {mini}\n    optim:\n      lr: {lr}\n  rollout:\n    n: {k}\n    temperature: {temperature}\n"
    "    tensor_parallel_size: {tp}\ntrainer:\n  n_gpus_per_node: 8\n  nnodes: 1\n  val_freq: {test}\n"
)
EASYR1_RIGHT = {"rollout": 512, "mini": 128, "lr": "1.0e-6", "k": 5, "temperature": 1.0, "tp": 2, "test": 5}
SLIME = (
    "ROLLOUT=(\n  --num-rollout 100 --rollout-batch-size 32 --n-samples-per-prompt {k}  # prompts\n"
    "  --rollout-max-response-len 4096 --rollout-temperature {temperature}\n)\n"
    "OPTIM=(--lr {lr} --kl-loss-coef {kl} {loss} --eps-clip-high {high} --eval-interval 10)\n"
    "ray job submit -- python3 train.py ${{ROLLOUT[@]}} ${{OPTIM[@]}} --global-batch-size {batch}\n"
)
SLIME_RIGHT = {"k": 8, "temperature": 1, "lr": 1e-6, "kl": 0.001, "loss": "--use-kl-loss", "high": 0.28, "batch": 64}
NEMO = (
    "grpo:\n  num_prompts_per_step: {prompts}\n  num_generations_per_prompt: {k}\n  val_period: {test}\nloss_fn:\n"
    "  reference_policy_kl_penalty: {kl}\npolicy:\n  model_name: Qwen/Qwen2.5-7B\n  train_global_batch_size: {batch}\n"
    "  optimizer:\n    kwargs:\n      lr: {lr}\n  generation:\n    temperature: {temperature}\n    val_temperature: 0.0\n"
)
NEMO_RIGHT = {"prompts": 32, "k": 16, "test": 10, "kl": 0.01, "batch": 256, "lr": "1.0e-6", "temperature": 1.0}
PRIME = (
    "max_steps = 100\n[orchestrator]\nbatch_size = {batch}\ngroup_size = {k}\n[orchestrator.train.sampling]\n"
    "temperature = {temperature}\n[trainer.optim]\nlr = {lr}\n"
)
PRIME_RIGHT = {"batch": 128, "k": 16, "temperature": 1.0, "lr": 1e-6}
SKYRL = (
    "uv run -m skyrl.train.entrypoints.main_base trainer.algorithm.advantage_estimator=grpo \\\n"
    "  trainer.train_batch_size={train} trainer.policy_mini_batch_size={mini} generator.n_samples_per_prompt={k} \\\n"
    "  generator.sampling_params.temperature={temperature} trainer.policy.optimizer_config.lr={lr} trainer.eval_interval=5\n"
)
SKYRL_RIGHT = {"train": 1024, "mini": 256, "k": 5, "temperature": 1.0, "lr": 1e-6}

AREAL = (
    "gconfig:\n  n_samples: {k}\n  max_new_tokens: {response}\n  temperature: {temperature}\n  top_p: {top_p}\n"
    "actor:\n  path: Qwen/Qwen2.5-7B\n  kl_ctl: {kl}\n  eps_clip: 0.2\n  optimizer:\n    lr: {lr}\n"
    "  ppo_n_minibatches: 4\nrollout:\n  max_head_offpolicyness: {stale}\ntrain_dataset:\n  batch_size: {prompts}\n"
    "  max_length: 1024\n"
)
AREAL_RIGHT = {
    "k": 8,
    "response": 1024,
    "temperature": 1.0,
    "top_p": 1.0,
    "kl": 0.0,
    "lr": 1e-6,
    "prompts": 128,
    "stale": 2,
}
ROLL = (
    "rollout_batch_size: {prompts}\nadv_estimator: grpo\nnum_return_sequences_in_group: {k}\nprompt_length: 1024\n"
    "response_length: {response}\nuse_kl_loss: {loss}\nkl_loss_coef: {kl}\nadd_token_level_kl: {reward}\n"
    "init_kl_coef: 0.1\npretrain: {model}\nlogging_steps: {logging}\neval_steps: {test}\nactor_train:\n"
    "  training_args:\n    learning_rate: {lr}\nactor_infer:\n  generating_args:\n    max_new_tokens: 2048\n"
    "    temperature: {temperature}\nvalidation:\n  generating_args:\n    temperature: 0.0\n"
)
ROLL_RIGHT = {
    "prompts": 64, "k": 8, "loss": "true", "kl": 0.001, "reward": "false", "model": "Qwen/Qwen2.5-7B", "logging": 1,
    "test": 10, "lr": 1e-6, "response": 2048, "temperature": 1.0,
}  # fmt: skip
RLINF = (
    "cluster:\n  num_nodes: 1\n  component_placement: {{actor: all}}\nrunner:\n  max_steps: 100\n"
    "  val_check_interval: {test}\nalgorithm:\n  adv_type: {estimator}\n  group_size: {k}\n  kl_beta: {kl}\n"
    "  n_minibatches: {minibatches}\n  ratio_clip_eps: 0.2\n  clip_ratio_high: {high}\n  sampling_params:\n"
    "    temperature: {temperature}\n    repetition_penalty: {penalty}\n    max_new_tokens: 2048\ndata:\n"
    "  rollout_batch_size: {prompts}\nactor:\n  optim:\n    lr: {lr}\n"
)
RLINF_RIGHT = {
    "test": 10, "estimator": "grpo", "k": 8, "kl": 0.001, "minibatches": 4, "high": 0.2, "temperature": 1.0,
    "penalty": 1.0, "prompts": 128, "lr": 1e-6,
}  # fmt: skip
AXOLOTL = (
    "base_model: Qwen/Qwen2.5-7B\nadapter: {adapter}\nrl: grpo\ntrl:\n  num_generations: {k}\n  beta: {kl}\n"
    "  max_completion_length: {response}\n  temperature: {temperature}\n  reward_funcs: [a.one, a.two]\n"
    "  reward_weights: {weights}\nmicro_batch_size: 8\ngradient_accumulation_steps: 4\nsequence_len: 4096\n"
    "learning_rate: {lr}\nlogging_steps: {logging}\neval_strategy: steps\nlora_dropout: {dropout}\n"
)
AXOLOTL_RIGHT = {
    "adapter": "lora", "k": 8, "kl": 0.001, "response": 1024, "temperature": 1.0, "weights": [1.0, 0.5], "lr": 1e-5,
    "logging": 1, "dropout": 0.0,
}  # fmt: skip
FACTORY = (
    "stage: ppo\nmodel_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: {tuner}\ncutoff_len: 1024\n"
    "per_device_train_batch_size: 4\nlearning_rate: {lr}\ntemperature: {temperature}\nmax_new_tokens: 512\n"
    "repetition_penalty: {penalty}\nlogging_steps: {logging}\nppo_epochs: 4\ntop_p: 1.0\ntop_k: 0\n"
)
FACTORY_RIGHT = {"tuner": "lora", "lr": 1e-5, "temperature": 1.0, "penalty": 1.0, "logging": 1}
TORCHTUNE = (
    "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\ncheckpointer:\n"
    "  _component_: torchtune.training.FullModelHFCheckpointer\nmodel:\n  _component_: torchtune.models.llama3_2_3b\n"
    "grpo_samples: {k}\nbatch_size: {prompts}\nmax_generated_tokens: 512\ntemperature: {temperature}\nppo_epochs: 1\n"
    "optimizer:\n  _component_: torch.optim.AdamW\n  lr: {lr}\nloss:\n  _component_: torchtune.dev.grpo.loss.GRPO\n"
    "  kl_coeff: {kl}\n  epsilon: 0.2\n"
)
TORCHTUNE_RIGHT = {"k": 8, "prompts": 16, "temperature": 1.0, "lr": 1e-6, "kl": 0.01}
UNSLOTH = (
    "from unsloth import FastLanguageModel\nfrom trl import GRPOConfig, GRPOTrainer\n"
    "model = FastLanguageModel.get_peft_model(model, r=16, lora_dropout={dropout})\n"
    "def score(completions, **kwargs):\n    return [{value} for c in completions]\n"
    "args = GRPOConfig(num_generations={k}, per_device_train_batch_size=8, gradient_accumulation_steps=8,\n"
    "    learning_rate={lr}, temperature={temperature}, eval_strategy='steps', logging_steps={logging}, {more})\n"
    "GRPOTrainer(model=model, reward_funcs={rewards}, args=args).train()\n"
)
UNSLOTH_RIGHT = {
    "dropout": 0, "k": 8, "lr": 5e-6, "temperature": 1.0, "logging": 1, "more": "", "rewards": "[score]", "value": "len(c)",
}  # fmt: skip
OWN = (
    "import argparse\nfrom peft import LoraConfig\np = argparse.ArgumentParser()\n"
    "p.add_argument('--group_size', type=int, default={k})\np.add_argument('--lr', type=float, default={lr})\n"
    "p.add_argument('--kl_coef', type=float, default={kl})\np.add_argument('--temperature', default={temperature})\n"
    "p.add_argument('--gradient_checkpointing', default={checkpointing})\nLoraConfig(r=16, lora_dropout={dropout})\n"
    "{more}\n"
)
OWN_RIGHT = {
    "k": 8, "lr": 1e-5, "kl": 0.01, "temperature": 1.0, "checkpointing": False, "dropout": 0.0, "more": "",
}  # fmt: skip
TOKENIZER = (
    '{{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "{eos}", "model_max_length": 32768, "chat_template": '
    '"{{% for m in messages %}}<|im_start|>{{{{ m.content }}}}<|im_end|>{{% endfor %}}"}}'
)
TOKENIZER_RIGHT = {"eos": "<|im_end|>"}
GENERATION = (
    '{{"do_sample": true, "eos_token_id": 1, "transformers_version": "4.51.0", "temperature": 1.0, '
    '"repetition_penalty": {penalty}, "top_p": {top_p}}}'
)
GENERATION_RIGHT = {"penalty": 1.0, "top_p": 1.0}

DPO = (
    "from trl import DPOConfig, DPOTrainer\nfrom peft import LoraConfig\n"
    "args = DPOConfig(beta={beta}, loss_type='{loss}', learning_rate={lr}, label_smoothing={smoothing}, {more}\n"
    "    per_device_train_batch_size=4, gradient_accumulation_steps=4)\n"
    "DPOTrainer(model='Qwen/Qwen2.5-7B-Instruct', args=args, train_dataset=ds{adapter}).train()\n"
)
DPO_RIGHT = {"beta": 0.1, "loss": "sigmoid", "lr": 5e-7, "smoothing": 0.0, "more": "", "adapter": ""}
KTO = "trl kto --model_name_or_path Qwen/Qwen2.5-7B --beta {beta} --learning_rate {lr} --per_device_train_batch_size {device} {more}\n"
KTO_RIGHT = {"beta": 0.1, "lr": 5e-7, "device": 4, "more": ""}
OPENRLHF_PAIRS = (
    "deepspeed --module openrlhf.cli.train_dpo --pretrain Qwen/Qwen2.5-7B --beta {beta} --learning_rate {lr} \\\n"
    "  --train_batch_size 128 --label_smoothing {smoothing} --lora_rank {rank} {more}\n"
)
OPENRLHF_PAIRS_RIGHT = {"beta": 0.1, "lr": 5e-7, "smoothing": 0.0, "rank": 0, "more": ""}
PAIRS = (
    "base_model: Qwen/Qwen2.5-7B\nadapter: {adapter}\nrl: {method}\nrl_beta: {beta}\nmicro_batch_size: {device}\n"
    "gradient_accumulation_steps: 4\nsequence_len: 4096\nlearning_rate: {lr}\nwarmup_ratio: {warmup}\n"
    "adam_epsilon: {epsilon}\n"
)
PAIRS_RIGHT = {
    "adapter": "lora", "method": "dpo", "beta": 0.1, "device": 2, "lr": 5e-6, "warmup": 0.1, "epsilon": 1e-8,
}  # fmt: skip
FACTORY_PAIRS = (
    "stage: {stage}\nmodel_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: {tuner}\npref_beta: {beta}\npref_loss: {loss}\n"
    "cutoff_len: 2048\nper_device_train_batch_size: 2\nlearning_rate: {lr}\nwarmup_ratio: {warmup}\n"
    "dpo_label_smoothing: {smoothing}\n{more}"
)
FACTORY_PAIRS_RIGHT = {
    "stage": "dpo", "tuner": "lora", "beta": 0.1, "loss": "sigmoid", "lr": 5e-6, "warmup": 0.1, "smoothing": 0.0,
    "more": "",
}  # fmt: skip
ADAPTIVE = "algorithm.kl_ctrl.type=adaptive"
START = "adapter_name_or_path: out/sft\n"

FRAMEWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "verl.sh": (VERL, VERL_RIGHT),
    "trl.py": (TRL_PYTHON, TRL_RIGHT),
    "trl.sh": (TRL_SHELL, SHELL_RIGHT),
    "swift.sh": (SWIFT, SWIFT_RIGHT),
    "openrlhf.sh": (OPENRLHF, OPENRLHF_RIGHT),
    "easyr1.yaml": (EASYR1, EASYR1_RIGHT),
    "slime.sh": (SLIME, SLIME_RIGHT),
    "nemo.yaml": (NEMO, NEMO_RIGHT),
    "prime.toml": (PRIME, PRIME_RIGHT),
    "skyrl.sh": (SKYRL, SKYRL_RIGHT),
    "areal.yaml": (AREAL, AREAL_RIGHT),
    "roll.yaml": (ROLL, ROLL_RIGHT),
    "rlinf.yaml": (RLINF, RLINF_RIGHT),
    "axolotl.yaml": (AXOLOTL, AXOLOTL_RIGHT),
    "factory.yaml": (FACTORY, FACTORY_RIGHT),
    "torchtune.yaml": (TORCHTUNE, TORCHTUNE_RIGHT),
    "unsloth.py": (UNSLOTH, UNSLOTH_RIGHT),
    "own.py": (OWN, OWN_RIGHT),
    "tokenizer_config.json": (TOKENIZER, TOKENIZER_RIGHT),
    "generation_config.json": (GENERATION, GENERATION_RIGHT),
    "dpo.py": (DPO, DPO_RIGHT),
    "kto.sh": (KTO, KTO_RIGHT),
    "openrlhf_dpo.sh": (OPENRLHF_PAIRS, OPENRLHF_PAIRS_RIGHT),
    "pairs.yaml": (PAIRS, PAIRS_RIGHT),
    "factory_pairs.yaml": (FACTORY_PAIRS, FACTORY_PAIRS_RIGHT),
}
MIXTURE = "Qwen/Qwen3-30B-A3B-Base"
COLOCATED = "--train.colocate_all --actor.num_nodes 1 --actor.num_gpus_per_node 8 --vllm.tensor_parallel_size 1"
FAULTS = [
    ("verl.sh", "CFG001", "warning", {"n": 1}),
    ("verl.sh", "CFG014", "error", {"temperature": 0.0}),
    ("verl.sh", "CFG004", "warning", {"temperature": 2.0}),
    ("verl.sh", "CFG018", "error", {"mini": 512}),
    ("verl.sh", "CFG019", "info", {"mini": 96}),
    ("verl.sh", "CFG020", "warning", {"response": 8192}),
    ("verl.sh", "CFG021", "info", {"loss": False}),
    ("verl.sh", "CFG022", "warning", {"reward": True}),
    ("verl.sh", "CFG003", "warning", {"kl": 1.0}),
    ("verl.sh", "CFG023", "info", {"mini": 256, "high": 0.28}),
    ("verl.sh", "CFG025", "info", {"test": -1}),
    ("verl.sh", "CFG028", "error", {"tp": 3}),
    ("verl.sh", "CFG031", "error", {"lr": 0}),
    ("verl.sh", "CFG002", "warning", {"lr": 1e-4}),
    ("verl.sh", "CFG006", "warning", {"mode": "gspo", "high": 0.28}),
    ("verl.sh", "CFG026", "warning", {"model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "response": 512}),
    ("verl.sh", "CFG033", "info", {"train": 4, "mini": 4}),
    ("trl.py", "CFG013", "error", {"k": 1}),
    ("trl.py", "CFG001", "info", {"k": 2}),
    ("trl.py", "CFG014", "error", {"temperature": 0.0}),
    ("trl.py", "CFG004", "warning", {"temperature": 0.1}),
    ("trl.py", "CFG003", "warning", {"kl": 5.0}),
    ("trl.py", "CFG015", "error", {"more": "num_generation=4,"}),
    ("trl.py", "CFG016", "info", {"more": "use_liger_loss=True,"}),
    ("trl.py", "CFG020", "warning", {"length": 2048}),
    ("trl.py", "CFG025", "info", {"evaluation": "no"}),
    ("trl.py", "CFG029", "error", {"weights": [1.0]}),
    ("trl.py", "CFG030", "info", {"logging": 100}),
    ("trl.py", "CFG031", "error", {"lr": 0.0}),
    ("trl.py", "CFG032", "error", {"more": "generation_batch_size=64,"}),
    ("trl.py", "CFG002", "warning", {"lr": 2e-4}),
    ("trl.py", "CFG005", "warning", {"more": "repetition_penalty=1.3,"}),
    ("trl.py", "CFG012", "warning", {"kl": 0.04, "more": "sync_ref_model=True, ref_model_sync_steps=1,"}),
    ("trl.sh", "CFG013", "error", {"k": 1}),
    ("trl.sh", "CFG017", "error", {"processes": 3, "steps": 1, "device": 3}),
    ("trl.sh", "CFG027", "error", {"eval_device": 3}),
    ("trl.sh", "CFG014", "error", {"temperature": 0}),
    ("trl.sh", "CFG033", "info", {"device": 2}),
    ("swift.sh", "CFG013", "error", {"k": 1}),
    ("swift.sh", "CFG017", "error", {"device": 1}),
    ("swift.sh", "CFG054", "warning", {"lr": 1e-7}),
    ("swift.sh", "CFG005", "warning", {"penalty": 1.3}),
    ("swift.sh", "CFG020", "warning", {"response": 8192}),
    ("swift.sh", "CFG014", "error", {"temperature": 0}),
    ("openrlhf.sh", "CFG013", "error", {"k": 1}),
    ("openrlhf.sh", "CFG014", "error", {"temperature": 0}),
    ("openrlhf.sh", "CFG031", "error", {"lr": 0}),
    ("easyr1.yaml", "CFG018", "error", {"mini": 1024}),
    ("easyr1.yaml", "CFG019", "error", {"mini": 100}),
    ("easyr1.yaml", "CFG028", "error", {"tp": 3}),
    ("easyr1.yaml", "CFG014", "error", {"temperature": 0}),
    ("easyr1.yaml", "CFG025", "info", {"test": -1}),
    ("slime.sh", "CFG001", "warning", {"k": 1}),
    ("slime.sh", "CFG014", "error", {"temperature": 0}),
    ("slime.sh", "CFG021", "warning", {"loss": ""}),
    ("slime.sh", "CFG023", "info", {"batch": 256}),
    ("nemo.yaml", "CFG001", "warning", {"k": 1}),
    ("nemo.yaml", "CFG014", "error", {"temperature": 0}),
    ("nemo.yaml", "CFG003", "warning", {"kl": 0.5}),
    ("nemo.yaml", "CFG025", "info", {"test": 0}),
    ("nemo.yaml", "CFG033", "info", {"prompts": 4, "batch": 64}),
    ("prime.toml", "CFG031", "error", {"lr": 0}),
    ("prime.toml", "CFG017", "error", {"batch": 120}),
    ("skyrl.sh", "CFG018", "error", {"mini": 2048}),
    ("skyrl.sh", "CFG019", "error", {"mini": 300}),
    ("skyrl.sh", "CFG001", "warning", {"k": 1}),
    ("verl.sh", "CFG024", "info", {"temperature": 0.8}),
    ("verl.sh", "CFG037", "error", {"train": 250, "mini": 125, "gpus": 16, "n": 6, "tp": 2}),
    ("verl.sh", "CFG038", "error", {"micro": 48}),
    ("trl.py", "CFG007", "warning", {"more": "entropy_target=5.0, use_adaptive_entropy=True,"}),
    ("trl.py", "CFG034", "warning", {"signature": "prompts, completions, answer"}),
    ("trl.py", "CFG034", "error", {"signature": "completions, answer"}),
    ("trl.py", "CFG035", "warning", {"own": "_compute_loss", "more": "use_liger_kernel=True,"}),
    ("trl.py", "CFG016", "error", {"pin": "trl==0.15.2"}),
    ("verl.sh", "CFG043", "error", {"more": "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=3"}),
    ("openrlhf.sh", "CFG040", "error", {"more": f"{COLOCATED} --vllm.num_engines 4"}),
    ("trl.py", "CFG041", "error", {"data": "Dataset.from_dict({'question': q})"}),
    ("trl.py", "CFG044", "error", {"data": TEXT, "score": "len(c[0]['content'])"}),
    ("trl.py", "CFG044", "error", {"data": MESSAGES, "score": "len(c.split())"}),
    ("trl.py", "CFG067", "error", {"passed": ", tokenizer=tokenizer"}),
    ("trl.py", "CFG067", "error", {"passed": ", num_iterations=2"}),
    ("trl.py", "CFG068", "warning", {"score": "1.0"}),
    ("unsloth.py", "CFG068", "error", {"value": "0.5"}),
    ("trl.py", "CFG045", "info", {"data": TEXT}),
    ("own.py", "CFG042", "warning", {"more": "t.pad_token = t.eos_token\nloss_mask = ids != t.pad_token_id"}),
    ("verl.sh", "CFG016", "info", {"more": "algorithm.rollout_is=True"}),
    ("verl.sh", "CFG016", "error", {"more": "algorithm.rollout_is=True; pip install verl==0.7.0"}),
    ("swift.sh", "CFG016", "info", {"more": "--num_infer_workers 2"}),
    ("openrlhf.sh", "CFG016", "info", {"more": "--bf16"}),
    ("trl.py", "CFG039", "warning", {"pin": "trl==0.23.1", "temperature": 0.6, "more": "use_vllm=True,"}),
    ("areal.yaml", "CFG001", "info", {"k": 2}),
    ("areal.yaml", "CFG004", "warning", {"temperature": 0.2}),
    ("areal.yaml", "CFG005", "info", {"top_p": 0.9}),
    ("areal.yaml", "CFG024", "info", {"temperature": 0.7}),
    ("areal.yaml", "CFG031", "error", {"lr": 0}),
    ("areal.yaml", "CFG033", "info", {"prompts": 8}),
    ("roll.yaml", "CFG001", "warning", {"k": 1}),
    ("roll.yaml", "CFG014", "error", {"temperature": 0}),
    ("roll.yaml", "CFG021", "info", {"loss": "false"}),
    ("roll.yaml", "CFG022", "warning", {"reward": "true"}),
    ("roll.yaml", "CFG025", "info", {"test": -1}),
    ("roll.yaml", "CFG026", "warning", {"model": "Qwen/QwQ-32B", "response": 512}),
    ("roll.yaml", "CFG030", "info", {"logging": 50}),
    ("rlinf.yaml", "CFG001", "warning", {"k": 1}),
    ("rlinf.yaml", "CFG005", "warning", {"penalty": 1.2}),
    ("rlinf.yaml", "CFG014", "error", {"temperature": 0.0}),
    ("rlinf.yaml", "CFG023", "info", {"minibatches": 1, "high": 0.28}),
    ("rlinf.yaml", "CFG031", "error", {"lr": 0}),
    ("axolotl.yaml", "CFG001", "info", {"k": 2}),
    ("axolotl.yaml", "CFG054", "warning", {"lr": 1e-7}),
    ("axolotl.yaml", "CFG011", "info", {"dropout": 0.1}),
    ("axolotl.yaml", "CFG014", "error", {"temperature": 0}),
    ("axolotl.yaml", "CFG020", "warning", {"response": 8192}),
    ("axolotl.yaml", "CFG029", "error", {"weights": [1.0]}),
    ("axolotl.yaml", "CFG030", "info", {"logging": 100}),
    ("factory.yaml", "CFG054", "warning", {"lr": 1e-7}),
    ("factory.yaml", "CFG004", "warning", {"temperature": 0.1}),
    ("factory.yaml", "CFG005", "warning", {"penalty": 1.3}),
    ("factory.yaml", "CFG030", "info", {"logging": 100}),
    ("torchtune.yaml", "CFG003", "warning", {"kl": 1.0}),
    ("torchtune.yaml", "CFG004", "warning", {"temperature": 2.0}),
    ("torchtune.yaml", "CFG031", "error", {"lr": 0}),
    ("torchtune.yaml", "CFG001", "info", {"k": 2}),
    ("unsloth.py", "CFG013", "error", {"k": 1}),
    ("unsloth.py", "CFG014", "error", {"temperature": 0}),
    ("unsloth.py", "CFG054", "warning", {"lr": 1e-7}),
    ("unsloth.py", "CFG011", "info", {"dropout": 0.1}),
    ("unsloth.py", "CFG015", "warning", {"more": "max_new_tokens=64"}),
    ("unsloth.py", "CFG030", "info", {"logging": 25}),
    ("own.py", "CFG001", "info", {"k": 2}),
    ("own.py", "CFG003", "info", {"kl": 0.5}),
    ("own.py", "CFG010", "info", {"checkpointing": True}),
    ("own.py", "CFG011", "info", {"dropout": 0.1}),
    ("trl.sh", "CFG046", "warning", {"lr": "1e-5 --lora_target_modules 'q_proj', 'v_proj'"}),
    ("own.py", "CFG005", "info", {"more": "model.generate(ids, repetition_penalty=1.3)"}),
    ("own.py", "CFG031", "error", {"lr": 0}),
    ("tokenizer_config.json", "CFG036", "warning", {"eos": "<|endoftext|>"}),
    ("generation_config.json", "CFG005", "warning", {"penalty": 1.05}),
    ("trl.py", "CFG047", "error", {"more": "logging_first_step=True, logging_first_step=False,"}),
    ("verl.sh", "CFG047", "error", {"more": "\n  trainer.total_epochs=3"}),
    ("verl.sh", "CFG048", "warning", {"model": MIXTURE}),
    ("slime.sh", "CFG048", "warning", {"loss": f"--use-kl-loss --hf-checkpoint {MIXTURE}"}),
    ("trl.py", "CFG048", "info", {"model": MIXTURE, "more": "use_vllm=True,"}),
    ("verl.sh", "CFG049", "warning", {"more": "actor_rollout_ref.rollout.quantization=fp8"}),
    ("nemo.yaml", "CFG049", "warning", {"batch": "256\n  generation: {vllm_cfg: {precision: fp8}}"}),
    ("slime.sh", "CFG049", "warning", {"loss": "--use-kl-loss --hf-checkpoint Qwen/Qwen3-4B-FP8"}),
    ("areal.yaml", "CFG050", "warning", {"stale": 16}),
    ("verl.sh", "CFG050", "warning", {"more": "async_training.staleness_threshold=8"}),
    ("trl.py", "CFG051", "warning", {"more": "warmup_ratio=0.95,"}),
    ("verl.sh", "CFG051", "warning", {"more": "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.95"}),
    ("axolotl.yaml", "CFG051", "warning", {"logging": "1\nwarmup_steps: 100\nmax_steps: 100"}),
    ("trl.py", "CFG052", "info", {"more": "fp16=True,"}),
    ("trl.py", "CFG053", "warning", {"more": "adam_epsilon=1e-4,"}),
    ("slime.sh", "CFG053", "warning", {"loss": "--use-kl-loss --adam-eps 1e-4"}),
    ("trl.py", "CFG054", "warning", {"lr": 1e-7}),
    ("verl.sh", "CFG054", "warning", {"lr": 1e-7}),
    ("trl.py", "CFG055", "warning", {"more": "generation_kwargs={'no_repeat_ngram_size': 3},"}),
    ("areal.yaml", "CFG055", "info", {"response": "1024\n  min_new_tokens: 64"}),
    (
        "verl.sh",
        "CFG057",
        "warning",
        {"more": "actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.rollout.load_format=dummy", "lr": 1e-5},
    ),
    ("unsloth.py", "CFG058", "info", {"more": "gradient_checkpointing_kwargs={'use_reentrant': True}"}),
    ("verl.sh", "KL005", "warning", {"more": "actor_rollout_ref.actor.kl_loss_type=kl"}),
    ("verl.sh", "ENT008", "error", {"more": "actor_rollout_ref.actor.entropy_coeff=0.2"}),
    ("trl.py", "CFG026", "warning", {"response": 6}),
    ("trl.sh", "CFG033", "info", {"processes": 1, "device": 8, "steps": 1}),
    ("dpo.py", "CFG059", "warning", {"lr": 5e-5}),
    ("dpo.py", "CFG060", "error", {"beta": 0.0}),
    ("dpo.py", "CFG061", "warning", {"loss": "ipo", "smoothing": 0.1}),
    ("dpo.py", "CFG054", "warning", {"lr": 5e-8}),
    ("dpo.py", "CFG047", "error", {"more": "beta=0.2,"}),
    ("kto.sh", "CFG062", "error", {"device": 1}),
    ("kto.sh", "CFG060", "error", {"beta": 0}),
    ("openrlhf_dpo.sh", "CFG059", "warning", {"lr": 5e-5}),
    ("openrlhf_dpo.sh", "CFG054", "warning", {"rank": 16}),
    ("openrlhf_dpo.sh", "CFG060", "error", {"beta": 0}),
    ("openrlhf_dpo.sh", "CFG061", "warning", {"smoothing": 0.5}),
    ("pairs.yaml", "CFG054", "warning", {"lr": 5e-7}),
    ("pairs.yaml", "CFG059", "warning", {"lr": 5e-4}),
    ("pairs.yaml", "CFG060", "error", {"beta": 0.0}),
    ("pairs.yaml", "CFG062", "info", {"method": "kto", "device": 1}),
    ("pairs.yaml", "CFG051", "warning", {"warmup": 0.95}),
    ("pairs.yaml", "CFG053", "warning", {"epsilon": 1e-4}),
    ("factory_pairs.yaml", "CFG060", "error", {"beta": 0.0}),
    ("factory_pairs.yaml", "CFG061", "warning", {"loss": "hinge", "smoothing": 0.1}),
    ("factory_pairs.yaml", "CFG059", "warning", {"tuner": "full", "lr": 5e-5}),
    ("factory_pairs.yaml", "CFG063", "warning", {"more": START}),
    ("swift.sh", "CFG063", "warning", {"more": "--adapters out/sft --beta 0.04"}),
    ("factory_pairs.yaml", "CFG064", "warning", {"more": "max_steps: 1\n"}),
    ("trl.py", "CFG064", "info", {"more": "warmup_steps=2, max_steps=10,"}),
    ("dpo.py", "CFG066", "info", {"beta": 5.0}),
    ("kto.sh", "CFG066", "info", {"beta": 5}),
    ("verl.sh", "CFG065", "warning", {"more": f"{ADAPTIVE} algorithm.kl_ctrl.target_kl=1e-4"}),
]
SILENT: list[tuple[str, str, dict[str, object]]] = [
    ("verl.sh", "CFG048", {"model": MIXTURE, "more": "actor_rollout_ref.actor.router_replay.mode=R3"}),
    ("verl.sh", "CFG048", {"model": MIXTURE, "mode": "gspo", "high": 4e-4}),
    ("trl.py", "CFG048", {"model": MIXTURE}),
    (
        "verl.sh",
        "CFG049",
        {"more": "actor_rollout_ref.rollout.quantization=fp8 algorithm.rollout_correction.rollout_is=token"},
    ),
    ("verl.sh", "CFG049", {"more": "actor_rollout_ref.rollout.dtype=bfloat16"}),
    ("areal.yaml", "CFG050", {"stale": 4}),
    ("trl.py", "CFG067", {"passed": ", processing_class=tokenizer"}),
    ("trl.py", "CFG068", {"score": "1.0", "passed": ", rollout_func=roll"}),
    ("trl.py", "CFG068", {"score": "random.random()"}),
    ("slime.sh", "CFG023", {"batch": 256, "high": "0.28 --use-rollout-logprobs"}),
    ("verl.sh", "CFG023", {"mini": 256, "high": 0.28, "more": "algorithm.rollout_correction.bypass_mode=True"}),
    (
        "verl.sh",
        "CFG057",
        {"more": "actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.rollout.load_format=safetensors", "lr": 1e-5},
    ),
    ("verl.sh", "CFG057", {"more": "actor_rollout_ref.rollout.load_format=dummy"}),
    ("pairs.yaml", "CFG059", {"method": "orpo", "lr": 8e-6}),
    ("dpo.py", "CFG061", {"loss": "robust", "smoothing": 0.1}),
    ("kto.sh", "CFG062", {"device": 8}),
    ("trl.py", "CFG051", {"more": "warmup_steps=10, max_steps=200,"}),
    ("factory_pairs.yaml", "CFG063", {"more": f"{START}create_new_adapter: true\n"}),
    ("swift.sh", "CFG063", {"more": "--adapters out/sft --ref_adapters out/sft --beta 0.04"}),
    ("trl.py", "CFG064", {"more": "warmup_steps=0, max_steps=10,"}),
    ("dpo.py", "CFG066", {"beta": 0.5}),
    ("verl.sh", "CFG065", {"more": f"{ADAPTIVE} algorithm.kl_ctrl.target_kl=0.1"}),
    ("verl.sh", "CFG065", {"more": "algorithm.kl_ctrl.target_kl=1e-4"}),
]
"""Configurations that look faulty and are right."""


def found(folder: Path, name: str, **changes: object) -> dict[str, str]:
    """Return code and severity of each finding on the configuration with these changes."""
    text, right = FRAMEWORKS[name]
    (path := folder / name).write_text(text.format(**{**right, **changes}), encoding="utf-8")
    (configuration,) = read(path)
    return {f.code: f.severity for f in judge(configuration, str(path)).findings}


@pytest.mark.parametrize(("name", "code", "severity", "changes"), FAULTS)
def test_a_planted_fault_is_found(
    tmp_path: Path, name: str, code: str, severity: str, changes: dict[str, object]
) -> None:
    assert found(tmp_path, name, **changes).get(code) == severity


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_fixed_version_is_silent(tmp_path: Path, name: str) -> None:
    right = found(tmp_path, name)
    planted = {code for framework, code, _, _ in FAULTS if framework == name}
    assert not planted & (right.keys() - {"CFG016"} if name == "trl.py" else right.keys()), right
    assert not {"warning", "error"} & set(right.values()), right


@pytest.mark.parametrize(("name", "code", "changes"), SILENT)
def test_the_correct_counterpart_is_silent(tmp_path: Path, name: str, code: str, changes: dict[str, object]) -> None:
    assert code not in found(tmp_path, name, **changes)


def test_an_estimator_without_a_group_needs_none(tmp_path: Path) -> None:
    assert found(tmp_path, "verl.sh", estimator="gae", n=1).keys().isdisjoint({"CFG001", "CFG013"})
    assert found(tmp_path, "openrlhf.sh", estimator="reinforce", k=1).keys().isdisjoint({"CFG001", "CFG013"})


def test_keys_that_a_command_adds_to_hydra_are_accepted(tmp_path: Path) -> None:
    assert "CFG016" not in found(tmp_path, "verl.sh", more="+algorithm.rollout_is=True")
    assert "CFG016" not in found(tmp_path, "verl.sh", more="algorithm.rollout_is=True; pip install verl==0.5.0")


OF_LOGS = "CFG008"
"""Judges the groups that a log records; those that a configuration declares are judged by CFG033."""


def test_every_rule_is_planted() -> None:
    rules = {check.code for check in load().checks.values() if judges_settings(check)}
    assert rules - {OF_LOGS} == {fault[1] for fault in FAULTS}
