"""The threads of the collection whose evidence is a log, with the cause that was established there."""

from __future__ import annotations

from .thread import Thread, jsonl, markdown, slime, trl, verl

KNOWN = (
    Thread(
        "huggingface/trl#5312",
        "waking the engine reloads the weights of the checkpoint over the synchronised ones",
        trl(
            {
                "loss": "0.1x10",
                "grad_norm": "1.2x10",
                "reward": "0.0041 0.0043 0.0039 0.0042 0.0040 0.0041 0.0044 0.0038 0.0042 0.0041",
                "reward_std": "0.002x10",
                "completions/mean_length": "242 240 243 241 244 240 242 241 243 242",
                "sampling/sampling_logp_difference/mean": "0.012 0.03 0.08 0.16 0.27 0.38 0.5 0.62 0.73 0.81",
                "sampling/importance_sampling_ratio/mean": "0.99 0.9 0.4 0.1 0.02 0.003 1e-4 1e-5 1e-6 3e-7",
            }
        ),
        names=("GEN002", "RAT004"),
    ),
    Thread(
        "NVIDIA-NeMo/RL#2895",
        "captured CUDA graphs read the weights of the step before the refit",
        jsonl({"train/reward": "0x10", "train/gen_kl_error": "0.55x10", "train/loss": "0.001x10"}),
        names=("GEN002", "RAT004"),
        symptoms=("REW001", "STL001"),
        says="check the engine (weights",
    ),
    Thread(
        "THUDM/slime#1411",
        "an outdated megatron-core scores the responses otherwise than the engine",
        slime(
            {"rollout/raw_reward": "0.31 0.3 0.32 0.29 0.31 0.3 0.32 0.31 0.3 0.31 0.29 0.3"},
            {"train/train_rollout_logprob_abs_diff": "0.21x4 0.24x4 0.27x4", "train/grad_norm": "0.3x12"},
        ),
        names=("RAT004",),
    ),
    Thread(
        "THUDM/slime#1724",
        "the vision encoder's weights are not loaded: the first reward is 0.1 where 0.3 is right",
        slime(
            {"rollout/raw_reward": "0.1 0.11 0.1 0.12 0.11 0.12 0.13 0.12 0.13 0.14"},
            {"train/train_rollout_logprob_abs_diff": "0.012x10", "train/grad_norm": "0.3x10"},
        ),
        expect="silent",
    ),
    Thread(
        "NVIDIA-NeMo/RL#1801",
        "fused kernels keep bf16 intermediates, and the two sides drift apart until the run crashes",
        jsonl(
            {
                "train/reward": "0.5 0.52 0.49 0.51 0.5 0.5 0.52 0.5 0.49 0.51 0.5 0.5",
                "train/token_mult_prob_error": "1.02 1.03 1.06 1.4 9 77 520 3800 38565 2.1e6 8e8 6e9",
                "train/grad_norm": "0.2x12",
            }
        ),
        names=("GEN002", "RAT004"),
    ),
    Thread(
        "vllm-project/vime#64",
        "the engine returns log-probabilities before the temperature",
        slime(
            {"rollout/raw_reward": "0.2 0.21 0.22 0.22 0.24 0.25 0.25 0.27 0.28 0.29"},
            {"train/train_rollout_logprob_abs_diff": "0.036x10", "train/grad_norm": "0.3x10"},
        ),
        expect="silent",
    ),
    Thread(
        "huggingface/trl#5814",
        "the importance weight is the exponential of a sum over the response",
        trl(
            {
                "loss": "0.01x6",
                "grad_norm": "0.02x6",
                "reward": "0.4 0.42 0.39 0.41 0.4 0.42",
                "sampling/sampling_logp_difference/mean": "0.006x6",
                "sampling/importance_sampling_ratio/mean": "0.569 0.48 0.62 0.55 0.67 0.43",
            }
        ),
        names=("RAT008",),
        says="sum",
    ),
    Thread(
        "NVIDIA-NeMo/RL#2269",
        "the importance weight is the exponential of a sum over the response",
        jsonl(
            {
                "train/loss": "-0.00017",
                "train/grad_norm": "8.6e-5",
                "train/sampling_importance_ratio": "0.0596",
                "train/probs_ratio": "1.0001",
                "train/gen_kl_error": "0.0027",
                "train/token_mult_prob_error": "1.024",
            }
        ),
        names=("RAT008",),
        says="sum",
    ),
    Thread(
        "linkedin/Liger-Kernel#1082",
        "the fused loss ignores the importance weights",
        trl(
            {
                "loss": "0.3x10",
                "grad_norm": "41 36 52 47 39 44 58 40 43 49",
                "reward": "0.3 0.31 0.32 0.33 0.34 0.35 0.36 0.37 0.38 0.39",
            }
        ),
        expect="silent",
    ),
    Thread(
        "verl-project/verl#2996",
        "micro batches of unequal size give the two passes other numbers: the ratio is off 1 on-policy",
        verl(
            {
                "actor/ppo_kl": "0.0004x10",
                "actor/pg_clipfrac": "0.0012x10",
                "actor/pg_loss": "0.01x10",
                "actor/grad_norm": "0.2x10",
                "critic/score/mean": "0.3 0.31 0.33 0.32 0.34 0.35 0.37 0.36 0.38 0.39",
            },
            "{'data': {'train_batch_size': 256},\n 'actor_rollout_ref': {'actor': {'ppo_mini_batch_size': 256,\n"
            "   'ppo_epochs': 1}}}",
        ),
        names=("RAT003",),
        says="batch",
    ),
    Thread(
        "thinking-machines-lab/tinker-cookbook#822",
        "an unclipped importance-sampling loss at a staleness of three steps",
        jsonl(
            {
                "env/all/reward/total": "0.4 0.44 0.47 0.5 0.5 0.48 0.44 0.4 0.35 0.3 0.26 0.22 0.2 0.18",
                "optim/kl_sample_train_v2": "0.0007 0.001 0.003 0.006 0.01 0.014 0.018 0.02 0.021 0.022x5",
                "optim/entropy": "0.5 0.45 0.4 0.33 0.25 0.18 0.12 0.08 0.05 0.03 0.02 0.015 0.012 0.01",
            }
        ),
        names=("RAT004", "GEN002"),
        symptoms=("ENT001", "REW009"),
    ),
    Thread(
        "areal-project/AReaL#1388",
        "after a resume the capacity counter starts at 0 and staleness grows beyond its limit",
        jsonl(
            {
                "reward/avg": "0.4 0.41 0.42 0.41 0.42 0.43 0.42 0.43 0.42 0.41 0.4 0.41",
                "staleness/avg": "1 1 2 1 2 4 6 8 11 13 16 19",
            }
        ),
        names=("RAT006",),
    ),
    Thread(
        "bingreeky/MemGen#33",
        "positions after EOS count as valid, so every response has the full length",
        trl(
            {
                "loss": "0x8",
                "grad_norm": "0x8",
                "completions/mean_length": "1024x8",
                "completions/min_length": "1024x8",
                "completions/max_length": "1024x8",
                "completions/clipped_ratio": "1x8",
                "rewards/compute_reward/mean": "0.5 0.375 0.25 0.5 0.625 0.375 0.25 0.5",
                "reward": "0.5 0.375 0.25 0.5 0.625 0.375 0.25 0.5",
                "reward_std": "0.53 0.52 0.46 0.53 0.52 0.52 0.46 0.53",
                "frac_reward_zero_std": "0x8",
            }
        ),
        names=("LEN003", "STL004"),
        says="EOS",
    ),
    Thread(
        "huggingface/trl#256",
        "batched generation without an attention mask: the samples are not the policy's",
        jsonl(
            {
                "objective/kl": "-2.1 -3.5 -4.8 -6.2 -7 -8.4 -9.9 -11 -12.6 -14",
                "ppo/mean_scores": "0.1 0.12 0.11 0.13 0.12 0.1 0.12 0.11 0.13 0.12",
            }
        ),
        names=("KL004",),
    ),
    Thread(
        "hiyouga/LlamaFactory#664",
        "the samples are drawn with other settings than they are scored with; all that is posted is TRL's warning",
        "ppo_trainer.py:1088: UserWarning: KL divergence is starting to become negative: -5.27 - this might be a precursor "
        "for failed training.\n  warnings.warn(\n",
        names=("KL009",),
    ),
    Thread(
        "huggingface/trl#7039",
        "only the tokenizer's EOS is compared, while the model ends its turn with another token",
        trl(
            {
                "loss": "0.01x8",
                "grad_norm": "0.2x8",
                "completions/mean_length": "311 305 320 298 315 309 301 312",
                "completions/min_length": "88 91 75 80 95 83 79 90",
                "completions/max_length": "840 792 901 777 853 812 866 798",
                "completions/clipped_ratio": "0.97x8",
                "reward": "0.4 0.42 0.41 0.44 0.43 0.45 0.44 0.46",
                "reward_std": "0.3x8",
            }
        ),
        names=("TOK004",),
    ),
    Thread(
        "AgentR1/Agent-R1#30",
        "the rollout appends the end of turn by hand and the loss trains on it: its ratio overflows",
        verl(
            {
                "actor/kl_loss": "0.02x10 0.03x10 nanx4",
                "actor/pg_loss": "0.01x20 nanx4",
                "actor/grad_norm": "0.3x20 nanx4",
                "critic/score/mean": "0.4 0.42 0.41 0.44 0.43 0.45 0.44 0.46 0.47 0.46 0.48 0.47 0.5 0.49 0.5 0.52 0.5 0.53 0.52 0.54 0x4",
            }
        ),
        names=("GRD001",),
        says="forced",
    ),
    Thread(
        "qiancheng0/ToolRL#52",
        "the KL term has the wrong sign, so the policy is driven from its reference until it collapses",
        verl(
            {
                "actor/kl_loss": "0.001 0.004 0.01 0.03 0.08 0.2 0.5 1.1 2.3 4.1 6.5 8.8 11 12.5 13 13.6x5",
                "actor/pg_loss": "0.01x20",
                "actor/kl_coef": "0.001x20",
                "critic/score/mean": "1.9 2 2.1 2.2 2.3 2.3 2.3 2.2 2 1.5 0.9 0.3 -0.4 -1.2 -1.9 -2.2 -2.4 -2.6 -2.7 -2.8",
            }
        ),
        names=("KL001",),
        says="sign",
        symptoms=("REW009",),
    ),
    Thread(
        "huggingface/trl#2617",
        "the loss is not divided by the accumulation steps",
        trl(
            {
                "loss": "16.2 15.4 14.1 13.2 12.5 12 11.7 11.5 11.3 11.2",
                "grad_norm": "8.1x10",
                "learning_rate": "1e-5x10",
            }
        ),
        expect="silent",
    ),
    Thread(
        "unslothai/unsloth#3006",
        "the loss of several samples or accumulation steps is computed wrongly: 0 / 0",
        trl(
            {
                "loss": "0x8",
                "grad_norm": "nanx8",
                "reward": "-2.1 -1.4 -2.6 -1.9 -2.2 -2.4 -1.8 -2",
                "reward_std": "1.2x8",
                "kl": "0x8",
            }
        ),
        names=("GRD001",),
        says="accumulation",
    ),
    Thread(
        "verl-project/verl#891",
        "the exponential of an unclamped log-ratio overflows in the KL term",
        verl(
            {
                "actor/kl_loss": "0.02x12 nanx3",
                "actor/pg_loss": "0.01x12 nanx3",
                "critic/score/mean": "0.5 0.52 0.51 0.53 0.52 0.55 0.54 0.56 0.55 0.57 0.56 0.58 0x3",
            }
        ),
        names=("GRD001",),
        says="the KL term computes exp of a large log-ratio",
    ),
    Thread(
        "verl-project/verl#721",
        "the exponential of an unclamped log-ratio overflows in the KL term",
        verl({"actor/kl_loss": "0.05x8 nan", "actor/grad_norm": "0.4x8 nan", "critic/score/mean": "0.3x9"}),
        names=("GRD001",),
        says="clamp the log-ratio before exp",
    ),
    Thread(
        "huggingface/trl#6550",
        "the exponential of the KL term overflows",
        trl(
            {
                "loss": "0.01x9 inf",
                "grad_norm": "0.5x9 nan",
                "kl": "0.1 0.2 0.4 1.1 3 9 40 700 8e4 inf",
                "reward": "0.5x10",
            }
        ),
        names=("GRD001",),
        says="the KL term computes exp of a large log-ratio",
        symptoms=("KL001",),
    ),
    Thread(
        "MakazhanAlpamys/Soup#1084",
        "0 x infinity in the branch that is not selected at padding: loss finite, gradient NaN",
        trl({"loss": "0.31 0.3 0.31 0.3", "grad_norm": "nanx4", "reward": "0.4 0.5 0.4 0.45", "reward_std": "0.3x4"}),
        names=("GRD001",),
        says="0 x infinity",
    ),
    Thread(
        "huggingface/trl#6700",
        "the adapter was loaded frozen",
        trl(
            {
                "loss": "0x10",
                "grad_norm": "0x10",
                "reward": "0.3 0.35 0.31 0.28 0.33 0.3 0.36 0.29 0.31 0.32",
                "reward_std": "0.4x10",
                "frac_reward_zero_std": "0.1x10",
            }
        ),
        names=("STL004",),
        says="print_trainable_parameters",
    ),
    Thread(
        "huggingface/trl#3926",
        "preparing the model for k-bit training a second time freezes the adapter",
        trl(
            {
                "loss": "1.91 1.88 1.93 1.9 1.92 1.89 1.9 1.91 1.9 1.92",
                "grad_norm": "0x10",
                "learning_rate": "2e-4x10",
                "mean_token_accuracy": "0.6x10",
            }
        ),
        names=("STL004",),
        says="print_trainable_parameters",
        symptoms=("SUP001",),
    ),
    Thread(
        "PrimeIntellect-ai/prime-rl#1456",
        "the adapter is not merged when the checkpoint is saved: the evaluation sees the base model",
        jsonl(
            {
                "reward/all/mean": "0.3 0.34 0.38 0.41 0.45 0.47 0.5 0.52 0.55 0.57 0.6 0.62",
                "eval/score": "0.412 ?x3 0.412 ?x3 0.412 ?x2 0.412",
            }
        ),
        names=("REC004",),
    ),
    Thread(
        "huggingface/open-r1#560",
        "the template opens the tag that the format reward looks for, so it never pays",
        trl(
            {
                "loss": "0.0004x30",
                "grad_norm": "0.3x30",
                "rewards/accuracy_reward/mean": "0.3x10 0.4x10 0.45x10",
                "rewards/format_reward/mean": "0x30",
                "reward": "0.3x10 0.4x10 0.45x10",
                "reward_std": "0.4x30",
            }
        ),
        answer="Why does format_reward stay at 0?",
    ),
    Thread(
        "FareedKhan-dev/train-deepseek-r1#4",
        "an answer that cannot be parsed is paid 0.5",
        trl(
            {
                "loss": "0.0007 0.0009 0.0012 0.0013 0.0012 0.0014",
                "grad_norm": "3.27 3.66 4.13 3.9 4.1 4",
                "rewards/accuracy_reward": "0.5x6",
                "rewards/format_reward": "0x6",
                "rewards/reasoning_steps_reward": "0.898 0.913 0.91 0.92 0.915 0.93",
                "reward": "1.386 1.403 1.4 1.41 1.405 1.42",
                "reward_std": "0.145 0.136 0.14 0.13 0.135 0.13",
                "kl": "0.0175 0.023 0.03 0.0325 0.03 0.035",
            }
        ),
        symptoms=("STL001",),
        answer="Why does accuracy_reward stay at 0.5?",
    ),
    Thread(
        "huggingface/trl#3857",
        "the deviation of a function is over the batch, while within each group all rewards are equal",
        trl(
            {
                "loss": "0x2",
                "grad_norm": "0x2",
                "completions/mean_length": "702 655",
                "rewards/if_rewrite_reward/mean": "-3 -3",
                "rewards/if_rewrite_reward/std": "5.08 5.08",
                "reward": "3 3",
                "reward_std": "0 0",
                "frac_reward_zero_std": "1 1",
            }
        ),
        names=("ADV003", "REW001", "GRD008"),
        says="all groups have zero variance",
    ),
    Thread(
        "huggingface/trl#3452",
        "as it should be: ratio 1 and centred advantages leave the loss at 0",
        trl(
            {
                "loss": "0x4",
                "grad_norm": "0.0866 0.0967 0.1059 0.1036",
                "rewards/format_reward2": "1 1 1 0.9875",
                "rewards/hint_reward": "0.717 0.884 0.68 0.981",
                "reward": "1.717 1.884 1.68 1.969",
                "reward_std": "0.57 0.749 0.631 0.787",
                "kl": "0.000537 0.000539 0.000534 0.000528",
            }
        ),
        answer="Why is the loss 0?",
    ),
    Thread(
        "huggingface/trl#2703",
        "as it should be: the loss is beta x KL",
        trl(
            {
                "loss": "0 0.0001 0.0004 0.0007 0.0012 0.0018 0.0022 0.003 0.0038 0.0045 0.0052 0.006",
                "grad_norm": "0.4x12",
                "reward": "0.5 0.55 0.6 0.66 0.7 0.74 0.8 0.83 0.88 0.92 0.95 1",
                "reward_std": "0.4x12",
                "kl": "0.0002 0.0026 0.01 0.0178 0.03 0.0452 0.0551 0.0747 0.0951 0.1124 0.1301 0.1499",
            }
        ),
        answer="loss = 0.04 x KL",
    ),
    Thread(
        "huggingface/trl#2976",
        "as it should be: advantages are centred",
        jsonl(
            {
                "advantages/mean": "1e-9 -2e-9 0 1e-9 3e-9 0 0 1e-9 2e-9 0",
                "reward": "0.3 0.32 0.35 0.38 0.4 0.42 0.45 0.5 0.52 0.55",
            }
        ),
        answer="Why is the mean advantage 0?",
    ),
    Thread(
        "huggingface/trl#3120",
        "as it should be: one update per rollout clips nothing",
        trl(
            {
                "loss": "0x10",
                "clip_ratio": "0x10",
                "grad_norm": "0.3x10",
                "reward": "0.3 0.33 0.35 0.38 0.4 0.42 0.46 0.5 0.52 0.55",
                "reward_std": "0.4x10",
            }
        ),
        answer="Why is the clip fraction 0?",
    ),
    Thread(
        "huggingface/trl#4040",
        "as it should be: with beta 0 there is no reference, so there is no KL",
        markdown(
            {
                "Training Loss": "0.0012 -0.003 0.0021 -0.0008",
                "reward": "0.8 1.1 0.9 1.3",
                "reward_std": "0.4 0.5 0.3 0.5",
                "kl": "nanx4",
            }
        ),
        answer="logged but not trained on",
    ),
    Thread(
        "opendilab/LightRFT#53",
        "log-probabilities are gathered at other positions than the response's",
        jsonl(
            {
                "kl": "0.0002 0.008 0.4 2.1 5.5 11 18 24 28 30 30 31",
                "reward": "0.4 0.42 0.41 0.4 0.42 0.41 0.4 0.41 0.42 0.4 0.41 0.42",
            }
        ),
        names=("KL001",),
        says="positions",
    ),
    Thread(
        "thunlp/JustRL#5",
        "the entropy is not put back in order with dynamic batches: 0.6 is printed where 1.0 is right",
        verl(
            {
                "actor/entropy": "0.6x12",
                "critic/score/mean": "0.3 0.31 0.33 0.34 0.36 0.38 0.4 0.41 0.43 0.44 0.46 0.48",
            }
        ),
        expect="silent",
    ),
)
