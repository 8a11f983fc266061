"""Threads whose evidence is a setting, from the collection and four others: the posted configuration.

A comment pins the version of a thread, that of its date, because only that version has the code in question.
"""

from __future__ import annotations

import json

from .thread import Thread

SHARPENED = json.dumps(
    {
        "do_sample": True,
        "eos_token_id": [151645, 151643],
        "pad_token_id": 151643,
        "repetition_penalty": 1.05,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "transformers_version": "4.45.0",
    }
)
"""Generation settings that instruct models ship with their weights, which engines use by default."""

SET = (
    *(
        Thread(
            at,
            "the sampler takes the model's generation_config.json: penalties and filters that the loss does not know",
            SHARPENED,
            names=("CFG005",),
            file="generation_config.json",
        )
        for at in ("verl-project/verl#7270", "OpenPipe/ART#140", "PrimeIntellect-ai/prime-rl#886")
    ),
    Thread(
        "huggingface/trl#4159",
        "the engine's log-probabilities are those before the temperature, and the weights correct for the difference",
        """# trl==0.23.0
from trl import GRPOConfig

args = GRPOConfig(
    output_dir="out",
    learning_rate=1e-6,
    num_generations=8,
    per_device_train_batch_size=8,
    temperature=0.6,
    use_vllm=True,
    vllm_mode="colocate",
    vllm_importance_sampling_correction=True,
    beta=0.0,
)
""",
        names=("CFG039",),
        file="train.py",
    ),
    Thread(
        "huggingface/trl#2856",
        "the adapter is not merged before the weights go to the engine, which plays the base model",
        """# trl==0.15.0
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig(output_dir="out", learning_rate=1e-5, num_generations=8, per_device_train_batch_size=8, use_vllm=True)
trainer = GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=args, peft_config=LoraConfig(r=16, lora_alpha=32))
""",
        names=("CFG039",),
        file="train.py",
    ),
    Thread(
        "huggingface/trl#7270",
        "a subclass changes the loss, and the fused path never calls it",
        """from trl import GRPOConfig, GRPOTrainer


class Penalised(GRPOTrainer):
    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, inputs) + 0.1


args = GRPOConfig(
    output_dir="out", learning_rate=1e-6, num_generations=8, per_device_train_batch_size=8, use_liger_kernel=True
)
""",
        names=("CFG035",),
        file="train.py",
    ),
    Thread(
        "verl-project/verl#4514",
        "this bridge between the weights' formats leaves the adapter without a gradient",
        "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer algorithm.adv_estimator=grpo "
        "data.train_batch_size=128 actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B "
        "actor_rollout_ref.model.lora.rank=32 actor_rollout_ref.actor.optim.lr=1e-5 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.n=8 "
        "actor_rollout_ref.actor.megatron.use_mbridge=True actor_rollout_ref.actor.megatron.vanilla_mbridge=False\n",
        file="train.sh",
        expect="silent",
    ),
    Thread(
        "insait-institute/open-proof-corpus#2",
        "a mini-batch of more prompts than a rollout has",
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=16 "
        "actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.n=8\n",
        names=("CFG018",),
        file="train.sh",
    ),
    Thread(
        "hiyouga/EasyR1#44",
        "six GPUs cannot share out the responses of a rollout evenly",
        "python3 -m verl.trainer.main data.rollout_batch_size=512 worker.actor.global_batch_size=128 worker.rollout.n=5 "
        "algorithm.adv_estimator=grpo trainer.n_gpus_per_node=6 trainer.nnodes=1\n",
        names=("CFG037",),
        file="train.sh",
    ),
    Thread(
        "huggingface/open-r1#249",
        "seven processes with one response each are no whole group of eight; what is accumulated did not count then",
        "pip install trl==0.15.0\naccelerate launch --num_processes 7 src/open_r1/grpo.py --num_generations 8 "
        "--per_device_train_batch_size 1 --gradient_accumulation_steps 8\n",
        names=("CFG017",),
        file="train.sh",
        expect="silent",  # forks of that script count prompts, so it is a remark
    ),
    Thread(
        "huggingface/trl#2858",
        "one response a step is no whole group of eight; what is accumulated did not count then",
        "pip install trl==0.15.0\naccelerate launch --num_processes 1 -m trl.scripts.grpo --num_generations 8 "
        "--per_device_train_batch_size 1 --gradient_accumulation_steps 8\n",
        names=("CFG017",),
        file="train.sh",
    ),
    Thread(
        "jingyaogong/minimind#755",
        "a learning rate of 1e-8: nothing can be learnt",
        "torchrun --nproc_per_node=4 train_grpo.py --batch_size=2 --learning_rate=1e-8 --num_generations=12 --beta=0.07\n",
        names=("CFG031",),
        file="train.sh",
    ),
    Thread(
        "verl-project/verl#1191",
        "one GPU and two tensor-parallel parts; beside that, a mini-batch of more prompts than the rollout has",
        "Error executing job with overrides: ['algorithm.adv_estimator=grpo', 'data.train_batch_size=16', "
        "'actor_rollout_ref.actor.ppo_mini_batch_size=32', 'actor_rollout_ref.actor.optim.lr=5e-7', "
        "'actor_rollout_ref.rollout.n=16']\n",
        names=("CFG018",),
        file="comment.md",
    ),
    Thread(
        "verl-project/verl#538",
        "a mini-batch of more prompts than a rollout has",
        "```\npython3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=176 \\\n"
        "  actor_rollout_ref.actor.ppo_mini_batch_size=440 actor_rollout_ref.rollout.n=16 \\\n```\n",
        names=("CFG018",),
        file="comment.md",
    ),
    Thread(
        "modelscope/ms-swift#4677",
        "a learning rate of 5e-7 for an adapter: the reward only fluctuates",
        "swift rlhf\n  --rlhf_type grpo\n  --model Qwen/Qwen3-1_7B\n  --train_type lora\n  --learning_rate 5e-7\n"
        "  --num_generations 4\n",
        names=("CFG054",),
        file="comment.md",
    ),
    Thread(
        "modelscope/ms-swift#5271",
        "float16 and a filtered sampler, with one prompt an update: no reward with the engine, one without it",
        "```\nNPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --train_type lora --learning_rate 1e-5 --torch_dtype float16 "
        "--per_device_train_batch_size 1 --num_generations 8 --use_vllm true --top_p 0.99 --top_k 50\n```\n",
        symptoms=("CFG033",),
        answer="float16",
        file="comment.md",
    ),
    *(
        Thread(
            at,
            "the samples are drawn with filters that the loss does not know",
            f"python src/{script} --model_name_or_path b/B-7B --do_train --finetuning_type lora --learning_rate 1e-5 --reward_model out/rm {flags}\n",
            answer=f"top_p {top_p}",
            file="train.sh",
        )
        for at, script, flags, top_p in (
            ("hiyouga/LlamaFactory#98", "train_ppo.py", "", 0.7),
            ("hiyouga/LlamaFactory#3185", "train_bash.py", "--stage ppo --top_k 0 --top_p 0.9", 0.9),
        )
    ),
)
